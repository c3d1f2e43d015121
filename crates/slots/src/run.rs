//! Runs a command under a slot and releases the slot according to its outcome.
//!
//! The order makes it safe: take the slot, start the guard and record it in the slot, and only then start the
//! command. So whoever finds the slot after a crash knows which processes must be gone before it may be taken over.

use std::ffi::OsString;
use std::time::Duration;

use menagerie_kernel::guard::{Command, Control, GuardError, Guarded, Outcome, prepare, this_program};
use menagerie_kernel::{CallError, Session, Term};
use menagerie_znodes::Name;
use menagerie_znodes::slots::{self, Process};
use rustix::process::Signal;
use thiserror::Error;
use tokio::sync::mpsc;
use tracing::warn;

use crate::disarm;
use crate::error::SlotsError;
use crate::hold::HeldSlot;

/// How long to retry a release before the slot is left held.
pub const RELEASE_PATIENCE: Duration = Duration::from_secs(60);

/// Exit code for a program that could not be started.
const NOT_STARTED: i32 = 126;

/// What happens to the slot when the command fails.
#[expect(missing_docs, reason = "variants name themselves")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnFailure {
    /// Keep it: a host taken apart half-way is still out of service.
    Hold,
    Release,
}

/// What to run, and how.
#[expect(missing_docs, reason = "fields name themselves")]
#[derive(Debug, Clone)]
pub struct Plan {
    /// Program and arguments.
    pub command: Vec<OsString>,
    /// Shell command to run first; if it fails, the command does not run.
    pub on_acquire: Option<OsString>,
    /// Shell command to run after success, while the slot is still held; if it fails, so has the command.
    pub on_release: Option<OsString>,
    /// After success, take this watchdog out of service until somebody rearms it.
    pub disarm: Option<Name>,
    /// Time between SIGTERM and SIGKILL.
    pub grace: Duration,
    pub on_failure: OnFailure,
    /// How long to keep the slot after success.
    pub release_delay: Duration,
    /// Whether the command may read the terminal.
    pub take_terminal: bool,
}

/// How the run ended, and what became of the slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The command ended, and the slot was released.
    Released(Outcome),
    /// The command failed, and the slot is kept.
    Kept(Outcome),
    /// The command succeeded, but `on_release` failed, and the slot is kept.
    NotReleased(Outcome),
    /// `on_acquire` failed, so the command did not run; the slot was released, unless an earlier run had begun under
    /// it.
    NotWanted(Outcome),
    /// The watchdog was out of service by the time it had the slot: another run did the work. The slot was released.
    OutOfService,
    /// The slot was lost while the command ran; the command and its processes are gone.
    Lost,
}

