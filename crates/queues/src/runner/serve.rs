//! A program that is fed messages as lines of JSON, and stays: what it has opened stays warm.
//!
//! It answers each line with a line. One that dies, is cut off or prints anything else is ended, and started again for the
//! next message. Standard error is its log.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use menagerie_kernel::Moment;
use menagerie_kernel::guard::{GuardError, Guarded, Outcome as Ending, Stream, spawn};
use thiserror::Error;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::unix::pipe;
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;
use tracing::{debug, info};

use super::limits::{Cut, end};
use super::lines::{self, Shape};
use super::output::{self, CHUNK_BYTES, To, keep};
use super::{Program, started};
use crate::task::{Failed, Lease, Outcome, Outcomes, Task, Work};

/// A line that is longer is no answer: answers carry no data.
const ANSWER_BYTES_MAX: u64 = 1 << 20;
/// So often a pipe is read until all is read that was in it when that began: Linux gives it 64 KiB.
const CHUNKS_IN_A_PIPE: usize = (64 << 10) / CHUNK_BYTES;

/// Who waits for so long has no lease any more. Most get their next message earlier, and their guards need not be told twice
/// for each.
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

/// Feeds programs: as many as there are messages at once.
pub struct Serve {
    program: Program,
    shape: Shape,
    greeting: Greeting,
    idle: Arc<Mutex<Idle>>,
}

/// Programs that wait for their next message.
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
    /// Until when its guard lets it run, as it was told for the last message; `None` for as long as it likes.
    until: Option<Moment>,
    /// Since when it waits.
    since: Instant,
    stdin: pipe::Sender,
    stdout: BufReader<pipe::Receiver>,
    log: Log,
}

/// The end of what a program has printed to its standard error, which is passed on.
struct Log {
    tail: Arc<Mutex<VecDeque<u8>>>,
    /// Who waits until all is read that is there by now.
    waiting: mpsc::Sender<oneshot::Sender<()>>,
    reader: AbortHandle,
}

impl Drop for Log {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

/// Why there is no answer.
enum Silence {
    Cut(Cut),
    /// What is wrong with it.
    Broken(String),
}

impl Serve {
    /// Feeds one message at a time, or lists of them.
    pub fn new(program: Program, shape: Shape, greeting: Greeting) -> Self {
        Self { program, shape, greeting, idle: Arc::default() }
    }

    /// Starts a program before there is a message for it: what it cannot do shows before anybody relies on it.
    pub async fn warm_up(&self) -> Result<(), ServeError> {
        let running = self.start(self.program.lease_grace).await?;
        lock(&self.idle).programs.push(running);
        Ok(())
    }

