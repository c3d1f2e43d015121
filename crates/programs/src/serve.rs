//! A long-running program that is fed JSON lines, so that what it has opened stays warm.
//!
//! It answers each line with a line; other lines on standard output are logged and ignored. If it dies, is interrupted or
//! gives an invalid answer, it is ended, and started again for the next line. Standard error is its log. Only the caller
//! knows what lines and answers mean.
//!
//! - [`Serve`]: one program per concurrent question. [`multiplex`]: one program for all of them.
//! - `running.rs`: a running program. `stdout.rs`: its lines. `log.rs`: its other output. `stray.rs`: lines that are no
//!   answers. `unanswered.rs`: questions in flight.

mod log;
pub mod multiplex;
mod running;
mod stdout;
mod stray;
mod unanswered;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use menagerie_kernel::guard::{GuardError, Outcome as Ending};
use thiserror::Error;
use tokio::io::AsyncWriteExt as _;
use tracing::{debug, info};

use crate::lease::Lease;
use crate::limits::{self, Interruption, Limits, end_program};
use crate::program::{Program, start_with_retries};
use crate::{Failure, OnDelay};
use running::{IDLE_AFTER, Running};
use stray::Strays;
use unanswered::{Registry, warn_of_silence};

pub use unanswered::{SILENT_AFTER, Unanswered};

/// After this many lines that are no answers, let other futures of the same task run: a program that prints without end
/// must not outrun its time limit.
const STRAYS_PER_TURN: u32 = 64;

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
    /// Names the question in logs and in [`Serve::unanswered`].
    pub id: &'a str,
    /// The line, with its newline.
    pub line: &'a [u8],
    /// Until when it may run.
    pub lease: &'a Lease,
    /// Longest time until the answer; `None`: the program's [`Limits::time`].
    pub time_limit: Option<Duration>,
    /// Called when a program cannot be started and will be retried.
    pub on_delay: OnDelay<'a>,
}

/// What the caller makes of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judged<A> {
    /// An answer that reports success.
    Good(A),
    /// An answer that reports a failure: attach the program's output.
    Bad(A),
    /// An answer that makes no sense, for this reason: the question has failed.
    Invalid(String),
    /// No answer to this question: log it, and read on.
    Stray,
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
    line_bytes_max: usize,
    idle: Arc<Mutex<Idle>>,
    strays: Strays,
    unanswered: Arc<Registry>,
}

/// Idle programs.
#[derive(Default)]
struct Idle {
    programs: Vec<Running>,
    /// A task is running that lifts the deadlines of programs idle for long.
    is_watched: bool,
}

/// Why there is no valid answer.
enum NoAnswer {
    Interrupted(Interruption),
    /// The program is broken, for this reason.
    Broken(String),
}

impl Serve {
    /// Feeds this program. A line longer than `line_bytes_max` makes its question fail.
    pub fn new(program: Program, greeting: Greeting, line_bytes_max: usize) -> Self {
        Self {
            program,
            greeting,
            line_bytes_max,
            idle: Arc::default(),
            strays: Strays::default(),
            unanswered: Arc::default(),
        }
    }

    /// Starts a program before the first question, so that a broken one is noticed at once.
    pub async fn warm_up(&self) -> Result<(), ServeError> {
        let running = self.start(self.program.lease_grace).await?;
        lock(&self.idle).programs.push(running);
        Ok(())
    }

    /// Questions that programs have and have not answered, oldest first. None of programs that greet: they have flushed
    /// a line, so a missing answer is not in their buffers.
    pub fn unanswered(&self) -> Vec<Unanswered> {
        self.unanswered.list()
    }

    /// How many lines were no answers.
    pub fn stray_lines(&self) -> u64 {
        self.strays.count()
    }

