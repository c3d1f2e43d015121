//! The loop that owns the program of a [`Multiplexer`](super::Multiplexer).

use std::collections::{HashSet, VecDeque};
use std::pin::Pin;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use menagerie_kernel::Moment;
use menagerie_kernel::guard::Outcome as Ending;
use tokio::io::AsyncWriteExt as _;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Sleep;
use tracing::{debug, info};

use super::in_flight::{Cause, Due, Fate, InFlight, Key};
use super::{OnStartDelay, Parse, Printed, Question, Signals};
use crate::program::{Program, start_with_retries};
use crate::serve::running::{IDLE_AFTER, Running};
use crate::serve::stray::Strays;
use crate::serve::unanswered::{Registered, Registry, warn_of_silence};
use crate::serve::{Greeting, Judged, took_too_long};

/// Lines are joined up to about this size: as much as a pipe takes at once.
const WRITE_BYTES: usize = 64 << 10;
/// Lines handled before looking at anything else.
const LINES_PER_TURN: usize = 256;
/// Questions taken from the channel at once.
const TAKEN_MAX: usize = 64;
/// Suspects remembered, of questions that may be asked elsewhere now. Beyond that, all are forgotten.
const SUSPECTS_MAX: usize = 10_000;
/// The timer, if nothing is due. An early end is harmless.
const FAR: Duration = Duration::from_secs(3600);

/// A question that the loop has been given.
pub(super) struct Pending<A> {
    pub key: Key,
    pub question: Question,
    pub tell: oneshot::Sender<Told<A>>,
}

/// What an asker is told.
pub(super) enum Told<A> {
    Good(A),
    Bad(A, Printed),
    Failed(String, Printed),
    Stopped,
    /// The program never got the question; it may be asked again at once.
    NotAsked,
}

/// A question that the program has.
struct Asked<A> {
    question: Question,
    tell: oneshot::Sender<Told<A>>,
    printed: Printed,
    _registered: Registered,
}

pub(super) struct Deps<A> {
    pub program: Arc<Program>,
    pub line_bytes_max: usize,
    pub parse: Parse<A>,
    pub on_delay: OnStartDelay,
    pub received: mpsc::Receiver<Pending<A>>,
    pub signals: Arc<Signals>,
    pub unanswered: Arc<Registry>,
    pub strays: Arc<Strays>,
}

/// The loop.
pub(super) struct Feeder<A> {
    deps: Deps<A>,
    pending: VecDeque<Pending<A>>,
    in_flight: InFlight<Asked<A>>,
    /// Ids of questions that were in flight with others when the program died. They are asked alone, so that the one that
    /// kills the program cannot take the others with it again and again.
    suspects: HashSet<String>,
    /// The one in flight is a suspect.
    is_alone: bool,
    /// Lines that are being written, and how much of them is.
    out: Vec<u8>,
    written: usize,
    timer: Pin<Box<Sleep>>,
}

/// A program that is being fed.
struct Fed {
    running: Running,
    /// Why it is ending, if it is.
    cause: Option<Cause>,
    /// There may be more lines.
    is_open: bool,
}

/// What has happened.
enum Event {
    Ended(Ending),
    Line(Result<Vec<u8>, String>),
    Written(usize),
    Taken,
    Changed,
    Time,
    /// The multiplexer is gone.
    Closed,
}

impl<A> Feeder<A> {
    pub(super) fn new(deps: Deps<A>) -> Self {
        Self {
            in_flight: InFlight::new(deps.program.grace),
            deps,
            pending: VecDeque::new(),
            suspects: HashSet::new(),
            is_alone: false,
            out: Vec::new(),
            written: 0,
            timer: Box::pin(tokio::time::sleep(FAR)),
        }
    }

    /// Feeds this program, and then others as long as there are questions.
    pub(super) async fn run(mut self, first: Running) {
        let mut running = Some(first);
        loop {
            running = match running {
                Some(running) => match self.feed(running).await {
                    Some(()) => None,
                    None => return,
                },
                None if self.pending.is_empty() => match self.deps.received.recv().await {
                    Some(question) => {
                        self.pending.push_back(question);
                        None
                    }
                    None => return,
                },
                None => self.start().await,
            };
        }
    }

    /// Starts the program for the questions that wait. `None` if all of them have gone meanwhile.
    async fn start(&mut self) -> Option<Running> {
        let program = self.deps.program.clone();
        let graces = self.pending.iter().map(|pending| pending.question.lease.grace(program.lease_grace));
        let grace = graces.min().unwrap_or(program.lease_grace);
        let line_bytes_max = self.deps.line_bytes_max;
        let start = || Running::start(&program, Greeting::None, grace, line_bytes_max);
        let on_delay = self.deps.on_delay;
        let mut starting = Box::pin(start_with_retries(std::future::pending(), &on_delay, start, |_| false));
        loop {
            tokio::select! {
                running = &mut starting => return running,
                () = self.deps.signals.changed.notified() => self.drop_stopped(),
                Some(question) = self.deps.received.recv() => self.pending.push_back(question),
            }
            if self.pending.is_empty() {
                return None;
            }
        }
    }