/// Why the command did not run, or what is left to do after it.
#[expect(missing_docs, reason = "fields of errors name themselves")]
#[derive(Debug, Error)]
pub enum RunError {
    /// The command could not be started; the slot was released, unless an earlier run had begun under it.
    #[error("the command was not started")]
    NotStarted(#[from] GuardError),
    /// The command ended, but the slot could not be released.
    #[error("slot {slot} is still held: it could not be given back within {} s", RELEASE_PATIENCE.as_secs())]
    StillHeld {
        slot: u32,
        /// How the command ended.
        outcome: Option<Outcome>,
    },
    #[error(transparent)]
    Slots(#[from] SlotsError),
}

/// The outcome of one program under the slot.
enum Phase {
    Ended(Outcome),
    Lost,
}

/// Runs the plan under a held slot. Forwards `signals` to the command's process group.
pub async fn run(
    session: &Session,
    pool: &Name,
    mut held: HeldSlot,
    plan: &Plan,
    signals: &mut mpsc::Receiver<Signal>,
) -> Result<Ended, RunError> {
    if let Some(holder) = &plan.disarm
        && disarm::is_disarmed(session, pool, holder).await?
    {
        release_patiently(&held, None).await?;
        return Ok(Ended::OutOfService);
    }
    let mut work = Work { session, pool, held: &mut held, plan, signals, has_begun: false };
    if let Some(hook) = &plan.on_acquire {
        match work.phase(&shell(hook)).await? {
            Phase::Lost => return Ok(Ended::Lost),
            Phase::Ended(Outcome::Exited(0)) => {}
            Phase::Ended(outcome) => {
                release_unused(&held).await?;
                return Ok(Ended::NotWanted(outcome));
            }
        }
    }
    let Phase::Ended(mut outcome) = work.phase(&plan.command).await? else { return Ok(Ended::Lost) };
    work.has_begun = true;
    let succeeded = outcome == Outcome::Exited(0);
    if let (true, Some(hook)) = (succeeded, &plan.on_release) {
        outcome = match work.phase(&shell(hook)).await {
            Ok(Phase::Ended(after)) => after,
            Ok(Phase::Lost) => return Ok(Ended::Lost),
            // Treat it as failed: the step before the release was not done.
            Err(RunError::NotStarted(error)) => {
                warn!(%error, "what is to be run before the release was not started");
                Outcome::Exited(NOT_STARTED)
            }
            Err(error) => return Err(error),
        };
    }
    match (outcome, plan.on_failure) {
        (Outcome::Exited(0), _) => work.succeeded().await?,
        (_, OnFailure::Hold) if !held.holder().ephemeral => {
            return Ok(if succeeded { Ended::NotReleased(outcome) } else { Ended::Kept(outcome) });
        }
        (_, OnFailure::Hold | OnFailure::Release) => {}
    }
    release_patiently(&held, Some(outcome)).await?;
    Ok(Ended::Released(outcome))
}

fn shell(hook: &OsString) -> Vec<OsString> {
    vec!["/bin/sh".into(), "-c".into(), hook.clone()]
}

/// Work under one slot.
struct Work<'a> {
    session: &'a Session,
    pool: &'a Name,
    held: &'a mut HeldSlot,
    plan: &'a Plan,
    signals: &'a mut mpsc::Receiver<Signal>,
    /// The command has run.
    has_begun: bool,
}

impl Work<'_> {
    /// Runs one program to its end, or until the slot is lost. If it cannot be started, releases the slot.
    async fn phase(&mut self, command: &[OsString]) -> Result<Phase, RunError> {
        let mut guarded = match self.start(command).await {
            Ok(guarded) => guarded,
            // The end of the lease is the only deadline.
            Err(RunError::NotStarted(GuardError::TooLate { .. })) => return Ok(Phase::Lost),
            Err(error) => {
                if !self.has_begun {
                    release_unused(self.held).await?;
                }
                return Err(error);
            }
        };
        let control = guarded.control().clone();
        let outcome = {
            let watch = watch(self.session, self.pool, self.held, &control);
            tokio::pin!(watch);
            loop {
                tokio::select! {
                    outcome = guarded.wait() => break Some(outcome),
                    () = &mut watch => break None,
                    Some(signal) = self.signals.recv() => control.signal(signal),
                }
            }
        };
        match outcome {
            // The deadline of an ephemeral slot is the end of its session.
            Some(Outcome::Expired) => Ok(Phase::Lost),
            Some(outcome) => Ok(Phase::Ended(outcome)),
            None => {
                // Another holder may be admitted at any moment: stop now.
                control.stop(self.grace());
                guarded.wait().await;
                Ok(Phase::Lost)
            }
        }
    }

