//! What can be asked of a partition, and the answer.

use std::time::Duration;

use bytes::Bytes;

use crate::id::{DelayedId, MessageId, Ticks};
use crate::topic::PartitionId;

/// Bytes of one answer, unless the reader says otherwise. One message is always given, whatever its size.
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

/// A wish for messages of one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Read {
    /// Which one.
    pub partition: PartitionId,
    /// Only messages behind this one.
    pub after: MessageId,
    /// Only messages before this one.
    pub before: MessageId,
    /// From which end to begin.
    pub order: Order,
    /// At most so many messages.
    pub limit: u32,
    /// At most so many bytes, but always one message.
    pub bytes_max: u32,
    /// When there are none, wait so long for the first one.
    pub wait: Duration,
    /// Messages that are not due yet instead, the next one first: those behind this one. Then `after`, `before`, `order` and
    /// `wait` have no meaning.
    pub delayed: Option<DelayedId>,
}

impl Read {
    /// What follows a message; [`MessageId::ZERO`] for all. Does not wait.
    pub fn after(partition: PartitionId, after: MessageId) -> Self {
        Self {
            partition,
            after,
            before: MessageId::MAX,
            order: Order::Ascending,
            limit: u32::MAX,
            bytes_max: BATCH_BYTES,
            wait: Duration::ZERO,
            delayed: None,
        }
    }

    /// What is not due yet, behind one of them; [`DelayedId::ZERO`] for all.
    pub fn delayed(partition: PartitionId, after: DelayedId) -> Self {
        Self { delayed: Some(after), ..Self::after(partition, MessageId::ZERO) }
    }

    /// From this one on, itself included.
    pub fn from(partition: PartitionId, id: MessageId) -> Self {
        Self::after(partition, id.previous())
    }

    /// Exactly this one.
    pub fn one(partition: PartitionId, id: MessageId) -> Self {
        Self { before: id.next(), limit: 1, ..Self::from(partition, id) }
    }

    /// At most so many.
    #[must_use]
    pub fn limit(self, limit: u32) -> Self {
        Self { limit, ..self }
    }

    /// Waits so long for the first one.
    #[must_use]
    pub fn wait(self, wait: Duration) -> Self {
        Self { wait, ..self }
    }

    /// Newest first.
    #[must_use]
    pub fn descending(self) -> Self {
        Self { order: Order::Descending, ..self }
    }
}

/// A message as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Its place.
    pub id: MessageId,
    /// What an engine said about it.
    pub meta: Bytes,
    /// The message.
    pub body: Bytes,
    /// When its life ends.
    pub expires: Option<Ticks>,
}

/// The answer to a read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Batch {
    /// The messages, in the order asked for.
    pub messages: Vec<Message>,
    /// Some of what was asked for was dropped by retention or a trim: all up to this id is gone. Told to every reader that
    /// asks for something before it, so also to one that begins at zero.
    pub gap: Option<MessageId>,
    /// The newest id that the partition has given away. A reader that has it has seen everything. Of delayed messages, the
    /// time at which the newest of the journal was put.
    pub last: MessageId,
    /// Which one each message is, where delayed ones were asked for. Their own ids say when they were put; how long they
    /// live counts from when they are due.
    pub delayed: Vec<DelayedId>,
}

impl Batch {
    /// Messages as they wait, and which ones they are: how long they live is turned into when their life ends.
    pub(crate) fn waiting(self, ids: Vec<DelayedId>) -> Self {
        let mortal = |(mut message, id): (Message, &DelayedId)| {
            message.expires = message.expires.map(|life| Ticks(id.due.0.saturating_add(life.0)));
            message
        };
        let messages = self.messages.into_iter().zip(&ids).map(mortal).collect();
        Self { messages, delayed: ids, ..self }
    }
}
