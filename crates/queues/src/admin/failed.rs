//! Messages that were given up, and how they come back.

use std::sync::Arc;

use menagerie_journal::{
    Append, Commit, Edit, Edited, Journal, JournalError, Message, MessageId, NewMessage, PartitionId, Read,
};
use menagerie_kernel::Session;
use menagerie_znodes::queues::QueueName;

use super::{found, home};
use crate::coordination::claim::{partition_id, topic};
use crate::error::QueueError;
use crate::failed::{Meta, Story};
use crate::journals::Journals;

/// A message that was given up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedMessage {
    /// Its id among the failed ones.
    pub id: MessageId,
    /// What is said about it; nothing, if somebody else has put it there.
    pub story: Option<Story>,
    /// The message.
    pub message: Message,
}

/// The failed messages of one queue.
pub struct FailedMessages {
    queue: QueueName,
    store: Arc<dyn Journal>,
    partition: PartitionId,
}

impl FailedMessages {
    /// Those of a queue that is there.
    pub async fn open(session: &Session, journals: &Journals, queue: &QueueName) -> Result<Self, QueueError> {
        let settings = found(&session.term(), queue).await?;
        let store = home(journals, queue, &settings)?;
        let place = queue.failed().ok_or_else(|| QueueError::NoQueue { queue: queue.clone() })?;
        let partition = PartitionId::new(topic(&place)?, 1);
        Ok(Self { queue: queue.clone(), store, partition })
    }

    /// Some of them, in the order in which they failed, after one of them.
    pub async fn after(&self, id: MessageId, limit: u32) -> Result<Vec<FailedMessage>, QueueError> {
        let read = Read::after(self.partition.clone(), id).limit(limit);
        let messages = match self.store.read(read).await {
            // Nothing has ever failed.
            Err(JournalError::NoTopic { .. }) => Vec::new(),
            batch => batch?.messages,
        };
        let told = |message: Message| FailedMessage {
            id: message.id,
            story: serde_json::from_slice(&message.meta).ok(),
            message,
        };
        Ok(messages.into_iter().map(told).collect())
    }

    /// The newest of them so far, or one that was.
    pub async fn newest(&self) -> Result<MessageId, QueueError> {
        let read = Read::after(self.partition.clone(), MessageId::ZERO).limit(1).descending();
        match self.store.read(read).await {
            Err(JournalError::NoTopic { .. }) => Ok(MessageId::ZERO),
            batch => Ok(batch?.last),
        }
    }

    /// Sends one back to where it was, and takes it from here: both or neither. False if it is not here.
    pub async fn retry(&self, failed: &FailedMessage) -> Result<bool, QueueError> {
        let origin = failed.story.as_ref().map(|story| story.origin.clone());
        let origin = origin.filter(|origin| *origin.queue() == self.queue);
        let partition = origin.unwrap_or_else(|| self.queue.partition(1));
        let retries = failed.story.as_ref().map_or(0, |story| story.retries) + 1;
        let meta = serde_json::to_vec(&Meta { retries, ..Meta::default() }).expect("a number can be written");
        let message = NewMessage {
            meta: meta.into(),
            body: failed.message.body.clone(),
            // As long as before, from now on: what is left of its first life may be nothing.
            ttl: failed.story.as_ref().and_then(|story| story.ttl),
            ..NewMessage::default()
        };
        // Whoever else sends it back or forgets it at the same moment: it can be removed once, and without that nothing happens.
        let remove = Edit::Remove { partition: self.partition.clone(), id: failed.id };
        let append = Append { partition: partition_id(&partition)?, message };
        let (appends, edits) = (vec![append], vec![remove]);
        match self.store.commit(Commit { appends, edits, ..Commit::default() }).await {
            Ok(_) => Ok(true),
            Err(JournalError::NoMessage { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Forgets one. False if it is not here.
    pub async fn forget(&self, id: MessageId) -> Result<bool, QueueError> {
        let edits = vec![Edit::Remove { partition: self.partition.clone(), id }];
        let committed = self.store.commit(Commit { edits, ..Commit::default() }).await?;
        Ok(committed.edits == [Edited::Changed])
    }
}
