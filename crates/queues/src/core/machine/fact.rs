//! What a worker learns, and what it does about it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use menagerie_journal::{JournalError, Message, MessageId, Ticks};
use menagerie_kernel::Fence;
use menagerie_znodes::queues::{Handling, PartitionName, QueueName, Worker};

use crate::core::activity::Activity;
use crate::core::failure::OnFailure;
use crate::core::lane::{Handover, Ownership, RecordPlan};
use crate::core::ledger::Recorded;
use crate::core::options::Adjustment;
use crate::core::read_ahead::ReadBudget;
use crate::core::tally::Attempts;
use crate::core::window::RunId;
use crate::task::{Failed, Outcome};

/// The time of a step.
#[derive(Debug, Clone, Copy)]
pub struct Now {
    /// For back-offs and records.
    pub instant: Instant,
    /// For messages that expire.
    pub ticks: Ticks,
}

/// A partition under one ownership. What belongs to an earlier one is ignored.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owned {
    /// The partition.
    pub partition: PartitionName,
    /// Our fence.
    pub fence: Fence,
}

/// Instructions from operators, as they are now.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Instructed {
    /// Whether the worker is paused.
    pub is_paused: bool,
    /// Queues that are paused.
    pub paused_queues: BTreeSet<QueueName>,
    /// How each queue's messages are handled; order and retry count from the next claim on.
    pub handling: BTreeMap<QueueName, Handling>,
}

/// Something that a worker learns.
#[derive(Debug)]
pub enum Fact {
    /// The partitions assigned to it.
    Assigned {
        /// Epoch of the assignment.
        epoch: u64,
        /// Partitions to claim.
        partitions: BTreeSet<PartitionName>,
    },
    /// Pauses and settings.
    Instructed(Instructed),
    /// Whether ZooKeeper can be reached.
    Connected(bool),
    /// It owns a partition.
    Claimed(Box<Ownership>),
    /// Its lock on a partition is gone.
    Lost(Owned),
    /// The lease of this term has lapsed: others may own its partitions.
    Lapsed(u64),
    /// A read has ended.
    Fetched(Owned, Fetched),
    /// A task has begun what it was given; only from tasks that say so, see [`Begins`](crate::core::options::Begins).
    Begun(Owned, RunId),
    /// A task has ended; or it did not begin, because the journal knows a newer owner.
    Ran(Owned, RunId, Result<Vec<Outcome>, JournalError>),
    /// A note about a failure was stored or not.
    Noted(Owned, MessageId, Noted),
    /// A record was stored or not.
    Recorded(Owned, Recorded),
    /// A release has ended.
    Released(PartitionName),
    /// Positions are to be reported to the journals: of all partitions, or only of those that have advanced.
    ReportDue {
        /// Of all, and handled messages may be dropped.
        all: bool,
    },
    /// A report has ended: positions that the journals know, and partitions that others have opened since.
    Reported {
        /// Positions.
        known: Vec<(PartitionName, MessageId)>,
        /// Partitions of others.
        lost: Vec<Owned>,
        /// Messages waiting.
        lags: Vec<(PartitionName, u64)>,
    },
    /// An order to change options; what runs keeps the old ones.
    Adjust(Adjustment),
    /// An order to finish and record what runs, then end.
    Finish,
    /// An order to stop what runs, and end cleanly.
    Abort,
    /// Something may be due.
    Timer,
}

/// The outcome of a read.
#[derive(Debug)]
pub struct Fetched {
    /// The message that was asked for, if it was a certain one.
    pub asked: Option<MessageId>,
    /// What was read, and how far messages were dropped before they were read.
    pub read: Result<(Vec<Message>, Option<MessageId>), JournalError>,
}

/// The outcome of a note about a failure.
#[derive(Debug)]
pub enum Noted {
    /// The journal has it.
    Stored,
    /// The journal knows a newer owner.
    Refused(JournalError),
    /// We stopped waiting; the journal may have it or not.
    Abandoned,
}