    async fn start(&mut self, command: &[OsString]) -> Result<Guarded, RunError> {
        let (program, args) = command.split_first().expect("the command line has a program");
        let mut command = Command::new(program, self.grace())
            .args(args)
            .env("MENAGERIE_POOL", self.pool.as_str())
            .env("MENAGERIE_SLOT", self.held.number().to_string());
        if let Some(fence) = self.held.fence() {
            command = command.env("MENAGERIE_FENCE", fence.to_string());
        }
        if let Some(term) = self.held.term() {
            command = command.deadline(*term.valid_until().borrow());
        }
        if self.plan.take_terminal {
            command = command.take_terminal();
        }
        let prepared = prepare(&command, this_program())?;
        let guard = prepared.guard();
        let leased = self.held.term().cloned();
        let lapsed = async {
            match leased {
                Some(term) => term.lapsed().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            written = self.held.set_guard(Process { pid: guard.pid, started: guard.start }) => written?,
            // The server may be silent for longer than the lease lasts.
            () = lapsed => {
                let program = program.to_string_lossy().into_owned();
                return Err(GuardError::TooLate { program }.into());
            }
        }
        Ok(prepared.start().await?)
    }

    /// Time between SIGTERM and SIGKILL. Under a lease it is at most a quarter of the session's time-out: a longer
    /// one could exceed what is left of a healthy lease, and SIGTERM would come at once.
    fn grace(&self) -> Duration {
        match self.held.term() {
            Some(term) => self.plan.grace.min(term.timeout() / 4),
            None => self.plan.grace,
        }
    }

    /// After success: disarms the watchdog while the slot is still held, and keeps the slot for `release_delay`.
    async fn succeeded(&mut self) -> Result<(), RunError> {
        if let Some(holder) = &self.plan.disarm {
            let reason = self.held.holder().reason.clone().unwrap_or_default();
            match tokio::time::timeout(
                RELEASE_PATIENCE,
                disarm::disarm(self.session, self.pool, holder, &reason),
            )
            .await
            {
                Ok(disarmed) => disarmed?,
                Err(_) => {
                    let outcome = Some(Outcome::Exited(0));
                    return Err(RunError::StillHeld { slot: self.held.number(), outcome });
                }
            }
        }
        if self.plan.release_delay.is_zero() {
            // Even the shortest sleep lasts until the timer's next millisecond.
            return Ok(());
        }
        tokio::select! {
            () = tokio::time::sleep(self.plan.release_delay) => {}
            () = self.held.lost() => {}
            // A signal that ends us cuts the delay short.
            () = wait_for_end_signal(self.signals) => {}
        }
        Ok(())
    }
}

/// Waits for a signal that ends us; others, such as SIGWINCH, are meant for the command.
async fn wait_for_end_signal(signals: &mut mpsc::Receiver<Signal>) {
    while let Some(signal) = signals.recv().await {
        if matches!(signal, Signal::HUP | Signal::INT | Signal::QUIT | Signal::TERM) {
            return;
        }
    }
    std::future::pending().await
}

/// Runs until the slot is lost: keeps the guard's deadline at the end of the lease, and forwards an emergency stop.
async fn watch(session: &Session, pool: &Name, held: &HeldSlot, control: &Control) {
    let prolong = async {
        let Some(term) = held.term() else { return std::future::pending().await };
        let mut valid_until = term.valid_until();
        while valid_until.changed().await.is_ok() {
            control.set_deadline(*valid_until.borrow_and_update());
        }
        // The session is gone, and the guard has its last deadline.
        std::future::pending().await
    };
    let forwarded = async {
        forward_emergency_stop(session, pool, control).await;
        std::future::pending().await
    };
    tokio::select! {
        () = held.lost() => {}
        () = prolong => {}
        () = forwarded => {}
    }
}

/// Waits for an emergency stop with `tell`, and sends SIGTERM to the command.
async fn forward_emergency_stop(session: &Session, pool: &Name, control: &Control) {
    match session.across_terms(|term| async move { wait_for_stop_order(&term.patient(), pool).await }).await {
        Ok(()) => control.signal(Signal::TERM),
        Err(CallError::Closed) => {}
        Err(error) => warn!(%error, %pool, "cannot watch the pool for an emergency stop"),
    }
}

async fn wait_for_stop_order(term: &Term, pool: &Name) -> Result<(), CallError> {
    let znode = slots::pool(pool);
    loop {
        // A damaged pool may be mended.
        let Some((pool, watch)) = term.read_watched(&znode.maybe_damaged()).await? else {
            return Err(CallError::no_znode(&znode));
        };
        let frozen = pool.value.sound().and_then(|pool| pool.frozen);
        if frozen.is_some_and(|frozen| frozen.tell) {
            return Ok(());
        }
        if watch.changed().await == menagerie_kernel::session::Change::Ended {
            return Err(CallError::Expired);
        }
    }
}

/// Nothing ran under the slot, so release it; but keep it if an earlier run took the host apart half-way.
async fn release_unused(held: &HeldSlot) -> Result<(), RunError> {
    if held.is_resumed() {
        return Ok(());
    }
    release_patiently(held, None).await
}

/// Releases the slot, retrying for up to [`RELEASE_PATIENCE`].
async fn release_patiently(held: &HeldSlot, outcome: Option<Outcome>) -> Result<(), RunError> {
    match tokio::time::timeout(RELEASE_PATIENCE, held.release()).await {
        // Released by somebody else is fine, too.
        Ok(Ok(()) | Err(SlotsError::Lost { .. })) => Ok(()),
        Ok(Err(SlotsError::Call(error))) => {
            warn!(%error, "cannot give the slot back");
            Err(RunError::StillHeld { slot: held.number(), outcome })
        }
        Ok(Err(error)) => Err(error.into()),
        Err(_) => Err(RunError::StillHeld { slot: held.number(), outcome }),
    }
}