    /// Asks, and lets `judge` parse the lines until one is the answer. If that is invalid, the program is ended.
    pub async fn ask<A>(&self, ask: Ask<'_>, judge: impl FnMut(&[u8]) -> Judged<A>) -> AskOutcome<A> {
        let Some(mut running) = self.ready(&ask).await else { return AskOutcome::Stopped };
        let (control, pid) = (running.guarded.control().clone(), running.pid());
        let mut valid_until = ask.lease.valid_until();
        // The machine may have been suspended since the last check.
        if ask.lease.is_over() {
            self.park(running);
            return AskOutcome::Stopped;
        }
        running.set_deadline(*valid_until.borrow_and_update());
        let (log, mark) = (running.log.clone(), running.log.mark());
        let time = ask.time_limit.or(self.program.limits.time);
        let limits = Limits { time, ..self.program.limits };
        let _asked = self.may_buffer_answers().then(|| self.unanswered.register(ask.id));
        let mut is_written = false;
        let answered = tokio::select! {
            // If we were frozen, the time limit may be over, too: prefer the answer.
            biased;
            answer = self.converse(&mut running, ask.line, judge, &mut is_written) => answer.map_err(NoAnswer::Broken),
            interruption = limits.wait_for_interruption(ask.lease, valid_until, &control) => Err(NoAnswer::Interrupted(interruption)),
            never = self.watch_silence(pid, ask.id) => match never {},
        };
        match answered {
            Ok((answer, is_good)) => {
                let output = if is_good { Vec::new() } else { log.since(mark).await };
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
                    NoAnswer::Interrupted(Interruption::TimeLimit) => took_too_long(time, self.greeting),
                    NoAnswer::Broken(why) => why,
                };
                AskOutcome::Failed(Failure { error, output: log.since(mark).await })
            }
        }
    }

    /// Writes the question, and reads lines until one is its answer; returns whether it is a good one. Sets `is_written`
    /// if the whole question was written by then.
    async fn converse<A>(
        &self,
        running: &mut Running,
        question: &[u8],
        mut judge: impl FnMut(&[u8]) -> Judged<A>,
        is_written: &mut bool,
    ) -> Result<(A, bool), String> {
        let Running { stdin, stdout, log, .. } = running;
        // A program may answer before it has read everything, so write and read concurrently.
        let write = async {
            // A dead program is noticed by the end of its output.
            *is_written = stdin.write_all(question).await.is_ok();
            std::future::pending::<()>().await
        };
        let read = async {
            let mut strays = 0;
            loop {
                let line = stdout.line().await?;
                match judge(&line) {
                    Judged::Good(answer) => return Ok((answer, true)),
                    Judged::Bad(answer) => return Ok((answer, false)),
                    Judged::Invalid(why) => return Err(why),
                    Judged::Stray => self.strays.note(&self.program.name(), log, &line),
                }
                strays += 1;
                if strays % STRAYS_PER_TURN == 0 {
                    tokio::task::yield_now().await;
                }
            }
        };
        tokio::select! {
            answer = read => answer,
            () = write => Err("it was told nothing".to_owned()),
        }
    }

    fn may_buffer_answers(&self) -> bool {
        self.greeting == Greeting::None
    }

    async fn watch_silence(&self, pid: u32, id: &str) -> std::convert::Infallible {
        if self.may_buffer_answers() {
            tokio::time::sleep(SILENT_AFTER).await;
            warn_of_silence(&self.program.name(), pid, id);
        }
        std::future::pending().await
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
            let Some(mut running) = waiting else { break };
            // Started under a longer session time-out, its guard would end it as soon as it got a deadline.
            if running.grace <= grace && self.skip_printed(&mut running).await {
                return Some(running);
            }
            self.end(&mut running, lease).await;
        }
        // It may take long until it is ready, and has no question yet, so it can be dropped.
        let start = || self.start(grace);
        let running = tokio::select! {
            running = start_with_retries(lease.stopped(), on_delay, start, |_| false) => running?,
            () = lease.stopped() => return None,
        };
        if !self.program.wait_for_lease(lease).await {
            self.park(running);
            return None;
        }
        Some(running)
    }

    /// Skips what an idle program has printed: it cannot be the answer to a question that it does not have, even if it
    /// looks like one, as the second answer to an earlier attempt does. `false` if the program must be replaced.
    async fn skip_printed(&self, running: &mut Running) -> bool {
        let (name, log) = (self.program.name(), running.log.clone());
        running.stdout.printed_lines(|line| self.strays.note(&name, &log, line)).await.is_ok()
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
        Running::start(&self.program, self.greeting, grace, self.line_bytes_max).await
    }
}

/// The error of a question whose time limit is over. A program that has greeted us knows how to flush its output.
fn took_too_long(limit: Option<Duration>, greeting: Greeting) -> String {
    let hint = match greeting {
        Greeting::None => "; does it flush its output?",
        Greeting::Ready => "",
    };
    limits::took_too_long(limit) + hint
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
            running.lift_deadline();
        }
        self.is_watched = self.programs.iter().any(Running::has_deadline);
        self.is_watched
    }
}

#[cfg(test)]
mod tests;
