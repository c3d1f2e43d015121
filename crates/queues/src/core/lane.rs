//! A partition that the worker owns: everything known of it, once.

use std::time::{Duration, Instant};

use menagerie_journal::{Message, MessageId, Ticks};
use menagerie_kernel::Fence;
use menagerie_znodes::queues::{Handling, OPEN_MAX, Order, PartitionName, Retry};

use super::activity::Counter;
use super::inflow::Inflow;
use super::ledger::{Ack, Ledger};
use super::options::Options;
use super::read_ahead::{self, ReadBudget};
use super::tally::{Attempts, Predecessor, StoredAttempts, Tally};
use super::turn::Ready;
use super::window::{Standing, Window};

/// How often to log that messages are damaged.
const DAMAGE_LOG_INTERVAL: Duration = Duration::from_secs(60);

/// Crashes in a row after which a queue whose messages are handled side by side is handled one by one, to find the
/// message that kills its workers. After a single one that would cost more than it is worth.
const CRASHES_SUSPICIOUS: u32 = 2;

/// A partition that we own now, as its lock, its cursor and its journal say.
#[derive(Debug, Clone)]
pub struct Ownership {
    /// Its name.
    pub partition: PartitionName,
    /// Our fence.
    pub fence: Fence,
    /// Number of the session's term under which we own it.
    pub term: u64,
    /// Everything up to here is done.
    pub cursor: MessageId,
    /// What is done beyond the cursor: the last message that is, and the unfinished ones before it.
    pub beyond: Option<(MessageId, Vec<MessageId>)>,
    /// Attempts of unfinished messages.
    pub attempts: StoredAttempts,
    /// The previous owner, if it did not release.
    pub predecessor: Option<Holder>,
    /// The position that the journal knows.
    pub reported: MessageId,
    /// How the queue's messages are handled.
    pub handling: Handling,
}

/// The owner of a partition, as the journal stores it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Holder {
    /// The owner's fence.
    pub fence: String,
    /// How many messages after the cursor may have begun: by the owner, or by one before it that did not release.
    pub window: u32,
    /// How many owners before it did not release, one after the other.
    #[serde(default)]
    pub crashes: u32,
    /// It did release; only what one before it may have begun is not all done.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub released: bool,
}

/// What the next owner must know of a released partition.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Handover {
    /// The cursor.
    pub position: MessageId,
    /// Messages that have begun and are not done.
    pub begun: Vec<(MessageId, Attempts)>,
    /// Messages up to this one may have begun, some of which we have not read.
    pub begun_through: Option<MessageId>,
    /// Attempts that the journal need not keep.
    pub settled: Vec<MessageId>,
    /// Set if an owner before us did not release, and not everything that it may have begun is done.
    pub suspect: Option<Holder>,
}

/// The next messages are damaged and will never be readable.
#[derive(Debug, Clone)]
pub struct Damaged {
    /// The journal's error.
    pub error: String,
    logged_at: Instant,
}

/// What we remember of a partition that we have lost.
#[derive(Debug, Clone)]
pub struct LostLane {
    fence: Fence,
    tally: Tally,
    careful: u32,
}

/// A partition that this worker owns.
#[derive(Debug, Clone)]
pub struct Lane {
    /// Its name.
    pub partition: PartitionName,
    /// Our fence.
    pub fence: Fence,
    /// Number of the session's term under which we own it.
    pub term: u64,
    /// Its unfinished messages.
    pub window: Window,
    /// What is done and recorded.
    pub ledger: Ledger,
    /// How often messages were tried.
    pub tally: Tally,
    order: Order,
    retry: Retry,
    /// How many of its batches may run at a time. Fixed, as the next owner relies on it if we vanish.
    width: usize,
    holder: Holder,
    /// Last message read.
    pub read: MessageId,
    /// Whether the first read has ended, even if it found nothing.
    pub has_read: bool,
    /// Consecutive failed reads.
    pub read_failures: u32,
    /// Whether a read is in flight.
    pub is_fetching: bool,
    /// Set while the next messages are damaged.
    pub damaged: Option<Damaged>,
    /// We stopped waiting for a note in flight, so we do not know what the journal stores about a failure.
    pub is_note_uncertain: bool,
    /// Its entry among the worker's timers.
    pub timer: Option<Instant>,
    /// Another worker may own it; we drop it once nothing runs.
    pub is_lost: bool,
    /// The queue's order has changed: we release it, and claim it again.
    pub is_outdated: bool,
    /// Last position reported to the journal.
    pub reported: MessageId,
    /// What came of attempts lately.
    pub counter: Counter,
    /// How fast messages are put.
    pub inflow: Inflow,
    /// Something has happened that others may want to see.
    pub has_news: bool,
    /// A report of it is in flight.
    pub is_telling: bool,
    /// Finished messages whose attempts the journal still has: not recorded, in the record in flight, recorded.
    settling: Vec<MessageId>,
    settled: Vec<MessageId>,
}

