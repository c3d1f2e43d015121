//! One program that is asked many questions at a time, and answers each when it is done, in any order.
//!
//! A loop (`feeder.rs`) owns the program: it writes questions as they come, several at once if they do, and hands each
//! answer to whoever asked, by its id. Since a program cannot be told to forget a question, a question that must end
//! without an answer ends the program:
//!
//! | why | that question | the others in flight |
//! |---|---|---|
//! | its time limit is over | failed | stopped |
//! | its lease says stop, and there is no answer within the program's grace | stopped | stopped |
//! | its future is dropped | - | stopped |
//! | the program dies, or prints a line that is too long | all failed, as nobody knows who is to blame; those that are asked again are asked alone, so that the next time it is known | |
//! | the earliest of their leases ends | stopped | stopped |
//!
//! While it ends, a program may still answer. The outcome of a question without an answer is told only when nothing of
//! the program is left. The guard's deadline is the earliest lease's end of the questions in flight.

mod feeder;
mod in_flight;

use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::AbortHandle;

use self::feeder::{Feeder, Pending, Told};
use self::in_flight::Key;
use super::log::{Log, Mark};
use super::running::Running;
use super::stray::Strays;
use super::unanswered::{Registry, Unanswered};
use super::{AskOutcome, Greeting, Judged, ServeError};
use crate::Failure;
use crate::lease::Lease;
use crate::program::Program;

/// Questions that the loop has not taken yet. It takes them at once, so more would only wait elsewhere.
const QUESTIONS_MAX: usize = 256;

/// A question to the program.
#[derive(Debug, Clone)]
pub struct Question {
    /// What the answer refers to. Unique among the questions in flight; a second one is [`AskOutcome::Stopped`].
    pub id: String,
    /// The line, with its newline.
    pub line: Vec<u8>,
    /// Until when it may run.
    pub lease: Lease,
    /// Longest time until the answer; `None`: the program's [`Limits::time`](crate::Limits::time).
    pub time_limit: Option<Duration>,
}

/// Parses a line: the id of the question that it answers, and the answer. `None` if it is no answer.
pub type Parse<A> = fn(&[u8]) -> Option<(String, Judged<A>)>;

/// Called, for logs, when the program cannot be started and will be retried: why, and the pause.
pub type OnStartDelay = fn(&str, Duration);

/// Feeds one program.
pub struct Multiplexer<A> {
    program: Arc<Program>,
    questions: mpsc::Sender<Pending<A>>,
    signals: Arc<Signals>,
    next: AtomicU64,
    unanswered: Arc<Registry>,
    strays: Arc<Strays>,
    feeder: AbortHandle,
}

/// What askers tell the loop.
#[derive(Debug, Default)]
struct Signals {
    /// Questions whose futures were dropped.
    dropped: Mutex<Vec<Key>>,
    /// Something was dropped, or a lease has changed.
    changed: Notify,
}

/// Reports a question as dropped, unless it is told otherwise.
struct DropReport<'a> {
    signals: &'a Signals,
    key: Key,
    is_over: bool,
}

impl Drop for DropReport<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.signals.dropped.lock().unwrap_or_else(PoisonError::into_inner).push(self.key);
            self.signals.changed.notify_one();
        }
    }
}

/// Kills the program.
impl<A> Drop for Multiplexer<A> {
    fn drop(&mut self) {
        self.feeder.abort();
    }
}

impl<A: Send + 'static> Multiplexer<A> {
    /// Starts the program. Lines longer than `line_bytes_max` end it.
    ///
    /// # Errors
    /// If it cannot be started.
    pub async fn start(
        program: Program,
        line_bytes_max: usize,
        parse: Parse<A>,
        on_delay: OnStartDelay,
    ) -> Result<Self, ServeError> {
        let running = Running::start(&program, Greeting::None, program.lease_grace, line_bytes_max).await?;
        let (questions, received) = mpsc::channel(QUESTIONS_MAX);
        let (program, signals) = (Arc::new(program), Arc::<Signals>::default());
        let (unanswered, strays) = (Arc::<Registry>::default(), Arc::<Strays>::default());
        let feeder = Feeder::new(feeder::Deps {
            program: program.clone(),
            line_bytes_max,
            parse,
            on_delay,
            received,
            signals: signals.clone(),
            unanswered: unanswered.clone(),
            strays: strays.clone(),
        });
        // It ends with the multiplexer.
        let feeder = tokio::spawn(feeder.run(running)).abort_handle();
        Ok(Self { program, questions, signals, next: AtomicU64::new(0), unanswered, strays, feeder })
    }

    /// Questions that the program has and has not answered, oldest first.
    pub fn unanswered(&self) -> Vec<Unanswered> {
        self.unanswered.list()
    }

    /// How many lines were no answers.
    pub fn stray_lines(&self) -> u64 {
        self.strays.count()
    }

    /// Asks. If the future is dropped while the program has the question, the program is killed.
    pub async fn ask(&self, question: &Question) -> AskOutcome<A> {
        loop {
            if !self.program.wait_for_lease(&question.lease).await {
                return AskOutcome::Stopped;
            }
            match self.ask_once(question).await {
                Told::Good(answer) => return AskOutcome::Answered { answer, output: Vec::new() },
                Told::Bad(answer, printed) => {
                    return AskOutcome::Answered { answer, output: printed.read().await };
                }
                Told::Failed(error, printed) => {
                    return AskOutcome::Failed(Failure { error, output: printed.read().await });
                }
                Told::Stopped => return AskOutcome::Stopped,
                // The program ended before it was asked, or the lease has become too short.
                Told::NotAsked => {}
            }
        }
    }

    async fn ask_once(&self, question: &Question) -> Told<A> {
        let key = Key(self.next.fetch_add(1, Ordering::Relaxed));
        let (tell, mut told) = oneshot::channel();
        let mut valid_until = question.lease.valid_until();
        // What changes from here on is reported to the loop, which reads the state before that by itself.
        valid_until.mark_unchanged();
        let mut report = DropReport { signals: &self.signals, key, is_over: false };
        let pending = Pending { key, question: question.clone(), tell };
        let sent = self.questions.send(pending).await;
        assert!(sent.is_ok(), "the loop lives as long as the multiplexer");
        let mut stopped = pin!(question.lease.stopped());
        let (mut is_stopped, mut is_extended) = (false, true);
        let outcome = loop {
            tokio::select! {
                biased;
                outcome = &mut told => break outcome,
                changed = valid_until.changed(), if is_extended => is_extended = changed.is_ok(),
                () = &mut stopped, if !is_stopped => is_stopped = true,
            }
            self.signals.changed.notify_one();
        };
        report.is_over = true;
        outcome.expect("the loop lives as long as the multiplexer, and answers all questions")
    }
}

/// What the program printed while it had a question, about this one or others.
struct Printed {
    log: Arc<Log>,
    since: Mark,
}

impl Printed {
    async fn read(&self) -> Vec<u8> {
        self.log.since(self.since).await
    }
}
