//! One process per job: it reads from standard input, and the caller judges its exit code.
//!
//! Guards are reused: there is one per concurrent process, and it starts one process after the other.

use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use menagerie_kernel::guard::{GuardError, Guarded, Outcome as Ending, ReusableGuard, Stream};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::io::{Errno, pwrite};

use crate::lease::Lease;
use crate::limits::{Interruption, Limits, end_program, took_too_long};
use crate::output::{OutputStream, forward};
use crate::program::{Program, start_with_retries};
use crate::{Failure, OnDelay};

/// Input of a process.
#[derive(Clone, Copy)]
pub struct Run<'a> {
    /// Its standard input.
    pub input: &'a [u8],
    /// Environment variables besides ours.
    pub environment: &'a [(&'static str, String)],
    /// Until when it may run.
    pub lease: &'a Lease,
    /// Its time limit, if not the program's.
    pub time_limit: Option<Duration>,
    /// Called when it cannot be started and will be retried.
    pub on_delay: OnDelay<'a>,
}

/// The outcome of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunOutcome {
    /// It exited.
    Exited {
        /// Exit code.
        code: i32,
        /// The end of its output.
        output: Vec<u8>,
    },
    /// It exceeded its time limit, or a signal killed it.
    Failed(Failure),
    /// It was stopped, or its lease ended; nobody knows how far it got.
    Stopped,
}

/// Runs a program for each job, any number concurrently.
#[derive(Debug)]
pub struct Exec {
    program: Program,
    /// Idle guards.
    idle: Mutex<Vec<ReusableGuard>>,
}

impl Exec {
    /// Runs this program.
    pub fn new(program: Program) -> Self {
        Self { program, idle: Mutex::new(Vec::new()) }
    }

    /// Runs one process, and waits until nothing of it is left.
    pub async fn run(&self, run: Run<'_>) -> RunOutcome {
        if !self.program.wait_for_lease(run.lease).await {
            return RunOutcome::Stopped;
        }
        let start = || self.start(&run);
        let too_late = |error: &GuardError| matches!(error, GuardError::TooLate { .. });
        let Some(mut guarded) = start_with_retries(run.lease.stopped(), run.on_delay, start, too_late).await
        else {
            return RunOutcome::Stopped;
        };
        self.program.limits.apply(guarded.command());
        let (stdout, stderr) = (guarded.stdout.take(), guarded.stderr.take());
        let (ended, printed, mut complained) = tokio::join!(
            self.watch(&run, &mut guarded),
            forward(stdout, OutputStream::Stdout),
            forward(stderr, OutputStream::Stderr),
        );
        let mut output = printed;
        output.append(&mut complained);
        if let Some(guard) = ReusableGuard::after(guarded) {
            self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(guard);
        }
        let error = match ended {
            // Even if its time limit was over, too: it may have stood still along with us.
            (_, Some(Interruption::Stopped)) | (Ending::Expired, _) => return RunOutcome::Stopped,
            (Ending::Exited(code), None) => return RunOutcome::Exited { code, output },
            (_, Some(Interruption::TimeLimit)) => took_too_long(self.time_limit(&run)),
            (Ending::Signaled(signal), None) => format!("it was ended by signal {signal}"),
            (Ending::GuardDied, None) => "its guard was killed".to_owned(),
        };
        RunOutcome::Failed(Failure { error, output })
    }

    async fn start(&self, run: &Run<'_>) -> Result<Guarded, GuardError> {
        let no_input =
            |errno: Errno| GuardError::NoInput { program: self.program.name(), source: errno.into() };
        let command = self.program.command(run.lease.grace(self.program.lease_grace));
        let command = run
            .environment
            .iter()
            .fold(command, |command, (name, value)| command.env(name, value))
            .stdin_from(input(run.input).map_err(no_input)?)
            .stdout(Stream::Piped)
            .stderr(Stream::Piped)
            .deadline(*run.lease.valid_until().borrow());
        match self.idle() {
            Some(guard) => guard.start(&command).await,
            None => ReusableGuard::first(&command, &self.program.guard).await,
        }
    }

    /// An idle guard that is still alive.
    fn idle(&self) -> Option<ReusableGuard> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(mut guard) = idle.pop() {
            if guard.is_alive() {
                return Some(guard);
            }
        }
        None
    }

    fn time_limit(&self, run: &Run<'_>) -> Option<Duration> {
        run.time_limit.or(self.program.limits.time)
    }

    /// How it ended, and why we interrupted it, if we did.
    async fn watch(&self, run: &Run<'_>, guarded: &mut Guarded) -> (Ending, Option<Interruption>) {
        let (lease, control) = (run.lease, guarded.control().clone());
        let limits = Limits { time: self.time_limit(run), ..self.program.limits };
        let interruption = tokio::select! {
            // If we were frozen, the time limit may be over, too: prefer the answer.
            biased;
            ending = guarded.wait() => return (ending, None),
            interruption = limits.wait_for_interruption(lease, lease.valid_until(), &control) => interruption,
        };
        (end_program(guarded, lease, self.program.grace).await, Some(interruption))
    }
}

/// A file with these bytes. Not a pipe: if its owner is killed, a program would see the pipe's end a moment before it
/// is killed itself, and take what it has for the whole input.
fn input(bytes: &[u8]) -> rustix::io::Result<OwnedFd> {
    let file = memfd_create("input", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    let mut written = 0;
    while written < bytes.len() {
        written += pwrite(&file, &bytes[written..], written as u64)?;
    }
    fcntl_add_seals(&file, SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
    Ok(file)
}
