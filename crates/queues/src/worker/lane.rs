//! A partition that the worker owns.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use menagerie_journal::{Commit, JournalError, Message, MessageId, Ticks};
use menagerie_kernel::Fence;
use menagerie_kernel::recipes::lock::LockGuard;
use menagerie_znodes::queues::PartitionName;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tracing::error;

use super::Options;
use super::read_ahead::{ReadBudget, read_budget};
use super::records::PendingRecord;
use crate::coordination::claim::{Claimed, FencedJournal};
use crate::coordination::cursor::{CursorAt, Record};
use crate::core::failure::{Predecessor, Tally};
use crate::core::ledger::{Ack, Ledger, Recorded};
use crate::core::turn;
use crate::task::{Failed, Lease};

/// How often to log that messages are damaged.
const DAMAGE_LOG_INTERVAL: Duration = Duration::from_secs(60);

/// Aborts a background task when dropped.
pub struct AbortOnDrop(pub AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A note about a failure, to be stored in the journal.
pub struct Note {
    /// Variants of the commit, the most detailed first; `None` once sent. Sent only after everything done is recorded:
    /// the journal holds the attempts of one message per partition, and the next owner expects those of the first after
    /// the cursor.
    pub variants: Option<Vec<Commit>>,
    pub then: AfterNote,
}

/// What to do once a note is stored.
pub enum AfterNote {
    /// Wait for the message's next attempt.
    Wait,
    /// Skip the message.
    Skip(MessageId),
    /// Stop the worker because of this failure.
    Stop(Failed),
}

impl Note {
    /// Whether it has not been sent yet.
    pub fn is_pending(&self) -> bool {
        self.variants.is_some()
    }
}

/// The next messages are damaged and will never be readable.
pub struct Damaged {
    /// The journal's error.
    pub error: String,
    pub logged_at: Instant,
}

/// What we remember of a partition that we have lost.
pub struct LostLane {
    /// Our fence when we lost it.
    pub fence: String,
    pub tally: Tally,
    pub ledger: Ledger,
}

/// A partition that this worker owns.
pub struct Lane {
    pub partition: PartitionName,
    pub held: LockGuard,
    pub fenced: FencedJournal,
    pub cursor: CursorAt,
    pub ledger: Ledger,
    pub tally: Tally,
    /// Messages read ahead, oldest first.
    pub cache: VecDeque<Message>,
    /// Messages being handled.
    pub running: Vec<Message>,
    /// Attempt of the first running message.
    pub attempt: u32,
    /// Last message read.
    pub read: MessageId,
    /// Whether the first read has ended, even if it found nothing.
    pub has_read: bool,
    /// Consecutive failed reads.
    pub read_failures: u32,
    /// Set while the next messages are damaged.
    pub damaged: Option<Damaged>,
    /// The read in flight.
    pub fetching: Option<AbortOnDrop>,
    pub note: Option<Note>,
    /// We stopped waiting for a note in flight, so we do not know what the journal stores about a failure.
    pub is_note_uncertain: bool,
    /// Back-off of the first message, which has failed.
    pub not_before: Option<Instant>,
    /// Its entry among the worker's timers.
    pub timer: Option<Instant>,
    /// Tells the task to stop.
    pub stop: watch::Sender<bool>,
    /// Sends [`Event::Lost`](super::effects::Event::Lost) when our lock is gone.
    pub _watcher: AbortOnDrop,
    /// Another worker may own it; we drop it once nothing runs.
    pub is_lost: bool,
    /// Last position reported to the journal.
    pub reported: MessageId,
}

impl Lane {
    /// A claimed partition; `ours` is what we remember if we owned and lost it before.
    pub fn new(claimed: Claimed, options: &Options, watcher: AbortOnDrop, ours: Option<LostLane>) -> Self {
        let Claimed { partition, held, cursor, fenced, attempts, predecessor } = claimed;
        // The previous owner may have recorded more in ZooKeeper than it reported to the journal.
        let (position, reported) = (cursor.position(), fenced.known);
        let ledger = Ledger::new(position, options.commit, options.ack);
        // If nobody has owned it since, we know what has begun, and that no message killed its worker.
        let ours = ours.filter(|ours| predecessor.as_ref().is_some_and(|holder| holder.fence == ours.fence));
        let (ledger, tally) = match ours {
            Some(ours) => (ledger.as_careful_as(&ours.ledger), ours.tally.retaken(attempts, position)),
            None => {
                let window = predecessor.map_or(0, |holder| holder.window);
                // With at-most-once delivery each message has one attempt, however many workers died.
                let counts = window > 0 && options.ack == Ack::After;
                let before = if counts { Predecessor::Vanished } else { Predecessor::Released };
                (ledger.with_careful_window(window), Tally::new(attempts, before))
            }
        };
        Self {
            partition,
            held,
            fenced,
            cursor,
            ledger,
            tally,
            cache: VecDeque::new(),
            running: Vec::new(),
            attempt: 1,
            read: position,
            has_read: false,
            read_failures: 0,
            damaged: None,
            fetching: None,
            note: None,
            is_note_uncertain: false,
            not_before: None,
            timer: None,
            stop: watch::Sender::new(false),
            _watcher: watcher,
            is_lost: false,
            reported,
        }
    }

    pub fn fence(&self) -> Fence {
        self.held.fence()
    }

    /// The lease of a task that begins now.
    pub fn lease(&self) -> Lease {
        Lease::new(self.held.valid_until(), self.held.term().timeouts(), self.stop.subscribe())
    }

    /// Ids of the messages read ahead.
    pub fn waiting(&self) -> impl Iterator<Item = MessageId> + '_ {
        self.cache.iter().map(|message| message.id)
    }

    /// Limits of the next read, if one is due; `partitions` is how many we own.
    pub fn read_budget(&self, partitions: usize) -> Option<ReadBudget> {
        let bytes = |message: &Message| message.body.len() + message.meta.len();
        read_budget(self.cache.len(), self.cache.iter().map(bytes).sum(), partitions)
    }

    /// Logs that the next messages are damaged, and what the operator can do: repeatedly, as it will not heal by
    /// itself.
    pub fn log_damage(&mut self, error: &JournalError) {
        let now = Instant::now();
        if self
            .damaged
            .as_ref()
            .is_some_and(|damaged| now.duration_since(damaged.logged_at) < DAMAGE_LOG_INTERVAL)
        {
            return;
        }
        let (queue, number) = (self.partition.queue(), self.partition.number());
        error!(
            partition = %self.partition, %error,
            "damaged messages hold their partition; `menagerie queue skip {queue} --partition {number} --through ID`, \
             with the last id that is named, passes them over"
        );
        self.damaged = Some(Damaged { error: error.to_string(), logged_at: now });
    }

    /// How many of the next `count` messages can begin together: those before the first expired one.
    pub fn unexpired_count(&self, count: usize, now: Ticks) -> usize {
        let lives = |message: &&Message| message.expires.is_none_or(|end| end > now);
        self.cache.iter().take(count).take_while(lives).count()
    }

    /// Its state as the scheduler sees it.
    pub fn state(&self, paused: bool, batch: usize, now: Instant) -> turn::PartitionState {
        turn::PartitionState {
            head: self.cache.front().map(|message| message.id),
            is_running: !self.running.is_empty() || self.note.is_some(),
            can_begin: !self.is_lost && self.ledger.ready_count(self.waiting(), batch, now) > 0,
            is_recording: !self.is_lost && self.ledger.is_waiting_for_record(),
            is_paused: paused,
            not_before: self.not_before,
        }
    }

    /// The next time something falls due by itself. Ignores times in the past: `not_before` stays set until its attempt
    /// has ended, and must not hide a later one.
    pub fn next_timer(&self, now: Instant) -> Option<Instant> {
        [self.not_before, self.ledger.record_at()].into_iter().flatten().filter(|due| *due > now).min()
    }

    /// Whether it can be released, or dropped if lost.
    pub fn can_end(&self) -> bool {
        self.running.is_empty() && self.note.is_none() && self.ledger.can_release()
    }

    /// Starts a record of everything through `position`.
    pub fn record(&mut self, position: MessageId, now: Instant) -> PendingRecord {
        self.ledger.start_record(position);
        let record = Record::new(self.cursor.clone(), self.held.grant(), position);
        PendingRecord { partition: self.partition.clone(), record, since: now }
    }

    /// Moves the next messages from the cache to `running`.
    pub fn take(&mut self, count: usize) {
        self.running.extend(self.cache.drain(..count));
        self.tally.mark_begun(self.running.last().map_or(MessageId::ZERO, |message| message.id));
        self.ledger.begin(self.running.iter().map(|message| message.id));
    }

    /// Ends the running messages, of which the first `done` are done. The others go back to the cache, unless they must
    /// not be handled twice.
    pub fn finish(&mut self, done: usize, now: Instant) {
        let behind = self.ledger.finish(done, now);
        for message in self.running.drain(..).skip(behind).rev() {
            self.cache.push_front(message);
        }
        if behind > 0 {
            self.not_before = None;
        }
    }

    /// Skips the first cached message, as if it were done.
    pub fn skip_first(&mut self, now: Instant) {
        self.take(1);
        self.finish(1, now);
    }

    /// Applies the outcome of a record.
    pub fn recorded(&mut self, position: MessageId, outcome: Recorded) {
        match outcome {
            Recorded::Confirmed => {
                self.cursor = self.cursor.moved(position);
                self.ledger.confirm_record();
            }
            Recorded::Refused | Recorded::Unknown => self.lose(),
        }
    }

    /// Marks it as lost and tells its task to stop.
    pub fn lose(&mut self) {
        self.is_lost = true;
        self.ledger.lose();
        self.stop.send_replace(true);
        self.fetching = None;
        self.note.take_if(|note| note.is_pending());
    }
}
