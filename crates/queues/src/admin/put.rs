//! Putting messages into a queue.

use std::num::NonZeroU16;
use std::sync::Arc;

use menagerie_journal::{Append, Appended, Commit, Journal, MessageId, NewMessage, Read};
use menagerie_kernel::Session;
use menagerie_znodes::queues::{PartitionName, QueueName};

use super::{found, home};
use crate::coordination::claim::partition_id;
use crate::core::partitioning;
use crate::error::QueueError;
use crate::journals::Journals;

/// Where in its queue a message goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// Where this key's messages go.
    Key(Vec<u8>),
    /// To this one.
    Partition(u16),
    /// To any: one after the other.
    Any,
}

/// Puts messages into one queue.
pub struct Putter {
    queue: QueueName,
    partitions: NonZeroU16,
    store: Arc<dyn Journal>,
    /// The partition that the next message without a wish goes to.
    next: u16,
}

impl Putter {
    /// For a queue that is there. `start` spreads those who put one message each; a random number will do.
    pub async fn open(
        session: &Session,
        journals: &Journals,
        queue: &QueueName,
        start: u16,
    ) -> Result<Self, QueueError> {
        let settings = found(&session.term(), queue).await?;
        let store = home(journals, queue, &settings)?;
        let partitions = NonZeroU16::new(settings.partitions);
        let partitions = partitions.ok_or(QueueError::Partitions { partitions: 0 })?;
        Ok(Self { queue: queue.clone(), partitions, store, next: start % partitions })
    }

    /// Where a message goes.
    pub fn place(&mut self, place: &Place) -> Result<PartitionName, QueueError> {
        let partitions = self.partitions.get();
        let number = match place {
            Place::Key(key) => partitioning::of_key(key, self.partitions),
            Place::Partition(number) if (1..=partitions).contains(number) => *number,
            Place::Partition(number) => {
                let partition = self.queue.partition(*number);
                return Err(QueueError::NoPartition { partition, partitions });
            }
            Place::Any => {
                self.next = (self.next + 1) % partitions;
                self.next + 1
            }
        };
        Ok(self.queue.partition(number))
    }

    /// Where the message lies that a duplicate stands for: a dedup id counts for the whole queue, and the first one may have gone
    /// elsewhere. Messages that were put together may have one id, so the body counts, too. If it is nowhere any more, where the
    /// duplicate would have gone.
    pub async fn holding(
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

    /// Puts these, all or none, in this order.
    pub async fn put(&mut self, messages: Vec<(Place, NewMessage)>) -> Result<Vec<Appended>, QueueError> {
        let mut commit = Commit::default();
        for (place, message) in messages {
            let partition = partition_id(&self.place(&place)?)?;
            commit.appends.push(Append { partition, message });
        }
        Ok(self.store.commit(commit).await?.appends)
    }
}
