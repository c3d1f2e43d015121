//! Running a command while a slot is held, and giving the slot back as it ended.
//!
//! The order is what makes it safe: the slot is taken, the guard is started and written into the slot, and only then the
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
use crate::hold::Held;

/// How long a release is tried before the slot is left held.
pub const RELEASE_PATIENCE: Duration = Duration::from_secs(60);

/// The exit code of what should have run and could not be started.
const NOT_STARTED: i32 = 126;

/// What becomes of the slot when the command fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnFailure {
    /// It is kept: a host that was taken apart half is still out of service.
    Hold,
    /// It is given back.
    Release,
}

/// What to run, and how.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// Run by the shell before the command; if it fails, the command does not run.
    pub on_acquire: Option<OsString>,
    /// Run by the shell after the command has succeeded, while the slot is still held; if it fails, so has the command.
    pub on_release: Option<OsString>,
    /// After success, this watchdog is out of service until somebody puts it back.
    pub disarm: Option<Name>,
    /// Between SIGTERM and SIGKILL.
    pub grace: Duration,
    /// What becomes of the slot when it fails.
    pub on_failure: OnFailure,
    /// How long the slot is kept after success.
    pub release_delay: Duration,
    /// It may read the terminal.
    pub take_terminal: bool,
}

/// How it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The command ended, and the slot was given back.
    Released(Outcome),
    /// The command failed, and the slot is kept.
    Kept(Outcome),
    /// The command succeeded, but what was to run before the release failed, and the slot is kept.
    NotReleased(Outcome),
    /// What was to run before the command failed, so the command did not run; the slot was given back, unless an earlier
    /// run had begun under it.
    NotWanted(Outcome),
    /// The watchdog was out of service by the time it had the slot: another run has done the work. The slot was given back.
    OutOfService,
    /// The slot was lost while the command ran; nothing of it is left.
    Lost,
}

