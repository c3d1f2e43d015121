//! What of a partition is begun, done and recorded; and when the next record is due.
//!
//! A record moves the cursor. One is on its way at a time, and work goes on meanwhile until the next one is due: so what a
//! crash repeats is bounded by two records' worth, which is two messages when each is recorded by itself.

use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use menagerie_journal::MessageId;

/// How many messages go into a record, at most, when the rule is by time: a guess, for who goes carefully.
const CAREFUL_BY_TIME: u32 = 500;

/// When to record what is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Commit {
    /// After so many messages, or when there is nothing more to do. One: each by itself.
    Count(NonZeroU32),
    /// So long after the first message that is not recorded.
    Every(Duration),
}

impl Commit {
    /// Each message by itself.
    pub const EACH: Self = Self::Count(NonZeroU32::MIN);

    /// How many messages an owner that died may have begun without a record, if it was given `batch` at once: a record is due
    /// when all but one that make it due are done and a batch more; one may have been on its way, and another due.
    pub fn window(self, ack: Ack, batch: usize) -> u32 {
        if ack == Ack::Before {
            return 0;
        }
        let batch = u32::try_from(batch).unwrap_or(u32::MAX).max(1);
        let record = match self {
            Self::Count(count) => (count.get() - 1).saturating_add(batch),
            Self::Every(_) => batch.max(CAREFUL_BY_TIME),
        };
        record.saturating_mul(2)
    }
}

/// Whether a message is recorded when it is done, or before it begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ack {
    /// It may be handled twice, and is never lost.
    #[default]
    After,
    /// It may be lost, and is never handled twice. Each is recorded by itself, right before it begins.
    Before,
}

/// What came of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recorded {
    /// It is stored.
    Confirmed,
    /// The partition is not ours any more.
    Refused,
    /// Nobody can tell. It comes only with the end of the session, and that with the end of the lock.
    Unknown,
}

/// The books of one partition, from when it was taken to when it is released.
#[derive(Debug, Clone)]
pub struct Ledger {
    commit: Commit,
    ack: Ack,
    /// The partition is another's, or may be.
    lost: bool,
    /// All up to here is recorded.
    confirmed: MessageId,
    /// All up to here is done.
    done: MessageId,
    /// Messages that are done and in no record yet, and since when.
    unrecorded: u32,
    since: Option<Instant>,
    /// The record that is on its way.
    recording: Option<MessageId>,
    /// What is being handled, in order.
    running: Vec<MessageId>,
    /// So many messages are handled and recorded one by one: one of them may have ended the owner before us.
    careful: u32,
    closing: bool,
}

impl Ledger {
    /// The books as the cursor has them.
    pub fn new(position: MessageId, commit: Commit, ack: Ack) -> Self {
        Self {
            commit,
            ack,
            lost: false,
            confirmed: position,
            done: position,
            unrecorded: 0,
            since: None,
            recording: None,
            running: Vec::new(),
            careful: 0,
            closing: false,
        }
    }

    /// The same after an owner that did not release: what it may have begun, so many messages, is handled and recorded one by
    /// one, so that a message that kills its worker is soon the first behind the cursor, where its attempts are counted.
    #[must_use]
    pub fn carefully(self, window: u32) -> Self {
        Self { careful: window, ..self }
    }

    /// The same where we were careful ourselves and have lost the partition meanwhile: what was done last may not be recorded,
    /// and comes again.
    #[must_use]
    pub fn as_careful_as(self, before: &Self) -> Self {
        let careful = if before.careful > 0 { before.careful.saturating_add(1) } else { 0 };
        Self { careful, ..self }
    }

    /// Whether the next message may have been begun by an owner that did not release.
    pub fn is_careful(&self) -> bool {
        self.careful > 0
    }

    /// All up to here is recorded.
    pub fn confirmed(&self) -> MessageId {
        self.confirmed
    }

    /// All up to here is done, recorded or not.
    pub fn done(&self) -> MessageId {
        self.done
    }

    /// What is being handled.
    pub fn running(&self) -> &[MessageId] {
        &self.running
    }

