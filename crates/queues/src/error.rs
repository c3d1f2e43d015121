//! Errors of queues.

use std::time::Duration;

use menagerie_journal::{JournalError, NameError};
use menagerie_kernel::recipes::lock::LockError;
use menagerie_kernel::recipes::presence::PresenceError;
use menagerie_kernel::recipes::settle::SettleError;
use menagerie_kernel::recipes::tree_cache::TreeCacheError;
use menagerie_kernel::{CallError, Remedy, TransactionError};
use menagerie_znodes::Name;
use menagerie_znodes::queues::{PartitionName, QueueName};
use thiserror::Error;

use crate::schedule::ScheduleError;

/// Why an operation on queues failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "fields of errors name themselves")]
pub enum QueueError {
    #[error("there is no queue {queue}")]
    NoQueue { queue: QueueName },
    /// A queue of this name exists, with other settings.
    #[error("queue {queue} exists already, with {partitions} partitions")]
    Exists { queue: QueueName, partitions: u16 },
    /// A queue of this name exists, in another journal.
    #[error("queue {queue} exists already, in journal {journal:?}")]
    InOtherJournal { queue: QueueName, journal: String },
    /// The journal has messages in more partitions than the new queue would: nobody would handle those in the rest.
    #[error(
        "journal {journal:?} has messages of queue {queue} in {wide} partitions, and {partitions} would hide some"
    )]
    Narrow {
        queue: QueueName,
        journal: String,
        /// Partitions asked for.
        partitions: u16,
        /// Partitions in the journal.
        wide: u32,
    },
    /// An existing cursor lies in the future: workers would handle nothing before then.
    #[error("the cursor of {partition} is there already, and lies {} s in the future", ahead.as_secs())]
    Ahead { partition: PartitionName, ahead: Duration },
    /// Messages were put under one order, and would be handled in another.
    #[error(
        "queue {queue} has messages that are not handled yet ({waiting}), and their order cannot change under them"
    )]
    Waiting { queue: QueueName, waiting: u64 },
    /// The name is reserved for the failed messages of another queue.
    #[error("{queue} cannot be the name of a queue: the messages of {} that failed are there", of(queue))]
    Reserved { queue: QueueName },
    #[error("there is no worker {worker}")]
    NoWorker { worker: Name },
    #[error("{partition} does not exist: queue {} has partitions 1 to {partitions}", partition.queue())]
    NoPartition {
        partition: PartitionName,
        /// Partitions of the queue.
        partitions: u16,
    },
    /// Not a valid number of partitions.
    #[error("a queue has 1 to {max} partitions, not {partitions}", max = menagerie_znodes::queues::PARTITIONS_MAX)]
    Partitions { partitions: u16 },
    /// The queue's journal is unknown to this process.
    #[error("the messages of queue {queue} are in journal {journal:?}, which is not known here")]
    NoJournal { queue: QueueName, journal: String },
    /// The journal does not allow this name for a topic.
    #[error("{name:?} cannot be the name of a topic")]
    Topic { name: String, source: NameError },
    /// Not a key.
    #[error("{0}")]
    Key(String),
    /// A schedule is refused.
    #[error(transparent)]
    Schedule(#[from] ScheduleError),
    /// A message's key is too long to be stored.
    #[error("a message's key has at most {max} bytes, not {bytes}", max = crate::fields::PARTITION_KEY_BYTES_MAX)]
    LongKey { bytes: usize },
    /// The journal refused.
    #[error("the journal did not do it")]
    Journal(#[from] JournalError),
    /// ZooKeeper refused.
    #[error("ZooKeeper did not do it")]
    Call(#[from] CallError),
    /// A transaction was refused.
    #[error("a transaction was refused")]
    Transaction(#[from] TransactionError),
    /// A lock or an election failed.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// Listing this worker failed.
    #[error(transparent)]
    Presence(#[from] PresenceError),
    /// Watching workers or queues failed.
    #[error(transparent)]
    Settle(#[from] SettleError),
    /// Watching assignments, pauses or settings failed.
    #[error(transparent)]
    Cache(#[from] TreeCacheError),
}

fn of(failed: &QueueName) -> String {
    failed.failures_of().map_or_else(String::new, |queue| queue.to_string())
}

impl QueueError {
    /// What the caller can do about it.
    pub fn remedy(&self) -> Remedy {
        match self {
            Self::NoQueue { .. }
            | Self::Exists { .. }
            | Self::InOtherJournal { .. }
            | Self::Narrow { .. }
            | Self::Ahead { .. }
            | Self::Waiting { .. }
            | Self::Reserved { .. }
            | Self::NoWorker { .. }
            | Self::NoPartition { .. }
            | Self::Partitions { .. }
            | Self::NoJournal { .. }
            | Self::Topic { .. }
            | Self::Key(_)
            | Self::LongKey { .. }
            | Self::Schedule(_) => Remedy::TellUser,
            Self::Journal(error) => error.remedy(),
            Self::Call(error) => error.remedy(),
            Self::Transaction(error) => match error {
                TransactionError::Lost { .. } => Remedy::Reacquire,
                TransactionError::Part { source, .. } | TransactionError::Call(source) => source.remedy(),
            },
            Self::Lock(error) => error.remedy(),
            Self::Presence(error) => error.remedy(),
            Self::Settle(error) => error.remedy(),
            Self::Cache(error) => error.remedy(),
        }
    }

    /// Whether the ZooKeeper session is over, and with it all its locks.
    pub(crate) fn ends_term(&self) -> bool {
        match self {
            Self::Call(error) => error.ends_term(),
            Self::Transaction(TransactionError::Lost { .. }) => true,
            Self::Transaction(TransactionError::Part { source, .. } | TransactionError::Call(source)) => {
                source.ends_term()
            }
            _ => false,
        }
    }
}
