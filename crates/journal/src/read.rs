//! Reads of a partition, and their results.

use std::time::Duration;

use bytes::Bytes;

use crate::id::{DelayedId, MessageId, Ticks};
use crate::topic::PartitionId;

/// Default limit of bytes in one batch. A batch always has one message, whatever its size.
pub const BATCH_BYTES: u32 = 4 << 20;

/// Which way to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// Oldest first.
    #[default]
    Ascending,
    /// Newest first.
    Descending,
}

/// A read of messages of one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Read {
    /// The partition to read.
    pub partition: PartitionId,
    /// Only messages after this one.
    pub after: MessageId,
    /// Only messages before this one.
    pub before: MessageId,
    /// From which end to read.
    pub order: Order,
    /// Also messages whose time to live has ended, while they are kept. Delayed ones do not expire.
    pub expired: bool,
    /// Return at most this many messages.
    pub limit: u32,
    /// Return at most this many bytes, but always one message.
    pub bytes_max: u32,
    /// If there are none, wait this long for the first one (long poll).
    pub wait: Duration,
    /// Read delayed messages after this one instead, the next due first. Then `after`, `before`, `order` and `wait` are
    /// ignored.
    pub delayed: Option<DelayedId>,
}

impl Read {
    /// Reads what follows a message; [`MessageId::ZERO`] for all. Does not wait.
    pub fn after(partition: PartitionId, after: MessageId) -> Self {
        Self {
            partition,
            after,
            before: MessageId::MAX,
            order: Order::Ascending,
            expired: false,
            limit: u32::MAX,
            bytes_max: BATCH_BYTES,
            wait: Duration::ZERO,
            delayed: None,
        }
    }

    /// Reads delayed messages after this one; [`DelayedId::ZERO`] for all.
    pub fn delayed(partition: PartitionId, after: DelayedId) -> Self {
        Self { delayed: Some(after), ..Self::after(partition, MessageId::ZERO) }
    }

    /// Reads from this message on, itself included.
    pub fn from(partition: PartitionId, id: MessageId) -> Self {
        Self::after(partition, id.previous())
    }

    /// Reads exactly this message.
    pub fn one(partition: PartitionId, id: MessageId) -> Self {
        Self { before: id.next(), limit: 1, ..Self::from(partition, id) }
    }

    /// Sets the limit of messages.
    #[must_use]
    pub fn limit(self, limit: u32) -> Self {
        Self { limit, ..self }
    }

    /// Sets how long to wait for the first message.
    #[must_use]
    pub fn wait(self, wait: Duration) -> Self {
        Self { wait, ..self }
    }

    /// Also returns messages whose time to live has ended.
    #[must_use]
    pub fn with_expired(self) -> Self {
        Self { expired: true, ..self }
    }

    /// Newest first.
    #[must_use]
    pub fn descending(self) -> Self {
        Self { order: Order::Descending, ..self }
    }
}

/// A stored message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Its position in the partition.
    pub id: MessageId,
    /// The engine's metadata.
    pub meta: Bytes,
    /// May be empty.
    pub body: Bytes,
    /// When it expires.
    pub expires: Option<Ticks>,
}

/// The result of a read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Batch {
    /// The messages, in the order of the read.
    pub messages: Vec<Message>,
    /// Retention or a trim dropped part of the requested range: all up to this id is gone. Every read that begins
    /// before it reports it, also one from zero.
    pub gap: Option<MessageId>,
    /// The newest id that the partition has assigned. A reader that has it has seen everything. For delayed messages,
    /// when the journal's newest one was appended.
    pub last: MessageId,
    /// The ids of the messages, for a read of delayed ones. Their message ids say when they were appended; their time
    /// to live counts from when they are due.
    pub delayed: Vec<DelayedId>,
}

impl Batch {
    /// Turns delayed messages as stored, which carry a time to live, into messages that carry an expiry.
    pub(crate) fn waiting(self, ids: Vec<DelayedId>) -> Self {
        let mortal = |(mut message, id): (Message, &DelayedId)| {
            message.expires = message.expires.map(|life| Ticks(id.due.0.saturating_add(life.0)));
            message
        };
        let messages = self.messages.into_iter().zip(&ids).map(mortal).collect();
        Self { messages, delayed: ids, ..self }
    }
}
