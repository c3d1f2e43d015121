//! One partition that is ours, as the worker's loop sees it.

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
use super::ahead::{Room, room};
use super::records::Due;
use crate::coordination::claim::{Books, Claimed};
use crate::coordination::cursor::{CursorAt, Record};
use crate::core::failure::{Before, Tally};
use crate::core::ledger::{Ack, Ledger, Recorded};
use crate::core::turn;
use crate::task::{Failed, Lease};

/// How often it is said that messages are damaged.
const COMPLAINT: Duration = Duration::from_secs(60);

/// Something that was begun for a partition, and ends with it.
pub struct Begun(pub AbortHandle);

impl Drop for Begun {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// What is to be said about a failure in the journal.
pub struct Note {
    /// In the first of these forms that there is room for. Gone once it is on its way. That is not before all that is done is
    /// recorded: there is room for one message's story, and who comes next looks for that of the first behind the cursor.
    pub forms: Option<Vec<Commit>>,
    pub then: Noting,
}

/// What happens once a note about a failure is in the journal.
pub enum Noting {
    /// The message waits for its next attempt.
    Wait,
    /// The message is passed over.
    Pass(MessageId),
    /// The worker stops, for this.
    Stop(Failed),
}

impl Note {
    /// Whether it is not on its way yet.
    pub fn waits(&self) -> bool {
        self.forms.is_some()
    }
}

/// Messages that cannot be read, and never will be.
pub struct Damaged {
    /// What the journal says.
    pub error: String,
    /// When we have said so.
    pub said: Instant,
}

/// What is left of a partition that was lost.
pub struct Remains {
    /// The fence with which the journal knew us.
    pub fence: String,
    pub tally: Tally,
    pub ledger: Ledger,
}

/// A partition that is ours.
pub struct Lane {
    pub partition: PartitionName,
    pub held: LockGuard,
    pub books: Books,
    pub cursor: CursorAt,
    pub ledger: Ledger,
    pub tally: Tally,
    /// Messages that were read and have not begun, oldest first.
    pub cache: VecDeque<Message>,
    /// Messages that are being handled.
    pub running: Vec<Message>,
    /// Which attempt it is for the first of them.
    pub attempt: u32,
    /// Everything up to here was read.
    pub read: MessageId,
    /// Whether anything was read yet, be it that there was nothing.
    pub looked: bool,
    /// Reads that have failed, one after the other.
    pub read_failures: u32,
    /// What comes next is damaged.
    pub damaged: Option<Damaged>,
    /// The read that is on its way.
    pub fetching: Option<Begun>,
    pub note: Option<Note>,
    /// What is in the journal about a failure, nobody knows: a note was on its way when we could wait no longer.
    pub unsure: bool,
    /// Not before then: the first message has failed.
    pub not_before: Option<Instant>,
    /// Its time among the worker's timers.
    pub timer: Option<Instant>,
    /// Tells the task to stop.
    pub stop: watch::Sender<bool>,
    /// Tells of a loss.
    pub _watcher: Begun,
    /// It is another's, and goes as soon as nothing runs.
    pub lost: bool,
    /// All up to here the journal knows to be done.
    pub reported: MessageId,
}

impl Lane {
    /// One that was taken; `ours` is what we have lost of it before, if it was ours.
    pub fn new(claimed: Claimed, options: &Options, watcher: Begun, ours: Option<Remains>) -> Self {
        let Claimed { partition, held, cursor, books, attempts, follows } = claimed;
        // Who had it before us may have recorded more than it has told.
        let (position, reported) = (cursor.position(), books.known);
        let ledger = Ledger::new(position, options.commit, options.ack);
        // If nobody has had it since, we know what was begun, and that nothing has died of it.
        let ours = ours.filter(|ours| follows.as_ref().is_some_and(|holder| holder.fence == ours.fence));
        let (ledger, tally) = match ours {
            Some(ours) => (ledger.as_careful_as(&ours.ledger), ours.tally.again(attempts, position)),
            None => {
                let window = follows.map_or(0, |holder| holder.window);
                // What is recorded before it begins is tried once, however many have died of it.
                let counts = window > 0 && options.ack == Ack::After;
                let before = if counts { Before::Vanished } else { Before::Released };
                (ledger.carefully(window), Tally::new(attempts, before))
            }
        };
        Self {
            partition,
            held,
            books,
            cursor,
            ledger,
            tally,
            cache: VecDeque::new(),
            running: Vec::new(),
            attempt: 1,
            read: position,
            looked: false,
            read_failures: 0,
            damaged: None,
            fetching: None,
            note: None,
            unsure: false,
            not_before: None,
            timer: None,
            stop: watch::Sender::new(false),
            _watcher: watcher,
            lost: false,
            reported,
        }
    }