    /// How many of the messages that wait can begin now, at most `batch`; see also [`records_first`](Self::records_first).
    pub fn may_begin(&self, waiting: impl Iterator<Item = MessageId>, batch: usize, now: Instant) -> usize {
        if self.lost || !self.running.is_empty() {
            return 0;
        }
        match self.ack {
            Ack::Before if self.recording.is_some() => 0,
            // What was recorded must be handled, also when we are about to leave: nobody else would.
            Ack::Before if self.confirmed > self.done => {
                waiting.take(batch).take_while(|id| *id <= self.confirmed).count()
            }
            Ack::Before | Ack::After if self.closing => 0,
            Ack::Before => waiting.take(batch).count(),
            Ack::After if self.careful > 0 && self.done != self.confirmed => 0,
            Ack::After if self.careful > 0 => waiting.take(batch.min(1)).count(),
            // The record that is due comes first; if one is on its way, it waits for that.
            Ack::After if self.full(now) => 0,
            Ack::After => waiting.take(batch).count(),
        }
    }

    /// Whether this message, which may begin, has to be recorded before it does. Not earlier: whatever is recorded ahead of its
    /// turn is lost with us, and the cursor does not go back.
    pub fn records_first(&self, message: MessageId) -> bool {
        self.ack == Ack::Before && message > self.confirmed
    }

    /// Whether more can begin as soon as a record is stored.
    pub fn waits_for_record(&self) -> bool {
        let goes_on = !self.lost && !self.closing && self.running.is_empty();
        goes_on && (self.recording.is_some() || self.unrecorded > 0)
    }

    /// These begin.
    ///
    /// # Panics
    /// If they are not what follows: a message would be passed over.
    pub fn begin(&mut self, messages: impl IntoIterator<Item = MessageId>) {
        assert!(self.running.is_empty(), "one at a time");
        self.running.extend(messages);
        assert!(
            self.running.first().is_some_and(|first| *first > self.done),
            "what is done does not begin again"
        );
        assert!(self.running.is_sorted(), "in order");
    }

    /// The first so many of what was running are done. Tells how many are behind us; the others come again. What was recorded
    /// before it began does not come again, however it ended.
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

    /// The record to make now, if there is one: all up to this message, which is done. `hurry`: something waits for it.
    pub fn record_due(
        &self,
        mut waiting: impl Iterator<Item = MessageId>,
        hurry: bool,
        now: Instant,
    ) -> Option<MessageId> {
        if self.lost || self.recording.is_some() {
            return None;
        }
        let idle = self.running.is_empty() && waiting.next().is_none();
        let idle = idle && matches!(self.commit, Commit::Count(_));
        let due = self.full(now) || idle || hurry || self.closing || self.careful > 0;
        Some(self.done).filter(|_| self.unrecorded > 0 && due)
    }

    /// When a record will be due, if nothing else happens.
    pub fn record_at(&self) -> Option<Instant> {
        match self.commit {
            Commit::Count(_) => None,
            Commit::Every(time) => self.since.map(|since| since + time),
        }
    }

    /// A record is on its way.
    pub fn recording(&mut self, position: MessageId) {
        self.recording = Some(position);
        self.unrecorded = 0;
        self.since = None;
    }

    /// The record that was on its way is stored.
    pub fn recorded(&mut self) {
        self.confirmed = self.recording.take().unwrap_or(self.confirmed);
    }

    /// Whether all that is done is recorded.
    pub fn is_recorded(&self) -> bool {
        self.done <= self.confirmed && self.recording.is_none()
    }

    /// The partition is another's, or may be.
    pub fn lose(&mut self) {
        self.lost = true;
        self.recording = None;
    }

    /// No other message is to begin.
    pub fn close(&mut self) {
        self.closing = true;
    }

    /// It is to go on after all.
    pub fn reopen(&mut self) {
        self.closing = false;
    }

    /// Whether the partition can be given away: nothing runs, and nothing that is done is unrecorded.
    pub fn may_release(&self) -> bool {
        // What was recorded and has not begun has to be handled: nobody else would.
        let recorded = self.is_recorded() && self.confirmed <= self.done;
        self.running.is_empty() && (self.lost || recorded)
    }

    /// As much as one record takes is done.
    fn full(&self, now: Instant) -> bool {
        match self.commit {
            Commit::Count(count) => self.unrecorded >= count.get(),
            Commit::Every(_) => self.record_at().is_some_and(|due| due <= now),
        }
    }
}