/// How many batches of a partition may run at a time.
fn width(order: Order, options: &Options) -> usize {
    match order {
        Order::Partition => 1,
        Order::Key | Order::None if options.ack == Ack::Before => 1,
        Order::Key | Order::None => options.concurrency.max(1),
    }
}

impl Holder {
    /// A new owner. Its predecessor's messages stay suspect until they are done, even if it vanishes before that.
    pub fn new(fence: Fence, predecessor: Option<&Self>, order: Order, options: &Options) -> Self {
        let window = options.commit.window(options.ack, width(order, options), options.batch);
        let crashes = |before: &Self| before.crashes + u32::from(!before.released);
        let (crashes, begun) = predecessor.map_or((0, 0), |before| (crashes(before), before.window));
        Self { fence: fence.to_string(), window: window.max(begun), crashes, released: false }
    }
}

impl Lane {
    /// A partition that we own; `ours` is what we remember if we owned and lost it before.
    pub fn new(owned: Ownership, options: &Options, ours: Option<LostLane>) -> Self {
        let Ownership {
            partition,
            fence,
            term,
            cursor,
            beyond,
            mut attempts,
            predecessor,
            reported,
            handling,
        } = owned;
        let order = handling.order;
        let had_gaps = Self::has_gaps(&handling) || beyond.is_some();
        let (done, open) = beyond.filter(|(done, _)| *done > cursor).unwrap_or((cursor, Vec::new()));
        let open: Vec<MessageId> = open.into_iter().filter(|id| *id > cursor).collect();
        let settled = attempts.take_done(|id| id <= done && open.binary_search(&id).is_err());
        let window = Window::new(order, handling.retry(), open);
        let ledger = Ledger::new(cursor, done, options.commit, options.ack);
        let holder = Holder::new(fence, predecessor.as_ref(), order, options);
        // If nobody has owned it since, we know what has begun, and that no message killed its worker.
        let ours = ours
            .filter(|ours| predecessor.as_ref().is_some_and(|before| before.fence == ours.fence.to_string()));
        let (careful, tally) = match ours {
            // The record of the last message done may be missing.
            Some(ours) if ours.careful > 0 => (ours.careful.saturating_add(1), ours.tally.retaken(attempts)),
            Some(ours) => (0, ours.tally.retaken(attempts)),
            None => Self::after(predecessor.as_ref(), (&handling, had_gaps), attempts, options),
        };
        Self {
            partition,
            fence,
            term,
            window,
            ledger: ledger.with_careful_window(careful),
            tally,
            order,
            retry: handling.retry(),
            width: width(order, options),
            holder,
            read: cursor,
            has_read: false,
            read_failures: 0,
            is_fetching: false,
            damaged: None,
            is_note_uncertain: false,
            timer: None,
            is_lost: false,
            is_outdated: false,
            reported,
            counter: Counter::default(),
            inflow: Inflow::default(),
            has_news: true,
            is_telling: false,
            settling: Vec::new(),
            settled,
        }
    }

    /// How careful to be after this owner, and what is known of its messages.
    fn after(
        predecessor: Option<&Holder>,
        (handling, had_gaps): (&Handling, bool),
        attempts: StoredAttempts,
        options: &Options,
    ) -> (u32, Tally) {
        let window = predecessor.map_or(0, |holder| holder.window);
        let in_order = handling.order == Order::Partition || options.ack == Ack::Before;
        let vanished = predecessor.filter(|holder| !holder.released);
        let is_suspicious = vanished.is_some_and(|holder| holder.crashes + 1 >= CRASHES_SUSPICIOUS);
        let careful = if vanished.is_some() && in_order || is_suspicious { window } else { 0 };
        // With at-most-once delivery each message has one attempt, however many workers died.
        let counts = careful > 0 && options.ack == Ack::After;
        let before = if counts { Predecessor::Vanished } else { Predecessor::Released };
        // If messages overtake others, an owner may have begun any unfinished one that it had read, and those that it had
        // done without a record.
        let suspects = match had_gaps && window > 0 {
            true => u32::try_from(OPEN_MAX).unwrap_or(u32::MAX).saturating_add(window),
            false => window,
        };
        (careful, Tally::new(attempts, before, suspects))
    }

