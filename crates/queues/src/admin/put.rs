//! Putting messages into a queue.

use std::num::NonZeroU16;
use std::sync::Arc;

use menagerie_journal::{Append, Appended, Commit, Journal, MessageId, NewMessage, Read};
use menagerie_kernel::Session;
use menagerie_znodes::queues::{PartitionName, QueueName};

use super::{journal_of, require_settings};
use crate::coordination::claim::partition_id;
use crate::core::partitioning;
use crate::error::QueueError;
use crate::journals::Journals;

/// Which partition of its queue a message goes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Destination {
    /// The partition of this key.
    Key(Vec<u8>),
    /// This partition.
    Partition(u16),
    /// Any, round robin.
    Any,
}

/// Puts messages into one queue.
pub struct Putter {
    queue: QueueName,
    partitions: NonZeroU16,
    store: Arc<dyn Journal>,
    /// Round-robin position for [`Destination::Any`].
    next: u16,
}

impl Putter {
    /// Opens an existing queue. `start` is where the round robin starts: a random number spreads callers that put one
    /// message each.
    pub async fn open(
        session: &Session,
        journals: &Journals,
        queue: &QueueName,
        start: u16,
    ) -> Result<Self, QueueError> {
        let settings = require_settings(&session.term(), queue).await?;
        let store = journal_of(journals, queue, &settings)?;
        let partitions = NonZeroU16::new(settings.partitions);
        let partitions = partitions.ok_or(QueueError::Partitions { partitions: 0 })?;
        Ok(Self { queue: queue.clone(), partitions, store, next: start % partitions })
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

    /// The partition of the message that a duplicate repeats. Dedup ids are valid for the whole queue, so the first
    /// copy may have gone to another partition. Messages of one commit may share an id, so the body must match, too.
    /// `likely` if the message is gone.
    pub async fn find_duplicate(
        &self,
        likely: &PartitionName,
        id: MessageId,
        body: &[u8],
    ) -> Result<PartitionName, QueueError> {
        let mut found = None;
        let others = (1..=self.partitions.get()).map(|number| self.queue.partition(number));
        for partition in std::iter::once(likely.clone()).chain(others) {
            let messages = self.store.read(Read::one(partition_id(&partition)?, id)).await?.messages;
            match messages.first() {
                Some(message) if message.body == body => return Ok(partition),
                Some(_) => drop(found.get_or_insert(partition)),
                None => {}
            }
        }
        Ok(found.unwrap_or_else(|| likely.clone()))
    }

    /// Puts all of these or none, in this order.
    pub async fn put(
        &mut self,
        messages: Vec<(Destination, NewMessage)>,
    ) -> Result<Vec<Appended>, QueueError> {
        let mut commit = Commit::default();
        for (destination, message) in messages {
            let partition = partition_id(&self.choose_partition(&destination)?)?;
            commit.appends.push(Append { partition, message });
        }
        Ok(self.store.commit(commit).await?.appends)
    }
}
