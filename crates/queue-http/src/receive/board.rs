//! The board of a queue: messages that its worker has begun, until clients take them and say what became of them.
//!
//! A message waits on the board, is out once a client has it, and ends by an answer, by a deadline, or because the
//! worker must stop. Whoever removes it from the board decides how it ends; everybody else comes too late.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use menagerie_journal::{Message, MessageId, Ticks};
use menagerie_queues::Meta;
use menagerie_queues::task::{Begun, Lease, Outcome, Outcomes, Task, Work};
use tokio::sync::{Notify, oneshot, watch};

use super::receipt::Receipt;

/// How many ended receipts we can still tell the fate of.
const ENDED_MAX: usize = 10_000;

/// How a delivery ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// A client said what became of the message.
    Answered,
    /// Nobody did in time.
    Late,
    /// The worker had to stop, or has lost the partition.
    Withdrawn,
}

/// A message that a client has received.
#[derive(Debug)]
#[expect(missing_docs, reason = "receipt and message name themselves")]
pub struct Delivery {
    pub receipt: Receipt,
    /// Counted from 1.
    pub attempt: u32,
    pub message: Message,
}

/// When a delivered message comes back, and how long its client has had it by then.
#[derive(Debug, Clone, Copy)]
struct Deadline {
    at: Instant,
    allowed: Duration,
}

/// A message on the board or out.
struct Entry {
    receipt: Receipt,
    attempt: u32,
    priority: i8,
    message: Message,
    lease: Lease,
    begun: Begun,
    /// `None` while it waits.
    deadline: watch::Sender<Option<Deadline>>,
    answer: oneshot::Sender<Outcome>,
}

/// Where a message waits: higher priorities first, then older ones; the nonce says whose place it is.
type Place = (Reverse<i8>, MessageId, u64);

impl Entry {
    fn place(&self) -> Place {
        (Reverse(self.priority), self.message.id, self.receipt.nonce)
    }
}

#[derive(Default)]
struct State {
    /// Everything on the board and out, by nonce.
    entries: HashMap<u64, Entry>,
    /// What waits, in the order in which clients get it.
    waiting: BTreeSet<Place>,
    /// The latest deliveries that have ended.
    ended: HashMap<u64, Ended>,
    /// The same, oldest first.
    ended_order: VecDeque<u64>,
    /// Clients receiving at this moment.
    receivers: usize,
    /// End of the last receive.
    last_receive: Option<Instant>,
    /// Nothing is put on it any more.
    is_closed: bool,
}

/// The messages of one queue that this server has begun. A new worker has a new board.
pub struct Board {
    server: u64,
    state: Mutex<State>,
    /// Something was put on the board, or it was closed.
    arrived: Notify,
    /// A client has gone, or a delivery has ended.
    ended: Notify,
}

/// A client that receives; keeps the board from being idle.
pub struct Receiver<'a>(&'a Board);

impl Drop for Receiver<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.receivers -= 1;
        state.last_receive = Some(Instant::now());
        drop(state);
        self.0.ended.notify_waiters();
    }
}