    /// Feeds a program until nothing of it is left, and all its questions have an outcome. `None` if the multiplexer is
    /// gone.
    async fn feed(&mut self, running: Running) -> Option<()> {
        let mut fed = Fed { running, cause: None, is_open: true };
        // The questions that it was started for come first: a program that dies at once must not be started for ever.
        self.pack(&mut fed);
        loop {
            self.update_deadline(&mut fed);
            match self.next_event(&mut fed).await {
                Event::Ended(ended) => {
                    self.end(fed, ended).await;
                    return Some(());
                }
                Event::Line(line) => self.on_lines(line, &mut fed),
                Event::Written(bytes) => self.written += bytes,
                Event::Taken => {}
                Event::Changed => self.on_change(&mut fed),
                Event::Time => self.on_time(&mut fed),
                Event::Closed => return None,
            }
            if fed.cause.is_none() && self.written == self.out.len() && !self.pending.is_empty() {
                // One that died while it was idle must not count against a question.
                if self.in_flight.is_empty() && fed.running.guarded.wait().now_or_never().is_some() {
                    continue;
                }
                self.pack(&mut fed);
            }
        }
    }

    async fn next_event(&mut self, fed: &mut Fed) -> Event {
        let Self { deps, pending, out, written, timer, .. } = self;
        let Fed { running, cause, is_open } = fed;
        let rest = &out[*written..];
        let is_writing = cause.is_none() && !rest.is_empty();
        let mut taken = Vec::new();
        tokio::select! {
            ended = running.guarded.wait() => Event::Ended(ended),
            line = running.stdout.line(), if *is_open => Event::Line(line),
            // A program that does not read is noticed by its silence, or by its end.
            bytes = running.stdin.write(rest), if is_writing => Event::Written(bytes.unwrap_or(rest.len())),
            count = deps.received.recv_many(&mut taken, TAKEN_MAX) => {
                pending.extend(taken);
                if count == 0 { Event::Closed } else { Event::Taken }
            }
            () = deps.signals.changed.notified() => Event::Changed,
            () = timer => Event::Time,
        }
    }

    /// Gives the program the questions that wait, as far as they may begin.
    fn pack(&mut self, fed: &mut Fed) {
        let running = &fed.running;
        self.out.clear();
        self.written = 0;
        let (now, moment) = (Instant::now(), Moment::now());
        while self.out.len() < WRITE_BYTES && (!self.is_alone || self.in_flight.is_empty()) {
            let Some(next) = self.pending.front() else { return };
            self.is_alone = !self.suspects.is_empty() && self.suspects.contains(&next.question.id);
            if self.is_alone && !self.in_flight.is_empty() {
                // Its turn comes when the others are answered.
                return;
            }
            let Some(Pending { key, question, tell }) = self.pending.pop_front() else { return };
            let until = *question.lease.valid_until().borrow();
            let is_repeated = self.in_flight.has_id(&question.id);
            if tell.is_closed() || question.lease.is_stopped() || until <= moment || is_repeated {
                let _ = tell.send(Told::Stopped);
                continue;
            }
            if until <= moment + running.grace {
                self.pending.push_front(Pending { key, question, tell });
                return self.make_way(fed);
            }
            self.out.extend_from_slice(&question.line);
            let time_limit = question.time_limit.or(self.deps.program.limits.time);
            let printed = Printed { log: running.log.clone(), since: running.log.mark() };
            let registered = self.deps.unanswered.register(&question.id);
            let id = question.id.clone();
            let asked = Asked { question, tell, printed, _registered: registered };
            self.in_flight.insert(key, id, until, time_limit, now, asked);
        }
    }

    /// A question's lease is shorter than the grace of the program, whose guard would end it at once. If leases have
    /// become shorter for good, the program is replaced as soon as it has no questions; otherwise the question waits.
    fn make_way(&mut self, fed: &mut Fed) {
        let Some(Pending { question, .. }) = self.pending.front() else { return };
        if question.lease.grace(self.deps.program.lease_grace) >= fed.running.grace {
            if let Some(Pending { tell, .. }) = self.pending.pop_front() {
                let _ = tell.send(Told::NotAsked);
            }
        } else if self.in_flight.is_empty() {
            self.stop(fed, Cause::Stop);
        }
    }

    /// Keeps the guard's deadline at the end of the earliest lease, and the timer at whatever is due first.
    fn update_deadline(&mut self, Fed { running, cause, .. }: &mut Fed) {
        let mut due = self.in_flight.next_alarm();
        match self.in_flight.earliest_end() {
            Some(until) => {
                running.set_deadline(until);
                running.since = Instant::now();
            }
            None if !running.has_deadline() || cause.is_some() => {}
            None if running.since.elapsed() >= IDLE_AFTER => running.lift_deadline(),
            None => due = Some(running.since + IDLE_AFTER),
        }
        // Alarms come and go with each question: a timer that ends too early costs less than setting it each time.
        let due = due.map(tokio::time::Instant::from_std);
        if due.is_some_and(|due| due < self.timer.deadline()) {
            self.timer.as_mut().reset(due.unwrap_or_else(tokio::time::Instant::now));
        }
    }