    /// What to remember of it once it is lost.
    pub fn remains(self) -> LostLane {
        LostLane { fence: self.fence, tally: self.tally, careful: self.ledger.careful() }
    }

    /// Whether messages may be done while some before them are not, so that records name those.
    pub fn has_gaps(handling: &Handling) -> bool {
        (handling.order, handling.retry()) != (Order::Partition, Retry::Block)
    }

    /// Releases it if the queue's messages are to be handled in another order, as the next claim will.
    pub fn follow(&mut self, handling: &Handling) {
        if (handling.order, handling.retry()) != (self.order, self.retry) {
            self.is_outdated = true;
            self.ledger.close();
        }
    }

    /// Whether an outcome counts by itself, whatever became of the messages before it in its batch.
    pub fn is_side_by_side(&self) -> bool {
        self.order != Order::Partition
    }

    /// Whether messages begin one by one, in order, whatever the queue's order is.
    fn is_one_by_one(&self) -> bool {
        self.ledger.careful() > 0 || self.ledger.records_first()
    }

    /// The next message that may begin now.
    pub fn candidate(&self, now: Instant) -> Option<MessageId> {
        let id = self.window.candidate(self.is_one_by_one())?;
        // A recorded message must be handled, even while closing: nobody else would.
        let is_recorded = self.window.slot(id).is_some_and(|slot| slot.standing == Standing::Recorded);
        let can_begin = is_recorded || self.ledger.can_begin(self.window.running(), self.width, now);
        (can_begin && !self.is_lost).then_some(id)
    }

    /// Whether it can begin a message.
    pub fn ready(&self, paused: bool, now: Instant) -> Ready {
        if paused || self.is_lost {
            return Ready::No;
        }
        match self.candidate(now) {
            Some(id) => Ready::Now(id),
            None if self.ledger.is_waiting_for_record(self.window.running()) => {
                self.window.candidate(self.is_one_by_one()).map_or(Ready::No, Ready::Soon)
            }
            None => Ready::No,
        }
    }

    /// The messages that begin together with this one, itself first.
    pub fn batch(&self, first: MessageId, batch: usize, now: Ticks) -> Vec<MessageId> {
        let count = if self.is_one_by_one() { 1 } else { batch };
        self.window.batch(first, count, now, |id| self.tally.is_fresh(id))
    }

    /// Limits of the next read, if one is due; `share` is how many bytes we may read ahead. The message to read, if it is
    /// one that was unfinished when we took the partition; else whatever comes next.
    pub fn next_read(&self, share: usize) -> Option<(ReadBudget, Option<MessageId>)> {
        if let Some(id) = self.window.next_unread(self.read) {
            return Some((ReadBudget { messages: 1, bytes: u32::MAX }, Some(id)));
        }
        let (messages, bytes) = self.window.size();
        let depth = match (self.order, self.retry) {
            (Order::Partition, Retry::Block) => read_ahead::Depth::InOrder,
            _ => read_ahead::Depth::SideBySide,
        };
        read_ahead::read_budget(depth, messages, bytes, share).map(|budget| (budget, None))
    }

    /// Where the next read begins. Everything up to the last finished message is done, or was unfinished and is read by
    /// itself.
    pub fn read_after(&self) -> MessageId {
        self.read.max(self.ledger.done())
    }

    /// Messages were read: all that is unfinished among them is known now.
    pub fn on_read(&mut self, asked: Option<MessageId>, messages: Vec<Message>, now: Instant) {
        if let Some(id) = asked {
            self.read = self.read.max(id);
            match messages.into_iter().find(|message| message.id == id) {
                Some(message) => self.insert(message),
                // Somebody has deleted it; it may be the last that keeps the cursor back.
                None => self.finish(id, now),
            }
            return;
        }
        for message in messages {
            self.read = self.read.max(message.id);
            self.insert(message);
        }
    }

    fn insert(&mut self, message: Message) {
        let id = message.id;
        self.window.insert(message);
        // Under an earlier owner, but those behind it may have to wait all the same.
        if self.tally.has_failed(id) {
            self.window.mark_failing(id);
        }
    }

