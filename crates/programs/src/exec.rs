//! A process for each thing that is to be done: it reads from standard input, and what it exits with is the caller's to judge.
//!
//! A guard is started for each process that runs at once, and not for each process: it stays, and starts one after the other.

use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};

use menagerie_kernel::guard::{GuardError, Guarded, Outcome as Ending, ReusableGuard, Stream};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::io::{Errno, pwrite};

use crate::lease::Lease;
use crate::limits::{Cut, end};
use crate::output::{To, pass_on};
use crate::program::{Program, started};
use crate::{Failure, OnDelay};

/// What a process is given.
#[derive(Clone, Copy)]
pub struct Run<'a> {
    /// Its standard input.
    pub input: &'a [u8],
    /// What its environment has besides ours.
    pub environment: &'a [(&'static str, String)],
    /// How long it may go on.
    pub lease: &'a Lease,
    /// Told when it cannot be started, and is tried again.
    pub on_delay: OnDelay<'a>,
}

/// What came of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ran {
    /// It ended by itself.
    Exited {
        /// With this code.
        code: i32,
        /// The end of what it had printed.
        output: Vec<u8>,
    },
    /// It took too long, or somebody ended it.
    Failed(Failure),
    /// It was stopped, or its lease was over; nothing is known of what it has done.
    Stopped,
}

/// Runs a program again and again, as many at once as are asked for.
#[derive(Debug)]
pub struct Exec {
    program: Program,
    /// Guards that have nothing to do.
    idle: Mutex<Vec<ReusableGuard>>,
}

impl Exec {
    /// Runs this one.
    pub fn new(program: Program) -> Self {
        Self { program, idle: Mutex::new(Vec::new()) }
    }

    /// Runs it, and waits until nothing of it is left.
    pub async fn run(&self, run: Run<'_>) -> Ran {
        if !self.program.may_begin(run.lease).await {
            return Ran::Stopped;
        }
        let start = || self.start(&run);
        let too_late = |error: &GuardError| matches!(error, GuardError::TooLate { .. });
        let Some(mut guarded) = started(run.lease, run.on_delay, start, too_late).await else {
            return Ran::Stopped;
        };
        self.program.limits.apply(guarded.command());
        let (stdout, stderr) = (guarded.stdout.take(), guarded.stderr.take());
        let (ended, printed, mut complained) = tokio::join!(
            self.watch(run.lease, &mut guarded),
            pass_on(stdout, To::Stdout),
            pass_on(stderr, To::Stderr),
        );
        let mut output = printed;
        output.append(&mut complained);
        if let Some(guard) = ReusableGuard::after(guarded) {
            self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(guard);
        }
        let error = match ended {
            // Also if its time was over by then: it may have stood still with us.
            (_, Some(Cut::Stopped)) | (Ending::Expired, _) => return Ran::Stopped,
            (Ending::Exited(code), None) => return Ran::Exited { code, output },
            (_, Some(Cut::TimeLimit)) => "it took longer than its time limit".to_owned(),
            (Ending::Signaled(signal), None) => format!("it was ended by signal {signal}"),
            (Ending::GuardDied, None) => "its guard was killed".to_owned(),
        };
        Ran::Failed(Failure { error, output })
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

    /// A guard that waits for something to do, and lives.
    fn idle(&self) -> Option<ReusableGuard> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(mut guard) = idle.pop() {
            if guard.is_alive() {
                return Some(guard);
            }
        }
        None
    }

    /// How it ended, and whether that was our doing.
    async fn watch(&self, lease: &Lease, guarded: &mut Guarded) -> (Ending, Option<Cut>) {
        let control = guarded.control().clone();
        let cut = tokio::select! {
            // After a pause of ours the time limit may be over, too.
            biased;
            ending = guarded.wait() => return (ending, None),
            cut = self.program.limits.cut(lease, lease.valid_until(), &control) => cut,
        };
        (end(guarded, lease, self.program.grace).await, Some(cut))
    }
}

/// Something to be read. All of it is there before anybody reads: of a pipe, a program whose owner is killed would see the end
/// a moment before it is killed itself, and take what it has for all.
fn input(bytes: &[u8]) -> rustix::io::Result<OwnedFd> {
    let file = memfd_create("input", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    let mut written = 0;
    while written < bytes.len() {
        written += pwrite(&file, &bytes[written..], written as u64)?;
    }
    fcntl_add_seals(&file, SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
    Ok(file)
}
