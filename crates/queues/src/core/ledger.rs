//! What of a partition is done and recorded, and when the next record is due.
//!
//! A record stores what is done: it moves the cursor, and names the messages that are unfinished before the last finished
//! one. At most one is in flight, and work continues meanwhile until the next one is due. So a crash repeats at most two
//! records' worth of messages: two messages if each is recorded by itself and handled one at a time.

use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use menagerie_journal::MessageId;

/// Assumed number of messages per record when records are timed; bounds the careful window after a crash.
const TIMED_RECORD_GUESS: u32 = 500;

/// When to record what is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Commit {
    /// After this many messages, or when nothing more waits. One: each message by itself.
    Count(NonZeroU32),
    /// This long after the first unrecorded message was done.
    Every(Duration),
}

impl Commit {
    /// Each message by itself.
    pub const EACH: Self = Self::Count(NonZeroU32::MIN);

    /// How many messages an owner may have begun without a record when it dies, with up to `width` batches of `batch` at
    /// a time. A record falls due after at most all but one of its messages plus one more batch in each place; one may be
    /// in flight, and another due.
    pub fn window(self, ack: Ack, width: usize, batch: usize) -> u32 {
        if ack == Ack::Before {
            return 0;
        }
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX).max(1);
        let (width, batch) = (number(width), number(batch));
        let record = match self {
            Self::Count(count) => count.get().saturating_mul(width) - 1,
            Self::Every(_) => TIMED_RECORD_GUESS.saturating_sub(batch),
        };
        record.saturating_add(batch.saturating_mul(width)).saturating_mul(2)
    }
}

/// Whether to record a message when it is done or before it begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ack {
    /// At least once: a message may be handled twice, and is never lost.
    #[default]
    After,
    /// At most once: a message may be lost, and is never handled twice. Each is recorded by itself, right before it
    /// begins.
    Before,
}

/// The outcome of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recorded {
    /// Stored.
    Confirmed,
    /// Not stored: we have lost the partition.
    Refused,
    /// Unknown. Only happens when the session ends, and the lock with it.
    Unknown,
}

/// Progress of one partition, from claim to release.
#[derive(Debug, Clone)]
pub struct Ledger {
    commit: Commit,
    ack: Ack,
    /// The cursor: everything up to it is recorded.
    confirmed: MessageId,
    /// Last message done, whatever is unfinished before it.
    done: MessageId,
    /// Messages done that no record covers yet, and when the first of them was done.
    unrecorded: u32,
    since: Option<Instant>,
    /// Messages were passed that no record covers yet.
    has_passed: bool,
    /// The cursor of the record in flight.
    recording: Option<MessageId>,
    /// How many more messages to handle and record one by one: one of them may have killed the previous owner.
    careful: u32,
    is_closing: bool,
}

impl Ledger {
    /// Progress as stored: the cursor, and the last message done, which is the same unless messages were handled side by
    /// side.
    pub fn new(cursor: MessageId, done: MessageId, commit: Commit, ack: Ack) -> Self {
        Self {
            commit,
            ack,
            confirmed: cursor,
            done: done.max(cursor),
            unrecorded: 0,
            since: None,
            has_passed: false,
            recording: None,
            careful: 0,
            is_closing: false,
        }
    }

    /// For a partition whose owner vanished: handles and records the next `window` messages, which it may have begun,
    /// one by one. So a message that kills its worker soon is the first after the cursor, where its attempts are
    /// counted.
    #[must_use]
    pub fn with_careful_window(self, window: u32) -> Self {
        Self { careful: window, ..self }
    }

    /// How many more messages to handle one by one.
    pub fn careful(&self) -> u32 {
        self.careful
    }

    /// The cursor.
    pub fn confirmed(&self) -> MessageId {
        self.confirmed
    }

    /// Last message done, recorded or not.
    pub fn done(&self) -> MessageId {
        self.done
    }

    /// Whether a message is to be recorded right before it begins. Not earlier: a message recorded ahead of its turn is
    /// lost if we die, as the cursor does not go back.
    pub fn records_first(&self) -> bool {
        self.ack == Ack::Before
    }