/// Something that a worker does.
#[derive(Debug)]
pub enum Effect {
    /// Claim a partition, and go on until it succeeds.
    Claim(PartitionName),
    /// Give up a claim.
    CancelClaim(PartitionName),
    /// Read messages.
    Fetch(Owned, Fetch),
    /// Give up a read, if one is in flight.
    CancelFetch(Owned),
    /// Run a task.
    Run(Owned, Run),
    /// Tell a run to stop.
    Stop(RunId),
    /// Store a failure in the journal.
    Note(Owned, Note),
    /// Record what is done.
    Record(Owned, RecordPlan, Urgency),
    /// Release a partition.
    Release(Owned, Handover),
    /// Drop a partition that was lost: nothing of it is ours any more.
    Drop(Owned),
    /// Stop waiting soon for notes about this partition: it is lost.
    GiveUpNotes(Owned),
    /// Show others what we do.
    Publish(Worker),
    /// Report positions to the journals.
    Report {
        /// Of all partitions: handled messages may be dropped, too.
        all: bool,
        /// The positions.
        positions: Vec<Progress>,
    },
    /// Tell people and programs about it.
    Tell(Box<Happening>),
}

/// How soon a record is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Urgency {
    /// A message waits for it: do not wait for other records.
    First,
    /// It may share a request with others.
    Shared,
}

/// A read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetch {
    /// Only messages after this one.
    pub after: MessageId,
    /// Only this message.
    pub only: Option<MessageId>,
    /// Limits.
    pub budget: ReadBudget,
    /// Whether to wait for messages: the first read does not, so that we soon know whether there are any.
    pub waits: bool,
    /// Consecutive failed reads: back off.
    pub failures: u32,
}

/// A run of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// Its number.
    pub run: RunId,
    /// Its messages.
    pub messages: Vec<Message>,
    /// The attempt of each, as the task sees it.
    pub attempts: Vec<u32>,
    /// Store the first message's attempts before it begins.
    pub store: Option<Attempts>,
}

/// A failure to store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The message that failed.
    pub message: Message,
    /// Its attempts.
    pub attempts: Attempts,
    /// Messages whose attempts need not be kept.
    pub settled: Vec<MessageId>,
    /// What to do with it, and its failure, if it has no attempts left.
    pub given_up: Option<(OnFailure, Failed)>,
}

/// Position of a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// The partition.
    pub owned: Owned,
    /// The cursor.
    pub position: MessageId,
    /// Last message that is both recorded and done.
    pub handled: MessageId,
    /// The journal knows the position already.
    pub is_reported: bool,
    /// What we are doing, if that is news.
    pub activity: Option<Activity>,
}

/// Something that people or programs may want to know.
#[derive(Debug)]
pub enum Happening {
    /// A partition was taken.
    Taken(Box<Ownership>),
    /// A partition was lost.
    Lost {
        /// Which.
        owned: Owned,
        /// Why.
        why: String,
    },
    /// Messages cannot be read.
    ReadFailed {
        /// Of this partition.
        partition: PartitionName,
        /// Why.
        error: JournalError,
        /// It is news: the first time, or worth repeating.
        is_news: bool,
    },
    /// Messages were dropped before they were handled.
    Gap {
        /// Of this partition.
        partition: PartitionName,
        /// Up to this one.
        through: MessageId,
    },
    /// An attempt, or a message, has ended.
    Ended(Ending),
    /// The worker stops.
    Stopping(&'static str),
    /// The worker was paused or resumed.
    Paused(bool),
}

/// How an attempt ended.
#[derive(Debug, Clone)]
pub struct Ending {
    /// The partition.
    pub partition: PartitionName,
    /// The message.
    pub message: Message,
    /// Which attempt; 0 if there was none.
    pub attempt: u32,
    /// How long it took; `None` if there was no attempt.
    pub took: Option<Duration>,
    /// What came of it.
    pub how: How,
}

/// What came of an attempt or a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum How {
    /// The message is done.
    Done,
    /// It failed, and will be tried again after this time.
    Retry(Failed, Duration),
    /// It failed, and was given up.
    GivenUp(Failed, OnFailure),
    /// An owner that vanished may have begun it: nobody else tells that.
    Orphaned,
    /// It was stopped: it will be tried again, unless it must not run twice.
    Stopped,
    /// Its time to live ended before its turn came.
    Expired,
    /// An earlier owner had given it up.
    Skipped,
}
