//! What `slots run` and `slots watch` share: running a command under a slot.

use std::ffi::OsString;
use std::time::Duration;

use clap::{Args, ValueEnum};
use menagerie_kernel::Session;
use menagerie_slots::run::{self as engine, Ended, OnFailure, Plan, RunError};
use menagerie_slots::{HeldSlot, Request, identity};
use menagerie_types::exit_code;
use menagerie_znodes::Name;
use rustix::process::Signal;
use tokio::sync::mpsc;

use super::waiting::{Notice, WaitLimits, obtain};
use super::who::WhoArgs;
use super::window::{self, Window};
use crate::durations;
use crate::exit::{CliError, cannot};

/// Which command, and how.
#[derive(Debug, Args)]
pub struct WorkArgs {
    /// Name of the pool.
    pub pool: Name,
    #[command(flatten)]
    pub who: WhoArgs,
    /// Tie the slot to this process's ZooKeeper session. The command ends before the slot does, even if this process is
    /// stopped or cut off from ZooKeeper.
    #[arg(long)]
    ephemeral: bool,
    /// Priority in the queue, 0 to 999: higher goes first.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..=999))]
    priority: u16,
    /// What to do with the slot when the command fails [default: hold; release with --ephemeral].
    #[arg(long, value_enum)]
    on_failure: Option<OnFailureArg>,
    /// Keep the slot for this long after success.
    #[arg(long, value_name = "DURATION", allow_negative_numbers = true, value_parser = durations::parse, default_value = "0")]
    release_delay: Duration,
    /// Take a slot only at this time of day, in local time, such as 22:00-04:00.
    #[arg(long, value_name = "FROM-TO", value_parser = window::parse)]
    pub window: Option<Window>,
    /// Time between SIGTERM and SIGKILL, when the slot is lost or processes that the command left behind must end; with
    /// --ephemeral at most a quarter of the session time-out.
    #[arg(long, value_name = "DURATION", allow_negative_numbers = true, value_parser = durations::parse, default_value = "10s")]
    grace: Duration,
    /// Shell command to run once the slot is held, before COMMAND; if it fails, COMMAND does not run.
    #[arg(long, value_name = "CMD")]
    on_acquire: Option<OsString>,
    /// Shell command to run after COMMAND succeeds, before the slot is released; if it fails, COMMAND counts as failed.
    #[arg(long, value_name = "CMD")]
    on_release: Option<OsString>,
    /// Command and its arguments, after `--`.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum OnFailureArg {
    Hold,
    Release,
}

impl WorkArgs {
    /// Refuses contradictory options.
    pub fn check(&self) -> Result<(), CliError> {
        if self.ephemeral && matches!(self.on_failure, Some(OnFailureArg::Hold)) {
            return Err(CliError::Usage {
                what: "--ephemeral slots end with this process, so --on-failure hold cannot hold them"
                    .to_owned(),
                help: "leave out one of the two".to_owned(),
            });
        }
        Ok(())
    }

    /// The slot request.
    pub fn request(&self) -> Result<Request, CliError> {
        Ok(Request {
            priority: self.priority,
            ephemeral: self.ephemeral,
            command: self.command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
            process: Some(identity::this_process()),
            ..self.who.request()?
        })
    }

    /// What to run under the slot, and how.
    pub fn plan(&self, disarm: Option<Name>) -> Plan {
        let on_failure = match self.on_failure {
            Some(OnFailureArg::Release) => OnFailure::Release,
            Some(OnFailureArg::Hold) | None => OnFailure::Hold,
        };
        Plan {
            command: self.command.clone(),
            on_acquire: self.on_acquire.clone(),
            on_release: self.on_release.clone(),
            disarm,
            grace: self.grace,
            on_failure,
            release_delay: self.release_delay,
            take_terminal: true,
        }
    }
}

/// Waits for a slot, runs the plan under it and returns the exit code.
pub async fn work(
    session: &Session,
    args: &WorkArgs,
    wait: Option<Duration>,
    plan: &Plan,
    signals: &mut mpsc::Receiver<Signal>,
) -> Result<u8, CliError> {
    let request = args.request()?;
    let limits = WaitLimits { wait, window: args.window };
    let mut notice = Notice::new(&args.pool);
    let held = tokio::select! {
        held = obtain(session, &args.pool, &request, limits, &mut notice) => held?,
        signal = next_end_signal(signals) => return Err(CliError::Interrupted { signal: signal.as_raw() }),
    };
    notice.clear();
    run_under(session, &args.pool, held, plan, signals).await
}

/// The next signal that should end us.
pub async fn next_end_signal(signals: &mut mpsc::Receiver<Signal>) -> Signal {
    loop {
        match signals.recv().await {
            Some(signal @ (Signal::HUP | Signal::INT | Signal::QUIT | Signal::TERM)) => return signal,
            Some(_) => {}
            None => std::future::pending().await,
        }
    }
}

async fn run_under(
    session: &Session,
    pool: &Name,
    held: HeldSlot,
    plan: &Plan,
    signals: &mut mpsc::Receiver<Signal>,
) -> Result<u8, CliError> {
    let (slot, holder) = (held.number(), held.holder().holder.clone());
    let left = if held.is_resumed() {
        format!("an earlier run has begun, so {holder} keeps slot {slot} of pool {pool}")
    } else {
        format!("slot {slot} of pool {pool} is free again")
    };
    let kept = format!(
        "so {holder} keeps slot {slot} of pool {pool}; run it again to go on, or free it with `menagerie slots release \
         {pool} {holder} --force`"
    );
    let lost = || CliError::lost(format!("slot {slot} of pool {pool}; what ran under it has ended"));
    match engine::run(session, pool, held, plan, signals).await {
        Ok(Ended::Released(outcome)) => Ok(outcome.exit_code()),
        Ok(Ended::NotWanted(outcome)) => {
            eprintln!("--on-acquire failed, so the command was not run; {left}");
            Ok(outcome.exit_code())
        }
        Ok(Ended::Kept(outcome)) => {
            eprintln!("the command failed, {kept}");
            Ok(outcome.exit_code())
        }
        Ok(Ended::NotReleased(outcome)) => {
            eprintln!("the command succeeded, but --on-release failed, {kept}");
            Ok(outcome.exit_code())
        }
        Ok(Ended::OutOfService) => {
            eprintln!(
                "another run of {holder} has done it meanwhile; slot {slot} of pool {pool} is free again"
            );
            Ok(0)
        }
        Ok(Ended::Lost) => Err(lost()),
        Err(RunError::NotStarted(source)) => {
            eprintln!("{left}");
            Err(CliError::not_started(source))
        }
        Err(RunError::StillHeld { slot, .. }) => Err(CliError::Diagnosed {
            what: format!("slot {slot} of pool {pool} is still held: it could not be released in ZooKeeper"),
            because: None,
            help: format!("when ZooKeeper is back: `menagerie slots release {pool} {holder} --force`"),
            code: exit_code::UNAVAILABLE,
        }),
        Err(RunError::Slots(menagerie_slots::SlotsError::Lost { .. })) => Err(lost()),
        Err(RunError::Slots(source)) => Err(cannot(format!("run under a slot of pool {pool}"))(source)),
    }
}
