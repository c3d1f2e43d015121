//! Putting messages into a queue.

use std::num::NonZeroU16;
use std::sync::Arc;

use bytes::Bytes;
use menagerie_journal::{Append, Appended, Commit, Journal, MessageId, NewMessage, Ticks};
use menagerie_kernel::Session;
use menagerie_znodes::queues::{Order, PartitionName, QueueName};

use super::duplicates;
use super::{journal_of, require_settings};
use crate::coordination::claim::partition_id;
use crate::core::partitioning;
use crate::error::QueueError;
use crate::journals::Journals;
use crate::message_uuid::MessageUuid;
use crate::meta::Origin;

/// Which partition of its queue a message goes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Destination {
    /// The partition of this key, of at most 1,024 bytes; it is stored with the message.
    Key(Vec<u8>),
    /// This partition.
    Partition(u16),
    /// Any, round robin.
    Any,
}

impl Destination {
    /// The key, if that chooses the partition.
    pub fn key(&self) -> Option<&[u8]> {
        match self {
            Self::Key(key) => Some(key),
            Self::Partition(_) | Self::Any => None,
        }
    }
}

/// A message to put.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToPut {
    /// Which partition it goes to.
    pub destination: Destination,
    /// Higher goes first, in queues without order.
    pub priority: i8,
    /// Its content. Metadata is filled in.
    pub message: NewMessage,
}

impl From<(Destination, NewMessage)> for ToPut {
    fn from((destination, message): (Destination, NewMessage)) -> Self {
        Self { destination, priority: 0, message }
    }
}

/// A message that was put.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Put {
    /// Its id, for life; that of the first message if this is a duplicate. `None` only if that one is gone and has left
    /// nothing behind, or if nobody wanted to know ([`Putter::ignore_duplicates`]).
    pub id: Option<MessageUuid>,
    /// The partition it is in.
    pub partition: PartitionName,
    /// Its position there; `None` while it is delayed.
    pub position: Option<MessageId>,
    /// When it is due, if it is delayed.
    pub due: Option<Ticks>,
    /// Its dedup id was used before: nothing was put.
    pub duplicate: bool,
}

/// Puts messages into one queue.
pub struct Putter {
    queue: QueueName,
    partitions: NonZeroU16,
    order: Order,
    store: Arc<dyn Journal>,
    /// Round-robin position for [`Destination::Any`].
    next: u16,
    origin: Origin,
    /// Whether to look for the first messages of duplicates.
    find_duplicates: bool,
}

impl Putter {
    /// Opens an existing queue for messages of this origin. `start` is where the round robin starts: a random number
    /// spreads callers that put one message each.
    pub async fn open(
        session: &Session,
        journals: &Journals,
        queue: &QueueName,
        start: u16,
        origin: Origin,
    ) -> Result<Self, QueueError> {
        let settings = require_settings(&session.term(), queue).await?;
        let store = journal_of(journals, queue, &settings)?;
        let partitions = NonZeroU16::new(settings.partitions);
        let partitions = partitions.ok_or(QueueError::Partitions { partitions: 0 })?;
        Ok(Self {
            queue: queue.clone(),
            partitions,
            order: settings.handling.order,
            store,
            next: start % partitions,
            origin,
            find_duplicates: true,
        })
    }

    /// The order in which the queue's messages are handled.
    pub fn order(&self) -> Order {
        self.order
    }

    /// The partition for a message.
    pub fn choose_partition(&mut self, destination: &Destination) -> Result<PartitionName, QueueError> {
        let partitions = self.partitions.get();
        let number = match destination {
            Destination::Key(key) => partitioning::of_key(key, self.partitions),
            Destination::Partition(number) if (1..=partitions).contains(number) => *number,
            Destination::Partition(number) => {
                let partition = self.queue.partition(*number);
                return Err(QueueError::NoPartition { partition, partitions });
            }
            Destination::Any => {
                self.next = (self.next + 1) % partitions;
                self.next + 1
            }
        };
        Ok(self.queue.partition(number))
    }

    /// What to append to the journal for one message, for those who have more to say in the same commit.
    pub(crate) fn append(
        &mut self,
        destination: &Destination,
        message: NewMessage,
    ) -> Result<Append, QueueError> {
        let partition = self.choose_partition(destination)?;
        let message = self.origin.stamp(&partition, destination.key(), 0, message)?.message;
        Ok(Append { partition: partition_id(&partition)?, message })
    }

    /// Does not search for the first messages of duplicates, which takes a read or more for each.
    #[must_use]
    pub fn ignore_duplicates(self) -> Self {
        Self { find_duplicates: false, ..self }
    }

    /// Puts all of these or none, in this order.
    pub async fn put(&mut self, messages: Vec<impl Into<ToPut>>) -> Result<Vec<Put>, QueueError> {
        let mut commit = Commit::default();
        let mut pending = Vec::with_capacity(messages.len());
        for message in messages {
            let ToPut { destination, priority, message } = message.into();
            let partition = self.choose_partition(&destination)?;
            let (body, dedup) = (message.body.clone(), message.dedup.clone());
            let stamped = self.origin.stamp(&partition, destination.key(), priority, message)?;
            commit.appends.push(Append { partition: partition_id(&partition)?, message: stamped.message });
            pending.push(Pending { partition, id: stamped.id, body, dedup });
        }
        let appended = self.store.commit(commit).await?.appends;
        let mut put = Vec::with_capacity(pending.len());
        for (one, appended) in pending.into_iter().zip(appended) {
            put.push(self.outcome(one, appended).await?);
        }
        Ok(put)
    }

    async fn outcome(&self, pending: Pending, appended: Appended) -> Result<Put, QueueError> {
        let Pending { partition, id, body, dedup } = pending;
        let put = |id, partition, position| Put { id, partition, position, due: None, duplicate: false };
        let first = match appended {
            Appended::At(position) => {
                let id = id.unwrap_or_else(|| MessageUuid::derived(&partition, position));
                return Ok(put(Some(id), partition, Some(position)));
            }
            Appended::Delayed(place) => {
                return Ok(Put { due: Some(place.due), ..put(id, partition, None) });
            }
            Appended::Duplicate(position) => position,
        };
        if !self.find_duplicates {
            return Ok(Put { duplicate: true, ..put(None, partition, first) });
        }
        let partitions = std::iter::once(partition.clone())
            .chain((1..=self.partitions.get()).map(|number| self.queue.partition(number)));
        let dedup = dedup.unwrap_or_default();
        let found = match first {
            Some(position) => duplicates::at(&*self.store, partitions, position, &dedup, &body).await?,
            None => duplicates::delayed(&*self.store, partitions, &[dedup]).await?.pop().flatten(),
        };
        Ok(match found {
            Some(found) => Put { duplicate: true, ..found },
            // It is gone, and was most likely where this one would have gone.
            None => {
                let id = first.map(|position| MessageUuid::derived(&partition, position));
                Put { duplicate: true, ..put(id, partition, first) }
            }
        })
    }
}

/// A message on its way to the journal.
struct Pending {
    partition: PartitionName,
    /// Its id, if it was chosen already.
    id: Option<MessageUuid>,
    body: Bytes,
    dedup: Option<Bytes>,
}
