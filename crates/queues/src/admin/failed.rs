//! Listing, retrying and dropping messages that were given up.

use std::sync::Arc;

use menagerie_journal::{
    Append, Commit, Edit, Edited, Journal, JournalError, Message, MessageId, NewMessage, PartitionId, Read,
};
use menagerie_kernel::Session;
use menagerie_znodes::queues::QueueName;

use super::{journal_of, require_settings};
use crate::coordination::claim::{partition_id, topic};
use crate::error::QueueError;
use crate::failed::{FailureRecord, Meta};
use crate::journals::Journals;

/// A message that was given up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedMessage {
    /// Its id among the failed messages.
    pub id: MessageId,
    /// Why it was given up; `None` if somebody else put it there.
    pub record: Option<FailureRecord>,
    /// The message itself.
    pub message: Message,
}

/// The failed messages of one queue.
pub struct FailedMessages {
    queue: QueueName,
    store: Arc<dyn Journal>,
    partition: PartitionId,
}

impl FailedMessages {
    /// Opens the failed messages of an existing queue.
    pub async fn open(session: &Session, journals: &Journals, queue: &QueueName) -> Result<Self, QueueError> {
        let settings = require_settings(&session.term(), queue).await?;
        let store = journal_of(journals, queue, &settings)?;
        let place = queue.failed().ok_or_else(|| QueueError::NoQueue { queue: queue.clone() })?;
        let partition = PartitionId::new(topic(&place)?, 1);
        Ok(Self { queue: queue.clone(), store, partition })
    }

    /// Up to `limit` messages after this id, in the order in which they failed.
    pub async fn after(&self, id: MessageId, limit: u32) -> Result<Vec<FailedMessage>, QueueError> {
        let read = Read::after(self.partition.clone(), id).limit(limit);
        let messages = match self.store.read(read).await {
            // The topic is created by the first failure.
            Err(JournalError::NoTopic { .. }) => Vec::new(),
            batch => batch?.messages,
        };
        let with_record = |message: Message| FailedMessage {
            id: message.id,
            record: serde_json::from_slice(&message.meta).ok(),
            message,
        };
        Ok(messages.into_iter().map(with_record).collect())
    }

    /// Id of the newest failed message, even if it is gone.
    pub async fn newest(&self) -> Result<MessageId, QueueError> {
        let read = Read::after(self.partition.clone(), MessageId::ZERO).limit(1).descending();
        match self.store.read(read).await {
            Err(JournalError::NoTopic { .. }) => Ok(MessageId::ZERO),
            batch => Ok(batch?.last),
        }
    }

    /// Moves one back to the partition it came from, atomically. `false` if it is no longer here.
    pub async fn retry(&self, failed: &FailedMessage) -> Result<bool, QueueError> {
        let origin = failed.record.as_ref().map(|record| record.origin.clone());
        let origin = origin.filter(|origin| *origin.queue() == self.queue);
        let partition = origin.unwrap_or_else(|| self.queue.partition(1));
        let retries = failed.record.as_ref().map_or(0, |record| record.retries) + 1;
        let meta = serde_json::to_vec(&Meta { retries, ..Meta::default() }).expect("a number can be written");
        let message = NewMessage {
            meta: meta.into(),
            body: failed.message.body.clone(),
            // The full time to live again: little may be left of the first.
            ttl: failed.record.as_ref().and_then(|record| record.ttl),
            ..NewMessage::default()
        };
        // Only one of several concurrent retries and drops can remove it, and the commit fails without that.
        let remove = Edit::Remove { partition: self.partition.clone(), id: failed.id };
        let append = Append { partition: partition_id(&partition)?, message };
        let (appends, edits) = (vec![append], vec![remove]);
        match self.store.commit(Commit { appends, edits, ..Commit::default() }).await {
            Ok(_) => Ok(true),
            Err(JournalError::NoMessage { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Drops one. `false` if it is no longer here.
    pub async fn forget(&self, id: MessageId) -> Result<bool, QueueError> {
        let edits = vec![Edit::Remove { partition: self.partition.clone(), id }];
        let committed = self.store.commit(Commit { edits, ..Commit::default() }).await?;
        Ok(committed.edits == [Edited::Changed])
    }
}
