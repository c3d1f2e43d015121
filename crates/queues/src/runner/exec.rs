//! A process for each message: its body is standard input, and what it exits with is the outcome.
//!
//! 0 is done, 65 failed for good, anything else failed and is tried again. A guard is started for each message that is
//! handled at once, and not for each message: it stays, and starts one process after the other.

use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};

use menagerie_journal::Message;
use menagerie_kernel::guard::{GuardError, Guarded, Outcome as Ending, Standing, Stream};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::io::{Errno, pwrite};

use super::limits::{Cut, end};
use super::output::{To, pass_on};
use super::{Program, started};
use crate::task::{Failed, Outcome, Outcomes, Task, Work};

/// What a program exits with that will never be able to handle its message (`EX_DATAERR`).
pub const EXIT_FAILED: i32 = 65;

/// Runs a program for each message.
#[derive(Debug)]
pub struct Exec {
    program: Program,
    /// Guards that have nothing to do.
    idle: Mutex<Vec<Standing>>,
}

impl Exec {
    /// Runs this one.
    pub fn new(program: Program) -> Self {
        Self { program, idle: Mutex::new(Vec::new()) }
    }

    async fn one(&self, work: &Work, message: &Message, attempt: u32) -> Outcome {
        if !self.program.may_begin(work).await {
            return Outcome::Stopped;
        }
        let start = || self.start(work, message, attempt);
        let too_late = |error: &GuardError| matches!(error, GuardError::TooLate { .. });
        let Some(mut guarded) = started(work, start, too_late).await else { return Outcome::Stopped };
        self.program.limits.apply(guarded.command());
        let (stdout, stderr) = (guarded.stdout.take(), guarded.stderr.take());
        let (ended, printed, mut complained) = tokio::join!(
            self.watch(work, &mut guarded),
            pass_on(stdout, To::Stdout),
            pass_on(stderr, To::Stderr),
        );
        let mut output = printed;
        output.append(&mut complained);
        if let Some(guard) = Standing::after(guarded) {
            self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(guard);
        }
        match ended {
            // Also if its time was over by then: it may have stood still with us.
            (_, Some(Cut::Stopped)) | (Ending::Expired, _) => Outcome::Stopped,
            (_, Some(Cut::TimeLimit)) => failed("it took longer than its time limit", output, true),
            (Ending::Exited(0), None) => Outcome::Done,
            (Ending::Exited(EXIT_FAILED), None) => {
                failed("it exited with code 65: failed for good", output, false)
            }
            (Ending::Exited(code), None) => failed(&format!("it exited with code {code}"), output, true),
            (Ending::Signaled(signal), None) => {
                failed(&format!("it was ended by signal {signal}"), output, true)
            }
            (Ending::GuardDied, None) => failed("its guard was killed", output, true),
        }
    }

    async fn start(&self, work: &Work, message: &Message, attempt: u32) -> Result<Guarded, GuardError> {
        let no_input =
            |errno: Errno| GuardError::NoInput { program: self.program.name(), source: errno.into() };
        let command = self
            .program
            .command(work.lease.grace(self.program.lease_grace))
            .env("MENAGERIE_QUEUE", work.partition.queue().to_string())
            .env("MENAGERIE_PARTITION", work.partition.number().to_string())
            .env("MENAGERIE_MESSAGE_ID", message.id.to_string())
            .env("MENAGERIE_ATTEMPT", attempt.to_string())
            .env("MENAGERIE_FENCE", work.fence.to_string())
            .stdin_from(input(&message.body).map_err(no_input)?)
            .stdout(Stream::Piped)
            .stderr(Stream::Piped)
            .deadline(*work.lease.valid_until().borrow());
        match self.idle() {
            Some(guard) => guard.start(&command).await,
            None => Standing::first(&command, &self.program.guard).await,
        }
    }

    /// A guard that waits for something to do, and lives.
    fn idle(&self) -> Option<Standing> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(mut guard) = idle.pop() {
            if guard.lives() {
                return Some(guard);
            }
        }
        None
    }

    /// How it ended, and whether that was our doing.
    async fn watch(&self, work: &Work, guarded: &mut Guarded) -> (Ending, Option<Cut>) {
        let control = guarded.control().clone();
        let cut = tokio::select! {
            // After a pause of ours the time limit may be over, too.
            biased;
            ending = guarded.wait() => return (ending, None),
            cut = self.program.limits.cut(&work.lease, work.lease.valid_until(), &control) => cut,
        };
        (end(guarded, &work.lease, self.program.grace).await, Some(cut))
    }
}

/// A body, to be read. All of it is there before anybody reads: of a pipe, a program whose worker is killed would see the end
/// a moment before it is killed itself, and take what it has for all.
fn input(body: &[u8]) -> rustix::io::Result<OwnedFd> {
    let file = memfd_create("message", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    let mut written = 0;
    while written < body.len() {
        written += pwrite(&file, &body[written..], written as u64)?;
    }
    fcntl_add_seals(&file, SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
    Ok(file)
}

fn failed(error: &str, output: Vec<u8>, retry: bool) -> Outcome {
    Outcome::Failed(Failed { error: error.to_owned(), output, retry })
}

impl Task for Exec {
    fn run(&self, work: Work) -> Outcomes<'_> {
        Box::pin(async move {
            let mut outcomes = Vec::with_capacity(work.messages.len());
            for (place, message) in work.messages.iter().enumerate() {
                let outcome = self.one(&work, message, work.attempt_of(place)).await;
                let done = outcome == Outcome::Done;
                outcomes.push(outcome);
                if !done {
                    break;
                }
            }
            outcomes
        })
    }
    /// Its guard ends it when its grace is over, and answers when nothing of it is left.
    fn ends_itself(&self) -> bool {
        true
    }
}
