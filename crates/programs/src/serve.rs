//! A long-running program that is fed JSON lines, so that what it has opened stays warm.
//!
//! It answers each line with a line. If it dies, is interrupted or prints anything else, it is ended, and started again
//! for the next line. Standard error is its log. Only the caller knows what lines and answers mean.

mod log;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use menagerie_kernel::Moment;
use menagerie_kernel::guard::{GuardError, Guarded, Outcome as Ending, Stream, spawn};
use thiserror::Error;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::unix::pipe;
use tracing::{debug, info};

use crate::lease::Lease;
use crate::limits::{Interruption, end_program};
use crate::lines;
use crate::program::{Program, start_with_retries};
use crate::{Failure, OnDelay};
use log::Log;

/// Longest greeting.
const GREETING_BYTES_MAX: u64 = 1 << 20;
/// A program idle for this long loses its deadline. Most are asked again earlier, which saves their guards two messages
/// per line.
const IDLE_AFTER: Duration = Duration::from_millis(20);

/// Whether a program says when it is ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Greeting {
    /// No: ready at once.
    None,
    /// Yes: its first line says that it is ready, or why it never will be.
    Ready,
}

/// Why a program cannot be used.
#[derive(Debug, Error)]
pub enum ServeError {
    /// It could not be started.
    #[error(transparent)]
    Guard(#[from] GuardError),
    /// Its greeting says that it is not ready.
    #[error("it is not ready: {0}")]
    NotReady(String),
}

/// A question to a program.
#[derive(Clone, Copy)]
pub struct Ask<'a> {
    /// The line, with its newline.
    pub line: &'a [u8],
    /// Until when it may run.
    pub lease: &'a Lease,
    /// Called when a program cannot be started and will be retried.
    pub on_delay: OnDelay<'a>,
}

/// A valid answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judged<A> {
    /// It reports success.
    Good(A),
    /// It reports a failure: attach the program's output.
    Bad(A),
}

/// The outcome of a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AskOutcome<A> {
    /// A valid answer.
    Answered {
        /// The answer, as judged.
        answer: A,
        /// The end of the program's output meanwhile, if the answer was [`Judged::Bad`].
        output: Vec<u8>,
    },
    /// No valid answer in time.
    Failed(Failure),
    /// It was stopped, or its lease ended; nobody knows how far the program got.
    Stopped,
}

/// Feeds programs, one per concurrent question.
pub struct Serve {
    program: Program,
    greeting: Greeting,
    answer_bytes_max: u64,
    idle: Arc<Mutex<Idle>>,
}

/// Idle programs.
#[derive(Default)]
struct Idle {
    programs: Vec<Running>,
    /// A task is running that lifts the deadlines of programs idle for long.
    is_watched: bool,
}

/// A running program.
struct Running {
    guarded: Guarded,
    /// Time between SIGTERM and SIGKILL when its lease ends. Fixed when the guard starts.
    grace: Duration,
    /// Its guard's deadline, as set for the last line; `None` if it has none.
    until: Option<Moment>,
    /// When it became idle.
    since: Instant,
    stdin: pipe::Sender,
    stdout: BufReader<pipe::Receiver>,
    log: Log,
}

/// Why there is no valid answer.
enum NoAnswer {
    Interrupted(Interruption),
    /// The answer is broken, for this reason.
    Broken(String),
}

impl Serve {
    /// Feeds this program. Answers longer than `answer_bytes_max` are invalid.
    pub fn new(program: Program, greeting: Greeting, answer_bytes_max: u64) -> Self {
        Self { program, greeting, answer_bytes_max, idle: Arc::default() }
    }

    /// Starts a program before the first question, so that a broken one is noticed at once.
    pub async fn warm_up(&self) -> Result<(), ServeError> {
        let running = self.start(self.program.lease_grace).await?;
        lock(&self.idle).programs.push(running);
        Ok(())
    }

