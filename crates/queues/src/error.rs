//! Why queues did not do what was asked.

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

/// Why something did not work.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum QueueError {
    /// There is no such queue.
    #[error("there is no queue {queue}")]
    NoQueue {
        /// Which one.
        queue: QueueName,
    },
    /// There is one already, and it is different.
    #[error("queue {queue} exists already, with {partitions} partitions")]
    Exists {
        /// Which one.
        queue: QueueName,
        /// How many it has.
        partitions: u16,
    },
    /// The journal has more partitions of it than it is to have: what waits in the others would never be handled.
    #[error(
        "journal {journal:?} has messages of queue {queue} in {wide} partitions, and {partitions} would hide some"
    )]
    Narrow {
        /// Which one.
        queue: QueueName,
        /// Where they are.
        journal: String,
        /// How many were asked for.
        partitions: u16,
        /// How many the journal has.
        wide: u32,
    },
    /// A cursor that was there lies in the future: nothing would be handled before then.
    #[error("the cursor of {partition} is there already, and lies {} s in the future", ahead.as_secs())]
    Ahead {
        /// Whose.
        partition: PartitionName,
        /// By how much.
        ahead: Duration,
    },
    /// The name is that of a queue's failed messages.
    #[error("{queue} cannot be the name of a queue: the messages of {} that failed are there", of(queue))]
    Reserved {
        /// Which one.
        queue: QueueName,
    },
    /// There is no such worker.
    #[error("there is no worker {worker}")]
    NoWorker {
        /// Which one.
        worker: Name,
    },
    /// The queue has no such partition.
    #[error("{partition} does not exist: queue {} has partitions 1 to {partitions}", partition.queue())]
    NoPartition {
        /// Which one.
        partition: PartitionName,
        /// How many there are.
        partitions: u16,
    },
    /// A number of partitions that cannot be.
    #[error("a queue has 1 to {max} partitions, not {partitions}", max = menagerie_znodes::queues::PARTITIONS_MAX)]
    Partitions {
        /// What was asked for.
        partitions: u16,
    },
    /// The messages are in a journal that this process does not know.
    #[error("the messages of queue {queue} are in journal {journal:?}, which is not known here")]
    NoJournal {
        /// Which queue.
        queue: QueueName,
        /// What its settings say.
        journal: String,
    },
    /// The journal takes no such name.
    #[error("{name:?} cannot be the name of a topic")]
    Topic {
        /// Which one.
        name: String,
        /// Why.
        source: NameError,
    },
    /// What is no key.
    #[error("{0}")]
    Key(String),
    /// The journal said no.
    #[error("the journal did not do it")]
    Journal(#[from] JournalError),
    /// ZooKeeper said no.
    #[error("ZooKeeper did not do it")]
    Call(#[from] CallError),
    /// A transaction was refused.
    #[error("a transaction was refused")]
    Transaction(#[from] TransactionError),
    /// Locks and elections.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// Being listed.
    #[error(transparent)]
    Presence(#[from] PresenceError),
    /// Following who comes and goes.
    #[error(transparent)]
    Settle(#[from] SettleError),
    /// Following the assignment.
    #[error(transparent)]
    Cache(#[from] TreeCacheError),
}

fn of(failed: &QueueName) -> String {
    failed.failures_of().map_or_else(String::new, |queue| queue.to_string())
}

impl QueueError {
    /// What the caller may do.
    pub fn remedy(&self) -> Remedy {
        match self {
            Self::NoQueue { .. }
            | Self::Exists { .. }
            | Self::Narrow { .. }
            | Self::Ahead { .. }
            | Self::Reserved { .. }
            | Self::NoWorker { .. }
            | Self::NoPartition { .. }
            | Self::Partitions { .. }
            | Self::NoJournal { .. }
            | Self::Topic { .. }
            | Self::Key(_) => Remedy::TellUser,
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

    /// Whether the ZooKeeper session is over, and with it what was held.
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