    async fn handle(&self, work: Work) -> Vec<Outcome> {
        let Some(mut running) = self.ready(&work).await else { return Vec::new() };
        let control = running.guarded.control().clone();
        let mut valid_until = work.lease.valid_until();
        // The machine may have been suspended since the last check.
        if work.lease.is_over() {
            self.rest(running);
            return Vec::new();
        }
        running.prolong(*valid_until.borrow_and_update());
        running.log.clear();
        let mut told = false;
        let asked = tokio::select! {
            // After a pause of ours the time limit may be over, too.
            biased;
            answer = running.ask(&work, self.shape, &mut told) => answer.map_err(Silence::Broken),
            cut = self.program.limits.cut(&work.lease, valid_until, &control) => Err(Silence::Cut(cut)),
        };
        match asked {
            Ok(mut outcomes) => {
                let failed = outcomes.iter_mut().find_map(|outcome| match outcome {
                    Outcome::Failed(failed) => Some(failed),
                    Outcome::Done | Outcome::Stopped => None,
                });
                if let Some(failed) = failed {
                    failed.output = running.log.tail().await;
                }
                // Half a line is in its pipe: what is asked next would be taken for the rest of it.
                if told {
                    self.rest(running);
                } else {
                    self.end(&mut running, &work.lease).await;
                }
                outcomes
            }
            Err(silence) => {
                let ended = self.end(&mut running, &work.lease).await;
                let error = match silence {
                    // Its lease was over, or about to be: that is not the message's fault.
                    _ if ended == Ending::Expired => return Vec::new(),
                    Silence::Cut(Cut::Stopped) => return Vec::new(),
                    Silence::Cut(Cut::TimeLimit) => "it took longer than its time limit".to_owned(),
                    Silence::Broken(why) => why,
                };
                let output = running.log.tail().await;
                vec![Outcome::Failed(Failed { error, output, retry: true })]
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
    async fn ready(&self, work: &Work) -> Option<Running> {
        if !self.program.may_begin(work).await {
            return None;
        }
        let grace = work.lease.grace(self.program.lease_grace);
        loop {
            let waiting = lock(&self.idle).take(&self.program);
            match waiting {
                // Started under a longer session time-out: its guard would end it as soon as it has a message.
                Some(mut running) if running.grace > grace => drop(self.end(&mut running, &work.lease).await),
                Some(running) => return Some(running),
                None => break,
            }
        }
        // It may take its time until it is ready, and was told nothing yet.
        let running = tokio::select! {
            running = started(work, || self.start(grace), |_| false) => running?,
            () = work.lease.stopped() => return None,
        };
        if !self.program.may_begin(work).await {
            self.rest(running);
            return None;
        }
        Some(running)
    }

    /// Lets it wait for its next message; that may take longer than any lease.
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
            let greeting = running.line().await.and_then(|line| lines::greeting(&line));
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
    /// One that lives: who has died meanwhile has not died of the next message.
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

impl Log {
    fn follow(mut from: pipe::Receiver) -> Self {
        let (waiting, mut asked) = mpsc::channel::<oneshot::Sender<()>>(1);
        let tail = Arc::new(Mutex::new(VecDeque::new()));
        let kept = tail.clone();
        // It ends with the program, or with us.
        let reader = tokio::spawn(async move {
            let mut chunk = vec![0; CHUNK_BYTES];
            let take = async |bytes: &[u8]| {
                keep(&mut kept.lock().unwrap_or_else(PoisonError::into_inner), bytes);
                output::write(To::Stderr, bytes).await;
            };
            loop {
                tokio::select! {
                    read = from.read(&mut chunk) => match read {
                        Ok(read @ 1..) => take(&chunk[..read]).await,
                        Ok(_) | Err(_) => return,
                    },
                    // Dropped, it has its answer.
                    Some(_answer) = asked.recv() => {
                        for _ in 0..CHUNKS_IN_A_PIPE {
                            let Ok(read @ 1..) = from.try_read(&mut chunk) else { break };
                            take(&chunk[..read]).await;
                        }
                    }
                }
            }
        });
        Self { tail, waiting, reader: reader.abort_handle() }
    }

    /// What was printed before belongs to another message.
    fn clear(&self) {
        self.tail.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// The end of what was printed until now: what was said before an answer may be read after it.
    async fn tail(&self) -> Vec<u8> {
        let (answer, answered) = oneshot::channel();
        if self.waiting.send(answer).await.is_ok() {
            let _ = answered.await;
        }
        self.tail.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect()
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
    async fn ask(&mut self, work: &Work, shape: Shape, told: &mut bool) -> Result<Vec<Outcome>, String> {
        let question = lines::question(work, shape);
        let Self { stdin, stdout, .. } = self;
        // A program may answer before it has read all: both at once, or neither would end.
        let tell = async {
            // One that has died is noticed by its silence.
            *told = stdin.write_all(&question).await.is_ok();
            std::future::pending::<()>().await
        };
        let line = tokio::select! {
            line = line(stdout) => line?,
            () = tell => return Err("it was told nothing".to_owned()),
        };
        lines::answer(&line, work, shape)
    }

    /// What it says without being asked.
    async fn line(&mut self) -> Result<String, String> {
        line(&mut self.stdout).await
    }
}

async fn line(stdout: &mut BufReader<pipe::Receiver>) -> Result<String, String> {
    let mut answer = Vec::new();
    let read = stdout.take(ANSWER_BYTES_MAX).read_until(b'\n', &mut answer).await;
    read.map_err(|error| format!("its answer cannot be read: {error}"))?;
    match answer.strip_suffix(b"\n") {
        Some(line) => Ok(String::from_utf8_lossy(line).into_owned()),
        None if answer.is_empty() => Err("it ended without an answer".to_owned()),
        None => Err("it ended, or said too much, in the middle of an answer".to_owned()),
    }
}

impl Task for Serve {
    fn run(&self, work: Work) -> Outcomes<'_> {
        Box::pin(self.handle(work))
    }
    /// Its guard ends it when its grace is over, and answers when nothing of it is left.
    fn ends_itself(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests;
