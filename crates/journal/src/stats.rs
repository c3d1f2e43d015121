//! Statistics of a journal.

use menagerie_types::Fence;
use menagerie_types::fence::FenceNumbers;
use serde::{Deserialize, Serialize};

use crate::id::MessageId;
use crate::topic::Consumer;

/// One partition.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionStats {
    /// Its number, from 1.
    pub partition: u32,
    /// Messages in it. Expired ones count until they are dropped.
    pub messages: u64,
    /// Bytes of these messages, before compression.
    pub bytes: u64,
    /// The oldest message.
    pub first: Option<MessageId>,
    /// The newest assigned id, whether or not its message still exists.
    pub last: MessageId,
    /// Retention or a trim dropped everything up to this id.
    pub trimmed: MessageId,
    /// Appends that are not due yet.
    pub delayed: u64,
    /// Its consumers, by name.
    pub consumers: Vec<ConsumerStats>,
}

/// A consumer of a partition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConsumerStats {
    /// The consumer's name.
    pub consumer: Consumer,
    /// The current fence.
    #[serde(with = "FenceNumbers")]
    pub fence: Fence,
    /// The last message that is done.
    pub position: MessageId,
    /// Messages after its position.
    pub lag: u64,
}

/// A journal as a whole.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Number of topics.
    pub topics: u64,
    /// Messages in all of them.
    pub messages: u64,
    /// Bytes on disk: segments, and the part of the log that is not in segments yet. The log's own files, a few of 32
    /// MiB, do not count.
    pub disk_bytes: u64,
    /// The quota, if there is one. Beyond it, appends are refused.
    pub quota_bytes: Option<u64>,
    /// Appends that are not due yet.
    pub delayed: u64,
    /// Dedup ids that are remembered.
    pub dedup_ids: u64,
    /// How far the newest id is ahead of the clock, in milliseconds: large if the clock was once wrong.
    pub clock_ahead_ms: u64,
}
