//! How a queue is, in a word or two.

use std::fmt;

use menagerie_journal::JournalError;
use menagerie_kernel::CallError;
use schemars::JsonSchema;
use serde::Serialize;

use crate::admin::show::{PartitionView, QueueView};
use crate::error::QueueError;

/// How a queue is; or why that is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub enum QueueState {
    /// Every partition has a worker.
    #[serde(rename = "open")]
    Open,
    /// An operator has paused it.
    #[serde(rename = "paused")]
    Paused,
    /// No partition has a worker.
    #[serde(rename = "no workers")]
    NoWorkers,
    /// Every worker that owns a partition is paused.
    #[serde(rename = "workers paused")]
    WorkersPaused,
    /// Some partitions have no worker.
    #[serde(rename = "partly owned")]
    PartlyOwned,
    /// The workers of some partitions are paused.
    #[serde(rename = "partly paused")]
    PartlyPaused,
    /// Unknown: we may not read its journal.
    #[serde(rename = "refused by its journal")]
    Refused,
    /// Unknown: its journal is damaged.
    #[serde(rename = "journal damaged")]
    JournalDamaged,
    /// Unknown: its journal does not have it.
    #[serde(rename = "not in its journal")]
    NotInJournal,
    /// Unknown: its journal does not answer, or is not there.
    #[serde(rename = "journal away")]
    JournalAway,
    /// Unknown: what is in ZooKeeper about it cannot be read.
    #[serde(rename = "unreadable")]
    Unreadable,
}

impl QueueState {
    /// The state of a queue.
    pub fn of(view: &QueueView) -> Self {
        let (owned, paused) = (count_of(view, |at| at.owner.is_some()), count_of(view, |at| at.owner_paused));
        match (&view.paused, owned) {
            (Some(_), _) => Self::Paused,
            (None, 0) => Self::NoWorkers,
            (None, owned) if owned == paused => Self::WorkersPaused,
            (None, owned) if owned < view.partitions.len() => Self::PartlyOwned,
            (None, _) if paused > 0 => Self::PartlyPaused,
            (None, _) => Self::Open,
        }
    }

    /// The state of a queue that cannot be looked at; `None` if the error does not concern this queue alone, such that
    /// no other can be looked at either.
    pub(super) fn unknown(error: &QueueError) -> Option<Self> {
        match error {
            QueueError::Journal(JournalError::Denied(_)) => Some(Self::Refused),
            QueueError::Journal(JournalError::Damaged(_)) => Some(Self::JournalDamaged),
            QueueError::Journal(JournalError::NoTopic { .. }) => Some(Self::NotInJournal),
            QueueError::Journal(_) | QueueError::NoJournal { .. } => Some(Self::JournalAway),
            QueueError::Call(CallError::Payload { .. }) => Some(Self::Unreadable),
            _ => None,
        }
    }

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Paused => "paused",
            Self::NoWorkers => "no workers",
            Self::WorkersPaused => "workers paused",
            Self::PartlyOwned => "partly owned",
            Self::PartlyPaused => "partly paused",
            Self::Refused => "refused by its journal",
            Self::JournalDamaged => "journal damaged",
            Self::NotInJournal => "not in its journal",
            Self::JournalAway => "journal away",
            Self::Unreadable => "unreadable",
        }
    }
}

impl fmt::Display for QueueState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

fn count_of(view: &QueueView, is: impl Fn(&PartitionView) -> bool) -> usize {
    view.partitions.iter().filter(|partition| is(partition)).count()
}
