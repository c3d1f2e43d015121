//! What a journal tells about itself.

use menagerie_types::Fence;
use menagerie_types::fence::FenceNumbers;
use serde::{Deserialize, Serialize};

use crate::id::MessageId;
use crate::topic::Consumer;

/// One partition.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionStats {
    /// Which one.
    pub partition: u32,
    /// Messages in it. Those whose time to live is over count until they are dropped.
    pub messages: u64,
    /// Bytes of these messages, before compression.
    pub bytes: u64,
    /// The oldest message.
    pub first: Option<MessageId>,
    /// The newest id that was given away, whether its message is still there or not.
    pub last: MessageId,
    /// All up to here was dropped by retention or a trim.
    pub trimmed: MessageId,
    /// Appends that are not due yet.
    pub delayed: u64,
    /// Who reads it, by name.
    pub consumers: Vec<ConsumerStats>,
}

/// A consumer of a partition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConsumerStats {
    /// Who.
    pub consumer: Consumer,
    /// The fence that counts.
    #[serde(with = "FenceNumbers")]
    pub fence: Fence,
    /// How far it has come.
    pub position: MessageId,
    /// Messages behind its position.
    pub lag: u64,
}

/// A journal as a whole.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Topics.
    pub topics: u64,
    /// Messages in all of them.
    pub messages: u64,
    /// Bytes on disk: segments, and what of the log they do not have. The log's own files, a few of 32 MiB, do not count.
    pub disk_bytes: u64,
    /// At most so many, if there is a quota. Beyond it, appends are refused.
    pub quota_bytes: Option<u64>,
    /// Appends that are not due yet.
    pub delayed: u64,
    /// Dedup ids that are remembered.
    pub dedup_ids: u64,
    /// How far the newest id is ahead of the clock, in milliseconds: more than a little when the clock was once wrong.
    pub clock_ahead_ms: u64,
}