    /// Asks, and lets `judge` parse the answer. If `judge` fails, the program is ended.
    pub async fn ask<A>(
        &self,
        ask: Ask<'_>,
        judge: impl FnOnce(&[u8]) -> Result<Judged<A>, String>,
    ) -> AskOutcome<A> {
        let Some(mut running) = self.ready(&ask).await else { return AskOutcome::Stopped };
        let control = running.guarded.control().clone();
        let mut valid_until = ask.lease.valid_until();
        // The machine may have been suspended since the last check.
        if ask.lease.is_over() {
            self.park(running);
            return AskOutcome::Stopped;
        }
        running.extend_deadline(*valid_until.borrow_and_update());
        running.log.clear();
        let mut is_written = false;
        let answered = tokio::select! {
            // If we were frozen, the time limit may be over, too: prefer the answer.
            biased;
            line = running.ask(ask.line, self.answer_bytes_max, &mut is_written) => line.map_err(NoAnswer::Broken),
            interruption = self.program.limits.wait_for_interruption(ask.lease, valid_until, &control) => Err(NoAnswer::Interrupted(interruption)),
        };
        match answered.and_then(|line| judge(&line).map_err(NoAnswer::Broken)) {
            Ok(judged) => {
                let (answer, output) = match judged {
                    Judged::Good(answer) => (answer, Vec::new()),
                    Judged::Bad(answer) => (answer, running.log.tail().await),
                };
                // Otherwise half a line is in its pipe, and it would take the next question for the rest.
                if is_written {
                    self.park(running);
                } else {
                    self.end(&mut running, ask.lease).await;
                }
                AskOutcome::Answered { answer, output }
            }
            Err(reason) => {
                let ended = self.end(&mut running, ask.lease).await;
                let error = match reason {
                    // Its lease ended, or was about to: not its fault.
                    _ if ended == Ending::Expired => return AskOutcome::Stopped,
                    NoAnswer::Interrupted(Interruption::Stopped) => return AskOutcome::Stopped,
                    NoAnswer::Interrupted(Interruption::TimeLimit) => {
                        "it took longer than its time limit".to_owned()
                    }
                    NoAnswer::Broken(why) => why,
                };
                AskOutcome::Failed(Failure { error, output: running.log.tail().await })
            }
        }
    }

    /// Ends it, and returns how it ended.
    async fn end(&self, running: &mut Running, lease: &Lease) -> Ending {
        let ended = end_program(&mut running.guarded, lease, self.program.grace).await;
        debug!(?ended, "the program was ended");
        ended
    }

    /// A program that is ready for a question; `None` if the lease says stop first.
    async fn ready(&self, ask: &Ask<'_>) -> Option<Running> {
        let Ask { lease, on_delay, .. } = *ask;
        if !self.program.wait_for_lease(lease).await {
            return None;
        }
        let grace = lease.grace(self.program.lease_grace);
        loop {
            let waiting = lock(&self.idle).take(&self.program);
            match waiting {
                // Started under a longer session time-out, its guard would end it as soon as it got a deadline.
                Some(mut running) if running.grace > grace => drop(self.end(&mut running, lease).await),
                Some(running) => return Some(running),
                None => break,
            }
        }
        // It may take long until it is ready, and has no question yet, so it can be dropped.
        let running = tokio::select! {
            running = start_with_retries(lease, on_delay, || self.start(grace), |_| false) => running?,
            () = lease.stopped() => return None,
        };
        if !self.program.wait_for_lease(lease).await {
            self.park(running);
            return None;
        }
        Some(running)
    }

    /// Makes it wait for its next line, which may take longer than any lease.
    fn park(&self, mut running: Running) {
        running.since = Instant::now();
        let mut idle = lock(&self.idle);
        idle.programs.push(running);
        if !std::mem::replace(&mut idle.is_watched, true) {
            tokio::spawn(watch(Arc::downgrade(&self.idle)));
        }
    }

