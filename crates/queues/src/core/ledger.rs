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
    fn window(self, batch: usize) -> u32 {
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
    /// Nobody can tell. Somebody must look: see [`Ledger::resolved`].
    Unknown,
}

/// What is to be done about the message that is being handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Then {
    /// Nothing.
    GoOn,
    /// It must be stopped: it may be another's by now.
    Stop,
}

/// Whether records can be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// The cursor is what we think.
    Sure,
    /// A record may have happened or not.
    Doubtful,
    /// The partition is another's.
    Lost,
}

/// The books of one partition, from when it was taken to when it is released.
#[derive(Debug, Clone)]
pub struct Ledger {
    commit: Commit,
    ack: Ack,
    standing: Standing,
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
            standing: Standing::Sure,
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

    /// The same after an owner that did not release: what it may have begun is handled and recorded one by one, so that a
    /// message that kills its worker is soon the first behind the cursor, where its attempts are counted.
    #[must_use]
    pub fn carefully(self, batch: usize) -> Self {
        Self { careful: self.commit.window(batch), ..self }
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
        if self.standing != Standing::Sure || !self.running.is_empty() {
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
        let (sure, idle) = (self.standing == Standing::Sure, self.running.is_empty());
        sure && idle && !self.closing && (self.recording.is_some() || self.unrecorded > 0)
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
        if self.ack == Ack::Before {
            return behind;
        }
        let done = u32::try_from(done).unwrap_or(u32::MAX);
        self.unrecorded = self.unrecorded.saturating_add(done);
        self.since = self.since.or(Some(now));
        self.careful = self.careful.saturating_sub(done);
        behind
    }

    /// The record to make now, if there is one: all up to this message, which is done.
    pub fn record_due(
        &self,
        mut waiting: impl Iterator<Item = MessageId>,
        now: Instant,
    ) -> Option<MessageId> {
        if self.standing != Standing::Sure || self.recording.is_some() {
            return None;
        }
        let idle = self.running.is_empty() && waiting.next().is_none();
        let idle = idle && matches!(self.commit, Commit::Count(_));
        let due = self.full(now) || idle || self.closing || self.careful > 0;
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

    /// A record has come back.
    pub fn recorded(&mut self, outcome: Recorded) -> Then {
        let record = self.recording.take();
        match outcome {
            Recorded::Confirmed => {
                self.confirmed = record.unwrap_or(self.confirmed);
                Then::GoOn
            }
            Recorded::Refused => self.lost(),
            Recorded::Unknown => {
                self.standing = Standing::Doubtful;
                Then::Stop
            }
        }
    }

    /// Somebody has looked: the cursor stands here, and is ours to move.
    pub fn resolved(&mut self, position: MessageId, now: Instant) {
        self.standing = Standing::Sure;
        self.recording = None;
        self.confirmed = position;
        self.done = self.done.max(position);
        if self.ack == Ack::After && self.done > self.confirmed {
            // Whatever the rule says, it was due before.
            self.unrecorded = u32::MAX;
            self.since = Some(now);
            self.careful = self.careful.max(1);
        }
    }

    /// The partition is another's.
    pub fn lost(&mut self) -> Then {
        self.standing = Standing::Lost;
        self.recording = None;
        Then::Stop
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
        let recorded = match self.ack {
            Ack::After => self.done == self.confirmed,
            Ack::Before => self.confirmed <= self.done,
        };
        self.running.is_empty() && (self.standing == Standing::Lost || recorded && self.recording.is_none())
    }

    /// As much as one record takes is done.
    fn full(&self, now: Instant) -> bool {
        match self.commit {
            Commit::Count(count) => self.unrecorded >= count.get(),
            Commit::Every(_) => self.record_at().is_some_and(|due| due <= now),
        }
    }
}
