//! Listing and cancelling delayed messages.

use menagerie_journal::{Commit, DelayedId, Edit, Edited, Message, Read};
use menagerie_kernel::Session;
use menagerie_znodes::queues::{PartitionName, QueueName};

use super::browse::Browser;
use crate::coordination::claim::partition_id;
use crate::error::QueueError;
use crate::journals::Journals;

/// Messages cancelled per commit.
const BATCH: u32 = 1000;

/// A message that is not due yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DelayedMessage {
    /// Its id until it is due.
    pub id: DelayedId,
    /// The partition it will appear in.
    pub partition: PartitionName,
    /// The message itself.
    pub message: Message,
}

/// The delayed messages of some partitions of a queue.
pub struct DelayedMessages {
    browser: Browser,
    partitions: Vec<PartitionName>,
}

impl DelayedMessages {
    /// Opens an existing queue, or one of its partitions.
    pub async fn open(
        session: &Session,
        journals: &Journals,
        queue: &QueueName,
        only: Option<u16>,
    ) -> Result<Self, QueueError> {
        let browser = Browser::open(session, journals, queue).await?;
        let partitions = browser.partitions(only)?;
        Ok(Self { browser, partitions })
    }

    /// The messages due next.
    pub async fn next(&self, limit: u32) -> Result<Vec<DelayedMessage>, QueueError> {
        let mut all = Vec::new();
        for partition in &self.partitions {
            let (mut left, mut after) = (limit, DelayedId::ZERO);
            // The journal limits the bytes of each batch.
            while left > 0 {
                let (found, _) = self.read(partition, after, left).await?;
                let Some(last) = found.last() else { break };
                after = last.id;
                left = left.saturating_sub(u32::try_from(found.len()).unwrap_or(u32::MAX));
                all.extend(found);
            }
        }
        all.sort_by_key(|delayed| delayed.id);
        all.truncate(limit as usize);
        Ok(all)
    }

    /// Cancels one. `false` if there is no such delayed message: it may have become due and turned into an ordinary
    /// one.
    pub async fn cancel(&self, id: DelayedId) -> Result<bool, QueueError> {
        // The id does not name its partition, so try all of them.
        let edits = self.partitions.iter().map(|partition| cancel(partition, id));
        Ok(self.commit(edits.collect::<Result<_, _>>()?).await? > 0)
    }

    /// Cancels all messages delayed by now; `progress` gets the running total.
    pub async fn cancel_all(&self, mut progress: impl FnMut(u64)) -> Result<u64, QueueError> {
        let mut cancelled = 0;
        for partition in &self.partitions {
            let (mut after, mut newest) = (DelayedId::ZERO, None);
            loop {
                let (found, last) = self.read(partition, after, BATCH).await?;
                let Some(end) = found.last() else { break };
                after = end.id;
                // Leave alone what others put meanwhile, or this might never end.
                let newest = *newest.get_or_insert(last);
                let old = found.iter().filter(|delayed| delayed.id.put <= newest);
                let edits = old.map(|delayed| cancel(partition, delayed.id));
                cancelled += self.commit(edits.collect::<Result<_, _>>()?).await?;
                progress(cancelled);
            }
        }
        Ok(cancelled)
    }

    /// Some delayed messages of a partition, and when the newest of them all was put.
    async fn read(
        &self,
        partition: &PartitionName,
        after: DelayedId,
        limit: u32,
    ) -> Result<(Vec<DelayedMessage>, menagerie_journal::Ticks), QueueError> {
        let read = Read::delayed(partition_id(partition)?, after).limit(limit);
        let batch = self.browser.store.read(read).await?;
        let found = batch.delayed.into_iter().zip(batch.messages);
        let found = found.map(|(id, message)| DelayedMessage { id, partition: partition.clone(), message });
        Ok((found.collect(), batch.last.0))
    }

    /// Commits these edits, and counts those that changed something.
    async fn commit(&self, edits: Vec<Edit>) -> Result<u64, QueueError> {
        let committed = self.browser.store.commit(Commit { edits, ..Commit::default() }).await?;
        Ok(committed.edits.into_iter().filter(|edited| *edited == Edited::Changed).count() as u64)
    }
}

fn cancel(partition: &PartitionName, id: DelayedId) -> Result<Edit, QueueError> {
    Ok(Edit::Cancel { partition: partition_id(partition)?, id })
}
