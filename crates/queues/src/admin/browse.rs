//! Looking at messages without taking them.

use std::sync::Arc;
use std::time::Duration;

use menagerie_journal::{Journal, Message, MessageId, Order, Read};
use menagerie_kernel::Session;
use menagerie_znodes::queues::{PartitionName, QueueName};

use super::{home, readable};
use crate::coordination::claim::partition_id;
use crate::coordination::cursor::CursorAt;
use crate::error::QueueError;
use crate::journals::Journals;

/// A message, and where it lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Where.
    pub partition: PartitionName,
    /// The message.
    pub message: Message,
}

/// The messages of one queue.
pub struct Browser {
    queue: QueueName,
    partitions: u16,
    pub(super) store: Arc<dyn Journal>,
}

impl Browser {
    /// For a queue that is there, or its failed messages.
    pub async fn open(session: &Session, journals: &Journals, queue: &QueueName) -> Result<Self, QueueError> {
        let settings = readable(&session.term(), queue).await?;
        let store = home(journals, queue, &settings)?;
        Ok(Self { queue: queue.clone(), partitions: settings.partitions, store })
    }

    /// Its partitions, or the one that is meant.
    pub fn partitions(&self, only: Option<u16>) -> Result<Vec<PartitionName>, QueueError> {
        match only {
            Some(number) if !(1..=self.partitions).contains(&number) => Err(QueueError::NoPartition {
                partition: self.queue.partition(number),
                partitions: self.partitions,
            }),
            Some(number) => Ok(vec![self.queue.partition(number)]),
            None => Ok((1..=self.partitions).map(|number| self.queue.partition(number)).collect()),
        }
    }

    /// The next ones that wait in each of these partitions, oldest first of all.
    pub async fn waiting(
        &self,
        session: &Session,
        partitions: &[PartitionName],
        limit: u32,
    ) -> Result<Vec<Found>, QueueError> {
        let mut all = Vec::new();
        for partition in partitions {
            let cursor = CursorAt::read(&session.term(), partition).await?;
            let after = cursor.map_or(MessageId::ZERO, |cursor| cursor.position());
            let read = Read::after(partition_id(partition)?, after).limit(limit);
            all.extend(self.read_all(partition, read).await?);
        }
        all.sort_by(oldest_first);
        all.truncate(limit as usize);
        Ok(all)
    }

    /// The newest of all these partitions, oldest first.
    pub async fn newest(&self, partitions: &[PartitionName], limit: u32) -> Result<Vec<Found>, QueueError> {
        let mut all = Vec::new();
        for partition in partitions {
            let read = Read::after(partition_id(partition)?, MessageId::ZERO).limit(limit).descending();
            all.extend(self.read_all(partition, read).await?);
        }
        all.sort_by(oldest_first);
        Ok(all.split_off(all.len().saturating_sub(limit as usize)))
    }

    /// Everything up to which a partition was given messages by now.
    pub async fn last(&self, partition: &PartitionName) -> Result<MessageId, QueueError> {
        let read = Read::after(partition_id(partition)?, MessageId::ZERO).limit(1).descending();
        Ok(self.store.read(read).await?.last)
    }

    /// What follows in a partition; waits so long for the first one.
    pub async fn following(
        &self,
        partition: &PartitionName,
        after: MessageId,
        limit: u32,
        wait: Duration,
    ) -> Result<Vec<Found>, QueueError> {
        let read = Read::after(partition_id(partition)?, after).limit(limit).wait(wait);
        self.read(partition, read).await
    }

    /// The messages with this id: ids differ within a partition, and hardly ever meet between them.
    pub async fn with_id(
        &self,
        partitions: &[PartitionName],
        id: MessageId,
    ) -> Result<Vec<Found>, QueueError> {
        let mut all = Vec::new();
        for partition in partitions {
            all.extend(self.read(partition, Read::one(partition_id(partition)?, id)).await?);
        }
        Ok(all)
    }

    /// As many as were asked for: a journal answers with so many bytes at a time, and large messages are few then.
    async fn read_all(&self, partition: &PartitionName, mut read: Read) -> Result<Vec<Found>, QueueError> {
        let mut all = Vec::new();
        while read.limit > 0 {
            let found = self.read(partition, read.clone()).await?;
            let Some(end) = found.last().map(|found| found.message.id) else { break };
            read.limit = read.limit.saturating_sub(u32::try_from(found.len()).unwrap_or(u32::MAX));
            all.extend(found);
            match read.order {
                Order::Ascending => read.after = end,
                Order::Descending => read.before = end,
            }
        }
        Ok(all)
    }

    async fn read(&self, partition: &PartitionName, read: Read) -> Result<Vec<Found>, QueueError> {
        let messages = self.store.read(read).await?.messages;
        Ok(messages.into_iter().map(|message| Found { partition: partition.clone(), message }).collect())
    }
}

fn oldest_first(one: &Found, other: &Found) -> std::cmp::Ordering {
    (one.message.id, &one.partition).cmp(&(other.message.id, &other.partition))
}