    async fn start(&self, grace: Duration) -> Result<Running, ServeError> {
        let program = self.program.name();
        let command = self.program.command(grace);
        let command = command.stdin(Stream::Piped).stdout(Stream::Piped).stderr(Stream::Piped);
        let mut guarded = spawn(command, &self.program.guard).await?;
        self.program.limits.apply(guarded.command());
        info!(program, pid = guarded.command().pid, "program started");
        let streams = (guarded.stdin.take(), guarded.stdout.take(), guarded.stderr.take());
        let (Some(stdin), Some(stdout), Some(stderr)) = streams else {
            return Err(GuardError::GuardDied { program }.into());
        };
        let mut running = Running {
            guarded,
            grace,
            until: None,
            since: Instant::now(),
            stdin,
            stdout: BufReader::new(stdout),
            log: Log::follow(stderr),
        };
        if self.greeting == Greeting::Ready {
            let greeting = read_line(&mut running.stdout, GREETING_BYTES_MAX).await;
            let greeting = greeting.and_then(|line| lines::greeting(&String::from_utf8_lossy(&line)));
            greeting.map_err(ServeError::NotReady)?;
        }
        Ok(running)
    }
}

fn lock(idle: &Mutex<Idle>) -> MutexGuard<'_, Idle> {
    idle.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Lifts the deadlines of idle programs, as long as there are any with one.
async fn watch(idle: Weak<Mutex<Idle>>) {
    loop {
        tokio::time::sleep(IDLE_AFTER).await;
        let Some(idle) = idle.upgrade() else { return };
        if !lock(&idle).lift_deadlines() {
            return;
        }
    }
}

impl Idle {
    /// An idle program that is still alive: one that died meanwhile must not count against the next line.
    fn take(&mut self, program: &Program) -> Option<Running> {
        while let Some(mut running) = self.programs.pop() {
            match running.guarded.wait().now_or_never() {
                Some(ended) => info!(program = program.name(), ?ended, "the program had ended"),
                None => return Some(running),
            }
        }
        None
    }

    /// Lifts the deadlines of programs idle for long. Returns whether some still have one.
    fn lift_deadlines(&mut self) -> bool {
        for running in self.programs.iter_mut().filter(|running| running.since.elapsed() >= IDLE_AFTER) {
            if running.until.take().is_some() {
                running.guarded.control().set_deadline(Moment::NEVER);
            }
        }
        self.is_watched = self.programs.iter().any(|running| running.until.is_some());
        self.is_watched
    }
}

impl Running {
    /// Sets its guard's deadline to the end of the lease, if it has changed.
    fn extend_deadline(&mut self, until: Moment) {
        if self.until.replace(until) != Some(until) {
            self.guarded.control().set_deadline(until);
        }
    }

    /// Asks, and waits for the answer. Sets `is_written` if the whole question was written by then.
    async fn ask(
        &mut self,
        question: &[u8],
        bytes_max: u64,
        is_written: &mut bool,
    ) -> Result<Vec<u8>, String> {
        let Self { stdin, stdout, .. } = self;
        // A program may answer before it has read everything, so write and read concurrently.
        let write = async {
            // A dead program is noticed by the end of its output.
            *is_written = stdin.write_all(question).await.is_ok();
            std::future::pending::<()>().await
        };
        tokio::select! {
            line = read_line(stdout, bytes_max) => line,
            () = write => Err("it was told nothing".to_owned()),
        }
    }
}

/// Reads a line, without its newline.
async fn read_line(stdout: &mut BufReader<pipe::Receiver>, bytes_max: u64) -> Result<Vec<u8>, String> {
    let mut line = Vec::new();
    let read = stdout.take(bytes_max).read_until(b'\n', &mut line).await;
    read.map_err(|error| format!("its answer cannot be read: {error}"))?;
    match line.pop() {
        Some(b'\n') => Ok(line),
        None => Err("it ended without an answer".to_owned()),
        Some(_) => Err("it ended, or said too much, in the middle of an answer".to_owned()),
    }
}

#[cfg(test)]
mod tests;