    /// Whether to log now that messages are damaged: repeatedly, as it will not heal by itself.
    pub fn is_damage_news(&mut self, error: String, now: Instant) -> bool {
        let is_news = |damaged: &Damaged| now.duration_since(damaged.logged_at) >= DAMAGE_LOG_INTERVAL;
        let is_news = self.damaged.as_ref().is_none_or(is_news);
        if is_news {
            self.damaged = Some(Damaged { error, logged_at: now });
        }
        is_news
    }

    /// The next time something falls due by itself.
    pub fn next_timer(&self, now: Instant) -> Option<Instant> {
        let due = [self.window.next_wake(), self.ledger.record_at()];
        due.into_iter().flatten().filter(|due| *due > now).min()
    }

    /// Whether it can be released, or dropped if lost.
    pub fn can_end(&self) -> bool {
        let is_settled = self.is_lost || (self.ledger.is_recorded() && !self.window.has_recorded());
        self.window.is_quiet() && is_settled
    }

    /// A message is done, or does not have to be handled any more.
    pub fn finish(&mut self, id: MessageId, now: Instant) {
        self.window.remove(id);
        self.tally.finish(id);
        self.ledger.finish(id, now);
    }

    /// The next message, if it has expired. Nothing runs, so it need not wait for a record.
    pub fn expired(&self, now: Ticks) -> Option<MessageId> {
        self.window.candidate(self.is_one_by_one()).filter(|id| self.window.is_expired(*id, now))
    }

    /// Passes a message that has expired.
    pub fn pass(&mut self, id: MessageId, now: Instant) {
        self.window.remove(id);
        self.tally.pass(id);
        self.ledger.pass(id, now);
    }

    /// The record that is due now: the new cursor, and the unfinished messages before the last finished one.
    pub fn record_due(&mut self, now: Instant) -> Option<RecordPlan> {
        // A failure is the time to record what came before it: it may be the first of many, or of a crash.
        let is_idle = self.window.is_noting() || self.window.running() == 0 && !self.window.has_ready();
        if self.is_lost || !self.ledger.is_record_due(is_idle, now) {
            return None;
        }
        Some(self.start_record(self.ledger.frontier(self.window.first())))
    }

    /// Starts a record with this cursor.
    pub fn start_record(&mut self, cursor: MessageId) -> RecordPlan {
        self.ledger.start_record(cursor);
        self.inflow.start_record(self.window.passed_by(cursor));
        self.settling = self.tally.settled().collect();
        let done = self.ledger.done();
        let beyond = (done > cursor).then(|| (done, self.window.open(done).collect()));
        RecordPlan { cursor, beyond }
    }

    /// The record in flight is stored.
    pub fn confirm_record(&mut self) {
        self.ledger.confirm_record();
        self.inflow.confirm_record();
        let settling = std::mem::take(&mut self.settling);
        self.tally.forget(&settling);
        self.settled.extend(settling);
    }

    /// Attempts that the journal need not keep; the caller has it drop them.
    pub fn take_settled(&mut self) -> Vec<MessageId> {
        std::mem::take(&mut self.settled)
    }

    /// Marks it as lost. Its messages that wait or back off belong to somebody else now.
    pub fn lose(&mut self) {
        self.is_lost = true;
        self.is_fetching = false;
    }

    /// What the next owner must know.
    pub fn handover(&mut self) -> Handover {
        // With a note in flight, write no attempts: ours could overtake it. The next owner sees the note, or counts the
        // attempt itself.
        let begun = match self.is_note_uncertain {
            true => Vec::new(),
            false => self.tally.handover(self.window.slots().map(|(id, _)| id)),
        };
        let is_careful = self.ledger.careful() > 0;
        let suspect = match () {
            () if self.is_note_uncertain || is_careful => Some(self.holder.clone()),
            // Nothing points to a message that kills its workers.
            () if self.tally.suspects() > 0 => {
                Some(Holder { crashes: 0, released: true, ..self.holder.clone() })
            }
            () => None,
        };
        let settled = self.take_settled();
        let begun_through = Some(self.tally.begun()).filter(|begun| *begun > self.read_after());
        Handover { position: self.ledger.confirmed(), begun, begun_through, settled, suspect }
    }
}

/// What a record stores.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordPlan {
    /// Everything up to here is done.
    pub cursor: MessageId,
    /// The last message done, and the unfinished ones before it.
    pub beyond: Option<(MessageId, Vec<MessageId>)>,
}