    /// Whether one more batch can begin while `running` others run, at most `width` of them.
    pub fn can_begin(&self, running: usize, width: usize, now: Instant) -> bool {
        let is_free = running < width && !self.is_closing;
        match self.ack {
            Ack::Before => is_free && running == 0 && self.recording.is_none(),
            Ack::After if self.careful > 0 => is_free && running == 0 && self.is_recorded(),
            // The record that is due comes first, and waits for one in flight.
            Ack::After => is_free && !self.is_full(width, now),
        }
    }

    /// Whether more messages can begin once a record is stored.
    pub fn is_waiting_for_record(&self, running: usize) -> bool {
        !self.is_closing && running == 0 && (self.recording.is_some() || self.unrecorded > 0)
    }

    /// A message is done. At most once: it is recorded already.
    pub fn finish(&mut self, message: MessageId, now: Instant) {
        self.done = self.done.max(message);
        self.careful = self.careful.saturating_sub(1);
        if self.ack == Ack::After {
            self.unrecorded = self.unrecorded.saturating_add(1);
            self.since = self.since.or(Some(now));
        }
    }

    /// A message need not be handled, which whoever reads it next would find as well. So nothing waits for its record,
    /// and one record covers many. Those behind it stay suspect: an earlier owner may have passed it, too.
    pub fn pass(&mut self, message: MessageId, now: Instant) {
        self.done = self.done.max(message);
        // At most once: it may have been recorded before its turn was over.
        if message > self.confirmed {
            self.has_passed = true;
            self.since = self.since.or(Some(now));
        }
    }

    /// How far the cursor can move: to the last message done, but not beyond the first unfinished one.
    pub fn frontier(&self, unfinished: Option<MessageId>) -> MessageId {
        let end = unfinished.map_or(self.done, |first| self.done.min(first.previous()));
        end.max(self.confirmed)
    }

    /// Whether a record is due now. `is_idle`: nothing more will be done soon.
    pub fn is_record_due(&self, is_idle: bool, now: Instant) -> bool {
        if self.recording.is_some() || self.unrecorded == 0 && !self.has_passed {
            return false;
        }
        let is_counted = matches!(self.commit, Commit::Count(_));
        let is_now = (is_idle || self.has_passed) && is_counted || self.is_closing || self.careful > 0;
        is_now || self.has_enough(now)
    }

    /// When a record falls due by itself.
    pub fn record_at(&self) -> Option<Instant> {
        match self.commit {
            Commit::Count(_) => None,
            Commit::Every(time) => self.since.map(|since| since + time),
        }
    }

    /// Starts a record that moves the cursor to this position.
    pub fn start_record(&mut self, cursor: MessageId) {
        self.recording = Some(cursor);
        self.unrecorded = 0;
        self.has_passed = false;
        self.since = None;
    }

    /// The record in flight is stored.
    pub fn confirm_record(&mut self) {
        self.confirmed = self.recording.take().unwrap_or(self.confirmed);
    }

    /// Whether everything done is recorded.
    pub fn is_recorded(&self) -> bool {
        self.unrecorded == 0 && !self.has_passed && self.recording.is_none()
    }

    /// Begins no more messages.
    pub fn close(&mut self) {
        self.is_closing = true;
    }

    /// Continues after all.
    pub fn reopen(&mut self) {
        self.is_closing = false;
    }

    /// Whether enough is done for a record.
    fn has_enough(&self, now: Instant) -> bool {
        match self.commit {
            Commit::Count(count) => self.unrecorded >= count.get(),
            Commit::Every(_) => self.record_at().is_some_and(|due| due <= now),
        }
    }

    /// Whether so much is done without a record that nothing more may begin before one.
    fn is_full(&self, width: usize, now: Instant) -> bool {
        match self.commit {
            Commit::Count(count) => {
                let width = u32::try_from(width).unwrap_or(u32::MAX);
                self.unrecorded >= count.get().saturating_mul(width)
            }
            Commit::Every(_) => self.has_enough(now),
        }
    }
}