/// Why it did not run, or what is left to do.
#[derive(Debug, Error)]
pub enum RunError {
    /// The command could not be started; the slot was given back, unless an earlier run had begun under it.
    #[error("the command was not started")]
    NotStarted(#[from] GuardError),
    /// The command ended, but the slot could not be given back.
    #[error("slot {slot} is still held: it could not be given back within {} s", RELEASE_PATIENCE.as_secs())]
    StillHeld {
        /// The slot.
        slot: u32,
        /// How the command ended.
        outcome: Option<Outcome>,
    },
    /// The pool.
    #[error(transparent)]
    Slots(#[from] SlotsError),
}

/// How one program under the slot ended.
enum Phase {
    Ended(Outcome),
    Lost,
}

/// Runs the plan under a slot that is held. `signals` are passed on to the command's process group.
pub async fn run(
    session: &Session,
    pool: &Name,
    mut held: Held,
    plan: &Plan,
    signals: &mut mpsc::Receiver<Signal>,
) -> Result<Ended, RunError> {
    if let Some(holder) = &plan.disarm
        && disarm::is_disarmed(session, pool, holder).await?
    {
        give_back(&held, None).await?;
        return Ok(Ended::OutOfService);
    }
    let mut work = Work { session, pool, held: &mut held, plan, signals, begun: false };
    if let Some(hook) = &plan.on_acquire {
        match work.phase(&shell(hook)).await? {
            Phase::Lost => return Ok(Ended::Lost),
            Phase::Ended(Outcome::Exited(0)) => {}
            Phase::Ended(outcome) => {
                unbegun(&held).await?;
                return Ok(Ended::NotWanted(outcome));
            }
        }
    }
    let Phase::Ended(mut outcome) = work.phase(&plan.command).await? else { return Ok(Ended::Lost) };
    work.begun = true;
    let succeeded = outcome == Outcome::Exited(0);
    if let (true, Some(hook)) = (succeeded, &plan.on_release) {
        outcome = match work.phase(&shell(hook)).await {
            Ok(Phase::Ended(after)) => after,
            Ok(Phase::Lost) => return Ok(Ended::Lost),
            // As if it had failed: what should be done before the release is not done.
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
    give_back(&held, Some(outcome)).await?;
    Ok(Ended::Released(outcome))
}

fn shell(hook: &OsString) -> Vec<OsString> {
    vec!["/bin/sh".into(), "-c".into(), hook.clone()]
}

/// What is done under one slot.
struct Work<'a> {
    session: &'a Session,
    pool: &'a Name,
    held: &'a mut Held,
    plan: &'a Plan,
    signals: &'a mut mpsc::Receiver<Signal>,
    /// The command has run.
    begun: bool,
}

impl Work<'_> {
    /// Runs one program to its end, or until the slot is lost. What could not be started leaves no slot behind.
    async fn phase(&mut self, command: &[OsString]) -> Result<Phase, RunError> {
        let mut guarded = match self.start(command).await {
            Ok(guarded) => guarded,
            // The end of the lease is the only deadline.
            Err(RunError::NotStarted(GuardError::TooLate { .. })) => return Ok(Phase::Lost),
            Err(error) => {
                if !self.begun {
                    unbegun(self.held).await?;
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
                // Somebody else may be in already, or soon: no time to lose.
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

    /// Between SIGTERM and SIGKILL. Under a lease it must not be longer than what is left of it when all is well: SIGTERM
    /// would come at once.
    fn grace(&self) -> Duration {
        match self.held.term() {
            Some(term) => self.plan.grace.min(term.timeout() / 4),
            None => self.plan.grace,
        }
    }

    /// The command has done what it should: say so before the slot is free, and keep it a while if that was asked for.
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
            // Also the shortest sleep ends with the timer's next millisecond.
            return Ok(());
        }
        tokio::select! {
            () = tokio::time::sleep(self.plan.release_delay) => {}
            () = self.held.lost() => {}
            // Whoever asks us to end does not want to wait.
            () = asked_to_end(self.signals) => {}
        }
        Ok(())
    }
}

/// Until a signal asks us to end; the others, such as for a window that has another size, are for commands.
async fn asked_to_end(signals: &mut mpsc::Receiver<Signal>) {
    while let Some(signal) = signals.recv().await {
        if matches!(signal, Signal::HUP | Signal::INT | Signal::QUIT | Signal::TERM) {
            return;
        }
    }
    std::future::pending().await
}

/// Until the slot is lost: keeps the guard's deadline at the end of the lease, and passes an emergency stop on.
async fn watch(session: &Session, pool: &Name, held: &Held, control: &Control) {
    let prolong = async {
        let Some(term) = held.term() else { return std::future::pending().await };
        let mut valid_until = term.valid_until();
        while valid_until.changed().await.is_ok() {
            control.set_deadline(*valid_until.borrow_and_update());
        }
        // The session is gone, and the guard has its last deadline.
        std::future::pending().await
    };
    let told = async {
        tell(session, pool, control).await;
        std::future::pending().await
    };
    tokio::select! {
        () = held.lost() => {}
        () = prolong => {}
        () = told => {}
    }
}

/// Waits for an emergency stop that is to be told to what runs, and tells it.
async fn tell(session: &Session, pool: &Name, control: &Control) {
    match session.across_terms(|term| async move { frozen_and_told(&term.patient(), pool).await }).await {
        Ok(()) => control.signal(Signal::TERM),
        Err(CallError::Closed) => {}
        Err(error) => warn!(%error, %pool, "cannot watch the pool for an emergency stop"),
    }
}

async fn frozen_and_told(term: &Term, pool: &Name) -> Result<(), CallError> {
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

/// Nothing was done under the slot, so it is given back; but a host that an earlier run has taken apart half is still out.
async fn unbegun(held: &Held) -> Result<(), RunError> {
    if held.is_resumed() {
        return Ok(());
    }
    give_back(held, None).await
}

/// Gives the slot back, however long the server is away, but not for ever.
async fn give_back(held: &Held, outcome: Option<Outcome>) -> Result<(), RunError> {
    match tokio::time::timeout(RELEASE_PATIENCE, held.release()).await {
        // Released by somebody else is released.
        Ok(Ok(()) | Err(SlotsError::Lost { .. })) => Ok(()),
        Ok(Err(SlotsError::Call(error))) => {
            warn!(%error, "cannot give the slot back");
            Err(RunError::StillHeld { slot: held.number(), outcome })
        }
        Ok(Err(error)) => Err(error.into()),
        Err(_) => Err(RunError::StillHeld { slot: held.number(), outcome }),
    }
}
