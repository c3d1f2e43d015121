//! What of a partition has begun, is done and is recorded; and when the next record is due.
//!
//! A record moves the cursor. At most one is in flight, and work continues meanwhile until the next one is due. So a
//! crash repeats at most two records' worth of messages: two messages if each is recorded by itself.

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

    /// How many messages an owner may have begun without a record when it dies, with batches of `batch`. A record falls
    /// due after at most all but one of its messages plus one more batch; one may be in flight, and another due.
    pub fn window(self, ack: Ack, batch: usize) -> u32 {
        if ack == Ack::Before {
            return 0;
        }
        let batch = u32::try_from(batch).unwrap_or(u32::MAX).max(1);
        let record = match self {
            Self::Count(count) => (count.get() - 1).saturating_add(batch),
            Self::Every(_) => batch.max(TIMED_RECORD_GUESS),
        };
        record.saturating_mul(2)
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
    /// Another worker owns the partition, or may.
    is_lost: bool,
    /// Last message recorded.
    confirmed: MessageId,
    /// Last message done.
    done: MessageId,
    /// Messages done that no record covers yet, and when the first of them was done.
    unrecorded: u32,
    since: Option<Instant>,
    /// The record in flight.
    recording: Option<MessageId>,
    /// Messages being handled, in order.
    running: Vec<MessageId>,
    /// How many more messages to handle and record one by one: one of them may have killed the previous owner.
    careful: u32,
    is_closing: bool,
}

impl Ledger {
    /// Progress as of the cursor.
    pub fn new(position: MessageId, commit: Commit, ack: Ack) -> Self {
        Self {
            commit,
            ack,
            is_lost: false,
            confirmed: position,
            done: position,
            unrecorded: 0,
            since: None,
            recording: None,
            running: Vec::new(),
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

    /// For a partition that we lost and claimed again: as careful as before, plus the last message done, whose record
    /// may be missing.
    #[must_use]
    pub fn as_careful_as(self, before: &Self) -> Self {
        let careful = if before.careful > 0 { before.careful.saturating_add(1) } else { 0 };
        Self { careful, ..self }
    }

    /// Whether the next message may have begun under an owner that did not release.
    pub fn is_careful(&self) -> bool {
        self.careful > 0
    }

    /// Last message recorded.
    pub fn confirmed(&self) -> MessageId {
        self.confirmed
    }

    /// Last message done, recorded or not.
    pub fn done(&self) -> MessageId {
        self.done
    }

    /// Messages being handled.
    pub fn running(&self) -> &[MessageId] {
        &self.running
    }

    /// How many of the waiting messages can begin now, at most `batch`; see also
    /// [`must_record_first`](Self::must_record_first).
    pub fn ready_count(&self, waiting: impl Iterator<Item = MessageId>, batch: usize, now: Instant) -> usize {
        if self.is_lost || !self.running.is_empty() {
            return 0;
        }
        match self.ack {
            Ack::Before if self.recording.is_some() => 0,
            // A recorded message must be handled, even while closing: nobody else would.
            Ack::Before if self.confirmed > self.done => {
                waiting.take(batch).take_while(|id| *id <= self.confirmed).count()
            }
            Ack::Before | Ack::After if self.is_closing => 0,
            Ack::Before => waiting.take(batch).count(),
            Ack::After if self.careful > 0 && self.done != self.confirmed => 0,
            Ack::After if self.careful > 0 => waiting.take(batch.min(1)).count(),
            // The record that is due comes first, and waits for one in flight.
            Ack::After if self.is_record_due(now) => 0,
            Ack::After => waiting.take(batch).count(),
        }
    }

    /// Whether this message must be recorded before it begins. Not earlier: a message recorded ahead of its turn is
    /// lost if we die, as the cursor does not go back.
    pub fn must_record_first(&self, message: MessageId) -> bool {
        self.ack == Ack::Before && message > self.confirmed
    }

    /// Whether more messages can begin once a record is stored.
    pub fn is_waiting_for_record(&self) -> bool {
        let goes_on = !self.is_lost && !self.is_closing && self.running.is_empty();
        goes_on && (self.recording.is_some() || self.unrecorded > 0)
    }

    /// Begins these messages.
    ///
    /// # Panics
    /// If they are not the next ones: a message would be skipped.
    pub fn begin(&mut self, messages: impl IntoIterator<Item = MessageId>) {
        assert!(self.running.is_empty(), "one at a time");
        self.running.extend(messages);
        assert!(
            self.running.first().is_some_and(|first| *first > self.done),
            "what is done does not begin again"
        );
        assert!(self.running.is_sorted(), "in order");
    }

    /// Ends the running messages, of which the first `done` are done. Returns how many are finished; the others will
    /// run again. With at-most-once delivery all are finished, however they ended.
    pub fn finish(&mut self, done: usize, now: Instant) -> usize {
        let running = std::mem::take(&mut self.running);
        let behind = match self.ack {
            Ack::After => done,
            Ack::Before => running.len(),
        };
        let Some(last) = running[..behind].last() else { return 0 };
        self.done = *last;
        let count = u32::try_from(behind).unwrap_or(u32::MAX);
        self.careful = self.careful.saturating_sub(count);
        if self.ack == Ack::After {
            self.unrecorded = self.unrecorded.saturating_add(count);
            self.since = self.since.or(Some(now));
        }
        behind
    }

    /// The last message to record, if a record is due now. `is_awaited`: something waits for it.
    pub fn record_due(
        &self,
        mut waiting: impl Iterator<Item = MessageId>,
        is_awaited: bool,
        now: Instant,
    ) -> Option<MessageId> {
        if self.is_lost || self.recording.is_some() {
            return None;
        }
        let idle = self.running.is_empty() && waiting.next().is_none();
        let idle = idle && matches!(self.commit, Commit::Count(_));
        let due = self.is_record_due(now) || idle || is_awaited || self.is_closing || self.careful > 0;
        Some(self.done).filter(|_| self.unrecorded > 0 && due)
    }

    /// When a record falls due by itself.
    pub fn record_at(&self) -> Option<Instant> {
        match self.commit {
            Commit::Count(_) => None,
            Commit::Every(time) => self.since.map(|since| since + time),
        }
    }

    /// Starts a record of everything through `position`.
    pub fn start_record(&mut self, position: MessageId) {
        self.recording = Some(position);
        self.unrecorded = 0;
        self.since = None;
    }

    /// The record in flight is stored.
    pub fn confirm_record(&mut self) {
        self.confirmed = self.recording.take().unwrap_or(self.confirmed);
    }

    /// Whether everything done is recorded.
    pub fn is_recorded(&self) -> bool {
        self.done <= self.confirmed && self.recording.is_none()
    }

    /// Another worker owns the partition, or may.
    pub fn lose(&mut self) {
        self.is_lost = true;
        self.recording = None;
    }

    /// Begins no more messages.
    pub fn close(&mut self) {
        self.is_closing = true;
    }

    /// Continues after all.
    pub fn reopen(&mut self) {
        self.is_closing = false;
    }

    /// Whether the partition can be released: nothing runs, and everything done is recorded.
    pub fn can_release(&self) -> bool {
        // A message that is recorded and has not begun must be handled: nobody else would.
        let recorded = self.is_recorded() && self.confirmed <= self.done;
        self.running.is_empty() && (self.is_lost || recorded)
    }

    /// Whether enough is done for a record.
    fn is_record_due(&self, now: Instant) -> bool {
        match self.commit {
            Commit::Count(count) => self.unrecorded >= count.get(),
            Commit::Every(_) => self.record_at().is_some_and(|due| due <= now),
        }
    }
}
