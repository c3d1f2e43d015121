//! A program that is fed lines of JSON, and stays: what it has opened stays warm.
//!
//! It answers each line with a line. One that dies, is cut off or prints anything else is ended, and started again for the
//! next line. Standard error is its log. What a line says and what an answer means, the caller knows.

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
use crate::limits::{Cut, end};
use crate::lines;
use crate::program::{Program, started};
use crate::{Failure, OnDelay};
use log::Log;

/// No greeting is longer.
const GREETING_BYTES_MAX: u64 = 1 << 20;
/// Who waits for so long has no lease any more. Most are asked again earlier, and their guards need not be told twice for
/// each line.
const REST: Duration = Duration::from_millis(20);

/// Whether a program says when it can be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Greeting {
    /// It can be asked at once.
    None,
    /// It says so in its first line, or why it never can.
    Ready,
}

/// Why a program cannot be asked.
#[derive(Debug, Error)]
pub enum ServeError {
    /// It was not started.
    #[error(transparent)]
    Guard(#[from] GuardError),
    /// It says so itself.
    #[error("it is not ready: {0}")]
    NotReady(String),
}

/// What a program is asked.
#[derive(Clone, Copy)]
pub struct Ask<'a> {
    /// A line, with its end.
    pub line: &'a [u8],
    /// How long it may go on.
    pub lease: &'a Lease,
    /// Told when a program cannot be started, and is tried again.
    pub on_delay: OnDelay<'a>,
}

/// An answer that was understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judged<A> {
    /// All is well.
    Good(A),
    /// It tells of a failure: whoever looks for the reason wants what the program has printed.
    Bad(A),
}

/// What came of a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asked<A> {
    /// There is an answer.
    Answered {
        /// As it was judged.
        answer: A,
        /// The end of what the program printed meanwhile, if the answer was [`Judged::Bad`].
        output: Vec<u8>,
    },
    /// There is none that makes sense, or not in time.
    Failed(Failure),
    /// It was stopped, or its lease was over; nothing is known of what the program has done.
    Stopped,
}

/// Feeds programs: as many as are asked at once.
pub struct Serve {
    program: Program,
    greeting: Greeting,
    answer_bytes_max: u64,
    idle: Arc<Mutex<Idle>>,
}

/// Programs that wait for their next line.
#[derive(Default)]
struct Idle {
    programs: Vec<Running>,
    /// Somebody will see to those that wait for long.
    watched: bool,
}

/// A program that runs.
struct Running {
    guarded: Guarded,
    /// Between SIGTERM and SIGKILL when its lease ends. Fixed when the guard is started.
    grace: Duration,
    /// Until when its guard lets it run, as it was told for the last line; `None` for as long as it likes.
    until: Option<Moment>,
    /// Since when it waits.
    since: Instant,
    stdin: pipe::Sender,
    stdout: BufReader<pipe::Receiver>,
    log: Log,
}

/// Why there is no answer.
enum Silence {
    Cut(Cut),
    /// What is wrong with it.
    Broken(String),
}

impl Serve {
    /// Feeds this one. What is longer than `answer_bytes_max` is no answer.
    pub fn new(program: Program, greeting: Greeting, answer_bytes_max: u64) -> Self {
        Self { program, greeting, answer_bytes_max, idle: Arc::default() }
    }

    /// Starts a program before there is anything to ask: what it cannot do shows before anybody relies on it.
    pub async fn warm_up(&self) -> Result<(), ServeError> {
        let running = self.start(self.program.lease_grace).await?;
        lock(&self.idle).programs.push(running);
        Ok(())
    }

    /// Asks, and has the answer judged; an error of `judge` says what is wrong with it, and the program is ended.
    pub async fn ask<A>(
        &self,
        ask: Ask<'_>,
        judge: impl FnOnce(&[u8]) -> Result<Judged<A>, String>,
    ) -> Asked<A> {
        let Some(mut running) = self.ready(&ask).await else { return Asked::Stopped };
        let control = running.guarded.control().clone();
        let mut valid_until = ask.lease.valid_until();
        // The machine may have been suspended since the last check.
        if ask.lease.is_over() {
            self.rest(running);
            return Asked::Stopped;
        }
        running.prolong(*valid_until.borrow_and_update());
        running.log.clear();
        let mut told = false;
        let answered = tokio::select! {
            // After a pause of ours the time limit may be over, too.
            biased;
            line = running.ask(ask.line, self.answer_bytes_max, &mut told) => line.map_err(Silence::Broken),
            cut = self.program.limits.cut(ask.lease, valid_until, &control) => Err(Silence::Cut(cut)),
        };
        match answered.and_then(|line| judge(&line).map_err(Silence::Broken)) {
            Ok(judged) => {
                let (answer, output) = match judged {
                    Judged::Good(answer) => (answer, Vec::new()),
                    Judged::Bad(answer) => (answer, running.log.tail().await),
                };
                // Half a line is in its pipe: what is asked next would be taken for the rest of it.
                if told {
                    self.rest(running);
                } else {
                    self.end(&mut running, ask.lease).await;
                }
                Asked::Answered { answer, output }
            }
            Err(silence) => {
                let ended = self.end(&mut running, ask.lease).await;
                let error = match silence {
                    // Its lease was over, or about to be: that is not its fault.
                    _ if ended == Ending::Expired => return Asked::Stopped,
                    Silence::Cut(Cut::Stopped) => return Asked::Stopped,
                    Silence::Cut(Cut::TimeLimit) => "it took longer than its time limit".to_owned(),
                    Silence::Broken(why) => why,
                };
                Asked::Failed(Failure { error, output: running.log.tail().await })
            }
        }
    }