    fn on_time(&mut self, fed: &mut Fed) {
        let now = Instant::now();
        for due in self.in_flight.on_time(now) {
            match due {
                Due::Silent(id) => warn_of_silence(&self.deps.program.name(), fed.running.pid(), &id),
                Due::TimeLimit => self.stop(fed, Cause::TimeLimit),
                Due::StopGrace => self.stop(fed, Cause::Stop),
            }
        }
        let next = self.in_flight.next_alarm().unwrap_or(now + FAR);
        self.timer.as_mut().reset(next.into());
    }

    /// Something was dropped, or a lease has changed.
    fn on_change(&mut self, fed: &mut Fed) {
        let dropped =
            std::mem::take(&mut *self.deps.signals.dropped.lock().unwrap_or_else(PoisonError::into_inner));
        if dropped.iter().any(|key| self.in_flight.contains(*key)) {
            // Nobody waits for its end, so there must be nothing to wait for.
            fed.running.guarded.control().stop(Duration::ZERO);
            fed.cause.get_or_insert(Cause::Stop);
        }
        self.drop_stopped();
        self.in_flight.update_leases(Instant::now(), |asked| {
            let lease = &asked.question.lease;
            (*lease.valid_until().borrow(), lease.is_stopped())
        });
        if self.in_flight.all_stop() {
            self.stop(fed, Cause::Stop);
        }
    }

    /// Ends questions that must stop, or were dropped, before the program got them.
    fn drop_stopped(&mut self) {
        for _ in 0..self.pending.len() {
            let Some(pending) = self.pending.pop_front() else { return };
            if pending.question.lease.is_stopped() || pending.tell.is_closed() {
                let _ = pending.tell.send(Told::Stopped);
            } else {
                self.pending.push_back(pending);
            }
        }
    }

    /// Begins to end the program.
    fn stop(&self, fed: &mut Fed, cause: Cause) {
        if fed.cause.is_none() {
            fed.cause = Some(cause);
            fed.running.guarded.control().stop(self.deps.program.grace);
        }
    }

    /// Handles a line and those that came with it.
    fn on_lines(&mut self, first: Result<Vec<u8>, String>, fed: &mut Fed) {
        let mut next = first;
        for turn in 1.. {
            match next {
                Ok(line) => self.on_line(&line, &fed.running),
                Err(why) => {
                    fed.is_open = false;
                    return self.stop(fed, Cause::Broken(why));
                }
            }
            if turn == LINES_PER_TURN {
                return;
            }
            let Some(another) = fed.running.stdout.buffered_line().transpose() else { return };
            next = another;
        }
    }

    fn on_line(&mut self, line: &[u8], running: &Running) {
        let answered =
            (self.deps.parse)(line).and_then(|(id, judged)| Some((self.in_flight.answer(&id)?, judged)));
        let Some((Asked { tell, printed, question, .. }, judged)) = answered else {
            return self.deps.strays.note(&self.deps.program.name(), &running.log, line);
        };
        self.suspects.remove(&question.id);
        // Whoever asked may be gone.
        let _ = tell.send(match judged {
            Judged::Good(answer) => Told::Good(answer),
            Judged::Bad(answer) => Told::Bad(answer, printed),
            Judged::Invalid(why) => Told::Failed(why, printed),
            Judged::Stray => Told::Failed("its reply is none".to_owned(), printed),
        });
    }

    /// Tells each question what became of it, now that the program has ended.
    async fn end(&mut self, fed: Fed, ended: Ending) {
        let Fed { mut running, cause, .. } = fed;
        // Answers that were printed before the end count.
        let mut lines = Vec::new();
        let _ = running.stdout.printed_lines(|line| lines.push(line.to_vec())).await;
        lines.iter().for_each(|line| self.on_line(line, &running));
        (self.out, self.written, self.is_alone) = (Vec::new(), 0, false);
        let program = self.deps.program.name();
        if self.in_flight.is_empty() {
            info!(program, ?ended, "the program has ended");
        } else {
            debug!(program, ?ended, ?cause, "the program has ended with questions in flight");
        }
        let cause = cause.unwrap_or_else(|| Cause::Broken("it ended without an answer".to_owned()));
        let fates = self.in_flight.end(&cause, ended == Ending::Expired);
        let is_shared = fates.iter().filter(|(.., fate)| matches!(fate, Fate::Failed(_))).count() > 1;
        if self.suspects.len() > SUSPECTS_MAX {
            self.suspects.clear();
        }
        for (id, Asked { tell, printed, .. }, fate) in fates {
            let told = match fate {
                Fate::Stopped => Told::Stopped,
                Fate::TookTooLong(limit) => Told::Failed(took_too_long(limit, Greeting::None), printed),
                Fate::Failed(error) => {
                    match is_shared {
                        true => self.suspects.insert(id),
                        false => self.suspects.remove(&id),
                    };
                    Told::Failed(error, printed)
                }
            };
            let _ = tell.send(told);
        }
    }
}