    pub fn fence(&self) -> Fence {
        self.held.fence()
    }

    /// How long a task may go on.
    pub fn lease(&self) -> Lease {
        Lease::new(self.held.valid_until(), self.held.term().timeouts(), self.stop.subscribe())
    }

    /// The ids of what waits.
    pub fn waiting(&self) -> impl Iterator<Item = MessageId> + '_ {
        self.cache.iter().map(|message| message.id)
    }

    /// How much of it is to be read ahead, if anything, where so many partitions are ours.
    pub fn room(&self, partitions: usize) -> Option<Room> {
        let bytes = |message: &Message| message.body.len() + message.meta.len();
        room(self.cache.len(), self.cache.iter().map(bytes).sum(), partitions)
    }

    /// What comes next cannot be read. Nothing mends that by itself: it is said again and again, with what can be done.
    pub fn complain(&mut self, error: &JournalError) {
        let now = Instant::now();
        if self.damaged.as_ref().is_some_and(|damaged| now.duration_since(damaged.said) < COMPLAINT) {
            return;
        }
        let (queue, number) = (self.partition.queue(), self.partition.number());
        error!(
            partition = %self.partition, %error,
            "damaged messages hold their partition; `menagerie queue skip {queue} --partition {number} --through ID`, \
             with the last id that is named, passes them over"
        );
        self.damaged = Some(Damaged { error: error.to_string(), said: now });
    }

    /// How many of the next so many can be begun together: none that follow one whose time to live is over.
    pub fn fresh(&self, count: usize, now: Ticks) -> usize {
        let lives = |message: &&Message| message.expires.is_none_or(|end| end > now);
        self.cache.iter().take(count).take_while(lives).count()
    }

    /// What can be said about whose turn it is.
    pub fn standing(&self, paused: bool, batch: usize, now: Instant) -> turn::Lane {
        turn::Lane {
            head: self.cache.front().map(|message| message.id),
            running: !self.running.is_empty() || self.note.is_some(),
            open: !self.lost && self.ledger.may_begin(self.waiting(), batch, now) > 0,
            recording: !self.lost && self.ledger.waits_for_record(),
            paused,
            not_before: self.not_before,
        }
    }

    /// When something will be due without anything else happening. What was due before must not hide it: the time of an
    /// attempt stays until the attempt has ended.
    pub fn due(&self, now: Instant) -> Option<Instant> {
        [self.not_before, self.ledger.record_at()].into_iter().flatten().filter(|due| *due > now).min()
    }

    /// Whether it can be given back, or forgotten when it is lost.
    pub fn may_end(&self) -> bool {
        self.running.is_empty() && self.note.is_none() && self.ledger.may_release()
    }

    /// All up to here is to be recorded.
    pub fn record(&mut self, position: MessageId, now: Instant) -> Due {
        self.ledger.recording(position);
        let record = Record::new(self.cursor.clone(), self.held.grant(), position);
        Due { partition: self.partition.clone(), record, since: now }
    }

    /// Takes the next messages out of the cache.
    pub fn take(&mut self, count: usize) {
        self.running.extend(self.cache.drain(..count));
        self.tally.begins(self.running.last().map_or(MessageId::ZERO, |message| message.id));
        self.ledger.begin(self.running.iter().map(|message| message.id));
    }

    /// The first so many are done; the others wait again, unless they must not be handled twice.
    pub fn finish(&mut self, done: usize, now: Instant) {
        let behind = self.ledger.finish(done, now);
        for message in self.running.drain(..).skip(behind).rev() {
            self.cache.push_front(message);
        }
        if behind > 0 {
            self.not_before = None;
        }
    }

    /// The first message that waits is passed over, as if it were done.
    pub fn pass(&mut self, now: Instant) {
        self.take(1);
        self.finish(1, now);
    }

    /// A record has come back.
    pub fn recorded(&mut self, position: MessageId, outcome: Recorded) {
        match outcome {
            Recorded::Confirmed => {
                self.cursor = self.cursor.moved(position);
                self.ledger.recorded();
            }
            Recorded::Refused | Recorded::Unknown => self.lose(),
        }
    }

    /// It is another's.
    pub fn lose(&mut self) {
        self.lost = true;
        self.ledger.lose();
        self.stop.send_replace(true);
        self.fetching = None;
        self.note.take_if(|note| note.waits());
    }
}