impl Board {
    /// An empty board of the server with this number.
    pub fn new(server: u64) -> Self {
        Self { server, state: Mutex::default(), arrived: Notify::new(), ended: Notify::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a client as receiving; `None` if the board is closed.
    pub fn enter(&self) -> Option<Receiver<'_>> {
        let mut state = self.lock();
        if state.is_closed {
            return None;
        }
        state.receivers += 1;
        Some(Receiver(self))
    }

    /// Waits until a message waits, or the board is closed. Another client may be quicker. Cancel safe.
    pub async fn wait_for_message(&self) {
        self.wait_until(&self.arrived, |state| state.is_closed || !state.waiting.is_empty()).await;
    }

    /// Waits until nobody has received for `idle` and nothing is out; then closes the board. What waits on it is
    /// stopped.
    pub async fn close_when_idle(&self, idle: Duration) {
        loop {
            self.wait_until(&self.ended, State::is_idle).await;
            let last = self.lock().last_receive.unwrap_or_else(Instant::now);
            tokio::time::sleep_until((last + idle).into()).await;
            let mut state = self.lock();
            if state.is_idle() && state.last_receive.is_none_or(|last| last.elapsed() >= idle) {
                self.close_locked(&mut state);
                return;
            }
        }
    }

    /// Closes the board: the worker ends, and receivers need another.
    pub fn close(&self) {
        self.close_locked(&mut self.lock());
    }

    fn close_locked(&self, state: &mut State) {
        state.is_closed = true;
        // Dropping an entry's sender stops its task.
        state.entries.clear();
        state.waiting.clear();
        self.arrived.notify_waiters();
    }

    async fn wait_until(&self, change: &Notify, is_true: impl Fn(&State) -> bool) {
        loop {
            let changed = change.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if is_true(&self.lock()) {
                return;
            }
            changed.await;
        }
    }

    /// Takes up to `max` messages, as long as `fits` agrees to each. They come back unless somebody answers within
    /// `visible_after`.
    pub fn take(
        &self,
        max: usize,
        visible_after: Duration,
        mut fits: impl FnMut(&Message) -> bool,
    ) -> Vec<Delivery> {
        let (mut state, mut taken) = (self.lock(), Vec::new());
        while taken.len() < max
            && let Some(place) = state.waiting.pop_first()
        {
            let (_, _, nonce) = place;
            let Some(entry) = state.entries.get(&nonce) else { continue };
            // It expired while it waited here, or the partition may have another owner: the worker sees to it.
            if entry.lease.is_over() || entry.message.expires.is_some_and(|end| end <= Ticks::now()) {
                state.entries.remove(&nonce);
                continue;
            }
            if !fits(&entry.message) {
                state.waiting.insert(place);
                break;
            }
            let at = Instant::now() + visible_after;
            entry.deadline.send_replace(Some(Deadline { at, allowed: visible_after }));
            entry.begun.say();
            let (receipt, attempt, message) = (entry.receipt, entry.attempt, entry.message.clone());
            taken.push(Delivery { receipt, attempt, message });
        }
        taken
    }

    /// Ends a delivery with this outcome.
    pub fn answer(&self, receipt: &Receipt, outcome: Outcome) -> Result<(), Option<Ended>> {
        let mut state = self.lock();
        state.find(receipt)?;
        let Some(entry) = state.end(receipt.nonce, Ended::Answered) else { return Err(None) };
        drop(state);
        self.ended.notify_waiters();
        entry.answer.send(outcome).map_err(|_| Some(Ended::Withdrawn))
    }

    /// Gives a client this much time from now on.
    pub fn extend(&self, receipt: &Receipt, visible_after: Duration) -> Result<(), Option<Ended>> {
        let state = self.lock();
        let at = Instant::now() + visible_after;
        let deadline = Deadline { at, allowed: visible_after };
        state.find(receipt)?.deadline.send_replace(Some(deadline));
        Ok(())
    }

    /// Puts a message on the board and waits for its end.
    async fn offer(&self, work: Work, nonce: u64) -> Outcome {
        // Our workers have batches of one.
        let Some(message) = work.messages.first().cloned() else { return Outcome::Stopped };
        let (partition, fence) = (work.partition.number(), work.fence);
        let receipt = Receipt { server: self.server, partition, fence, message: message.id, nonce };
        let ((deadline, mut due), (answer, mut answered)) = (watch::channel(None), oneshot::channel());
        let (attempt, priority) = (work.attempt_of(0), Meta::of(&message).priority);
        let (lease, begun) = (work.lease.clone(), work.begun.clone());
        let entry = Entry { receipt, attempt, priority, message, lease, begun, deadline, answer };
        let Some(_on_board) = self.put(entry) else { return Outcome::Stopped };
        loop {
            let deadline = *due.borrow_and_update();
            tokio::select! {
                biased;
                // The board was closed, or the message was taken from it, if there is no answer.
                outcome = &mut answered => return outcome.unwrap_or(Outcome::Stopped),
                () = work.lease.stopped() => return Outcome::Stopped,
                Ok(()) = due.changed() => {}
                () = wait_for(deadline) => {
                    // An extension may have come a moment ago.
                    let Some(passed) = deadline.filter(|_| !due.has_changed().unwrap_or_default()) else { continue };
                    if self.end(nonce, Ended::Late) {
                        return Outcome::retry(format!("not acknowledged within {} s", passed.allowed.as_secs()));
                    }
                }
            }
        }
    }

    fn put(&self, entry: Entry) -> Option<OnBoard<'_>> {
        let (mut state, nonce) = (self.lock(), entry.receipt.nonce);
        if state.is_closed {
            return None;
        }
        state.waiting.insert(entry.place());
        state.entries.insert(nonce, entry);
        drop(state);
        self.arrived.notify_waiters();
        Some(OnBoard { board: self, nonce })
    }

    /// Whether we ended it, and nobody else has.
    fn end(&self, nonce: u64, how: Ended) -> bool {
        let is_ours = self.lock().end(nonce, how).is_some();
        self.ended.notify_waiters();
        is_ours
    }
}

impl State {
    fn is_idle(&self) -> bool {
        let is_out = |entry: &Entry| entry.deadline.borrow().is_some();
        self.receivers == 0 && !self.entries.values().any(is_out)
    }

    /// The delivery that this receipt is for, if it has not ended; else how it ended, if we know.
    fn find(&self, receipt: &Receipt) -> Result<&Entry, Option<Ended>> {
        let same = |entry: &&Entry| entry.receipt == *receipt && entry.deadline.borrow().is_some();
        match self.entries.get(&receipt.nonce).filter(same) {
            // We do not know yet that the lease has ended, but another server may.
            Some(entry) if entry.lease.is_over() => Err(Some(Ended::Withdrawn)),
            Some(entry) => Ok(entry),
            None => Err(self.ended.get(&receipt.nonce).copied()),
        }
    }

    fn end(&mut self, nonce: u64, how: Ended) -> Option<Entry> {
        let entry = self.entries.remove(&nonce)?;
        self.waiting.remove(&entry.place());
        if entry.deadline.borrow().is_some() {
            self.ended.insert(nonce, how);
            self.ended_order.push_back(nonce);
            if self.ended_order.len() > ENDED_MAX
                && let Some(oldest) = self.ended_order.pop_front()
            {
                self.ended.remove(&oldest);
            }
        }
        Some(entry)
    }
}

/// Withdraws a message when its task is dropped.
struct OnBoard<'a> {
    board: &'a Board,
    nonce: u64,
}

impl Drop for OnBoard<'_> {
    fn drop(&mut self) {
        self.board.end(self.nonce, Ended::Withdrawn);
    }
}

async fn wait_for(deadline: Option<Deadline>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline.at.into()).await,
        None => std::future::pending().await,
    }
}

/// The task of a worker whose messages are handled by clients.
pub struct BoardTask(pub Arc<Board>);

impl Task for BoardTask {
    fn run(&self, work: Work) -> Outcomes<'_> {
        Box::pin(async move {
            match getrandom::u64() {
                Ok(nonce) => vec![self.0.offer(work, nonce).await],
                Err(error) => vec![Outcome::retry(format!("no receipt could be drawn: {error}"))],
            }
        })
    }
}

#[cfg(test)]
#[path = "board_tests.rs"]
mod tests;