    /// Ends it, and tells how that was.
    async fn end(&self, running: &mut Running, lease: &Lease) -> Ending {
        let ended = end(&mut running.guarded, lease, self.program.grace).await;
        debug!(?ended, "the program was ended");
        ended
    }

    /// A program that can be asked now. None, if it is to stop before there is one.
    async fn ready(&self, ask: &Ask<'_>) -> Option<Running> {
        let Ask { lease, on_delay, .. } = *ask;
        if !self.program.may_begin(lease).await {
            return None;
        }
        let grace = lease.grace(self.program.lease_grace);
        loop {
            let waiting = lock(&self.idle).take(&self.program);
            match waiting {
                // Started under a longer session time-out: its guard would end it as soon as it has something to do.
                Some(mut running) if running.grace > grace => drop(self.end(&mut running, lease).await),
                Some(running) => return Some(running),
                None => break,
            }
        }
        // It may take its time until it is ready, and was told nothing yet.
        let running = tokio::select! {
            running = started(lease, on_delay, || self.start(grace), |_| false) => running?,
            () = lease.stopped() => return None,
        };
        if !self.program.may_begin(lease).await {
            self.rest(running);
            return None;
        }
        Some(running)
    }

    /// Lets it wait for its next line; that may take longer than any lease.
    fn rest(&self, mut running: Running) {
        running.since = Instant::now();
        let mut idle = lock(&self.idle);
        idle.programs.push(running);
        if !std::mem::replace(&mut idle.watched, true) {
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
            let greeting = line(&mut running.stdout, GREETING_BYTES_MAX).await;
            let greeting = greeting.and_then(|line| lines::greeting(&String::from_utf8_lossy(&line)));
            greeting.map_err(ServeError::NotReady)?;
        }
        Ok(running)
    }
}

fn lock(idle: &Mutex<Idle>) -> MutexGuard<'_, Idle> {
    idle.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sees to programs that wait for long, as long as there may be such.
async fn watch(idle: Weak<Mutex<Idle>>) {
    loop {
        tokio::time::sleep(REST).await;
        let Some(idle) = idle.upgrade() else { return };
        if !lock(&idle).free() {
            return;
        }
    }
}

impl Idle {
    /// One that lives: whoever has died meanwhile has not died of the next line.
    fn take(&mut self, program: &Program) -> Option<Running> {
        while let Some(mut running) = self.programs.pop() {
            match running.guarded.wait().now_or_never() {
                Some(ended) => info!(program = program.name(), ?ended, "the program had ended"),
                None => return Some(running),
            }
        }
        None
    }

    /// Those that have waited for long may wait for ever. Tells whether somebody has to look again.
    fn free(&mut self) -> bool {
        for running in self.programs.iter_mut().filter(|running| running.since.elapsed() >= REST) {
            if running.until.take().is_some() {
                running.guarded.control().set_deadline(Moment::NEVER);
            }
        }
        self.watched = self.programs.iter().any(|running| running.until.is_some());
        self.watched
    }
}

impl Running {
    /// Tells its guard how long the lease lasts, unless it knows.
    fn prolong(&mut self, until: Moment) {
        if self.until.replace(until) != Some(until) {
            self.guarded.control().set_deadline(until);
        }
    }

    /// Asks, and waits for the answer. Notes whether all of the question was told by then.
    async fn ask(&mut self, question: &[u8], bytes_max: u64, told: &mut bool) -> Result<Vec<u8>, String> {
        let Self { stdin, stdout, .. } = self;
        // A program may answer before it has read all: both at once, or neither would end.
        let tell = async {
            // One that has died is noticed by its silence.
            *told = stdin.write_all(question).await.is_ok();
            std::future::pending::<()>().await
        };
        tokio::select! {
            line = line(stdout, bytes_max) => line,
            () = tell => Err("it was told nothing".to_owned()),
        }
    }
}

/// A line without its end.
async fn line(stdout: &mut BufReader<pipe::Receiver>, bytes_max: u64) -> Result<Vec<u8>, String> {
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
