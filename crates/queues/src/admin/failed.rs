//! Listing, retrying and dropping messages that were given up.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use menagerie_journal::{
    Append, Commit, Edit, Edited, Journal, JournalError, Message, MessageId, NewMessage, PartitionId, Read,
    Ticks,
};
use menagerie_kernel::Session;
use menagerie_znodes::queues::{PartitionName, QueueName, Settings};

use super::browse::CLOCKS_DIFFER;
use super::{journal_of, require_settings};
use crate::coordination::claim::partition_id;
use crate::error::QueueError;
use crate::failed::FailureRecord;
use crate::journals::Journals;
use crate::message_uuid::MessageUuid;
use crate::meta::{Meta, Origin, Via};
use crate::story::{self, Act, ActKind};

/// Messages read at once in search of one.
const FIND_BATCH: u32 = 1000;
/// Batches of a bounded search from each end.
const FIND_BATCHES: usize = 8;
/// How far from the time at which a worker says that a message failed it may stand: clocks differ, and a journal may have
/// been away.
const FAILED_BEFORE: Duration = Duration::from_secs(5);
const FAILED_AFTER: Duration = Duration::from_secs(120);

/// A message that was given up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedMessage {
    /// Its id, for life.
    pub id: MessageUuid,
    /// Its position among the failed messages.
    pub position: MessageId,
    /// Why it was given up; `None` if somebody else put it there.
    pub record: Option<FailureRecord>,
    /// The message itself.
    pub message: Message,
}

/// The failed messages of one queue.
pub struct FailedMessages {
    queue: QueueName,
    settings: Settings,
    /// Who retries and drops them.
    by: Option<String>,
    store: Arc<dyn Journal>,
    place: PartitionName,
    partition: PartitionId,
}

impl FailedMessages {
    /// Opens the failed messages of an existing queue.
    pub async fn open(session: &Session, journals: &Journals, queue: &QueueName) -> Result<Self, QueueError> {
        let settings = require_settings(&session.term(), queue).await?;
        let store = journal_of(journals, queue, &settings)?;
        let place = queue.failed().ok_or_else(|| QueueError::NoQueue { queue: queue.clone() })?;
        let place = place.partition(1);
        let partition = partition_id(&place)?;
        Ok(Self { queue: queue.clone(), settings, by: None, store, place, partition })
    }

    /// Says who retries and drops them, for their stories.
    #[must_use]
    pub fn acting_as(self, by: &str) -> Self {
        Self { by: Origin::new(by, Via::Library).meta().by, ..self }
    }

    /// Up to `limit` messages after this position, in the order in which they failed.
    pub async fn after(&self, position: MessageId, limit: u32) -> Result<Vec<FailedMessage>, QueueError> {
        self.read(Read::after(self.partition.clone(), position).limit(limit)).await
    }

    /// Up to `limit` messages between these positions, the last that failed first.
    pub(crate) async fn newest_between(
        &self,
        after: MessageId,
        before: MessageId,
        limit: u32,
    ) -> Result<Vec<FailedMessage>, QueueError> {
        let read = Read::after(self.partition.clone(), after).limit(limit).descending();
        self.read(Read { before, ..read }).await
    }

    async fn read(&self, read: Read) -> Result<Vec<FailedMessage>, QueueError> {
        let messages = match self.store.read(read).await {
            // The topic is created by the first failure.
            Err(JournalError::NoTopic { .. }) => Vec::new(),
            batch => batch?.messages,
        };
        let with_record = |message: Message| FailedMessage {
            id: MessageUuid::of(&self.place, &message),
            position: message.id,
            record: serde_json::from_slice(&message.meta).ok(),
            message,
        };
        Ok(messages.into_iter().map(with_record).collect())
    }

    /// The one with this id. It failed after it was put, so those before that time need not be read.
    pub async fn find(&self, id: MessageUuid) -> Result<Option<FailedMessage>, QueueError> {
        let mut position = MessageId(id.time().minus(CLOCKS_DIFFER)).previous();
        loop {
            let batch = self.after(position, FIND_BATCH).await?;
            let Some(last) = batch.last() else { return Ok(None) };
            position = last.position;
            if let Some(found) = batch.into_iter().find(|failed| failed.id == id) {
                return Ok(Some(found));
            }
        }
    }

    /// The one with this id, without reading the whole list: near the times at which workers say that it failed, then from
    /// the time of its id, then from the newest. The other value says whether there are some that were not looked at.
    pub(crate) async fn look_for(
        &self,
        id: MessageUuid,
        failed_at: impl IntoIterator<Item = Ticks>,
    ) -> Result<(Option<FailedMessage>, bool), QueueError> {
        let is_it = |failed: &FailedMessage| failed.id == id;
        let begin = MessageId(id.time().minus(CLOCKS_DIFFER)).previous();
        let windows = failed_at.into_iter().map(|at| (at.minus(FAILED_BEFORE), at.plus(FAILED_AFTER)));
        let windows = windows.map(|(from, to)| (MessageId(from), MessageId(to)));
        let mut after = begin;
        for (from, to) in windows.chain([(begin, MessageId::MAX)]) {
            after = from;
            for _ in 0..FIND_BATCHES {
                let read = Read::after(self.partition.clone(), after).limit(FIND_BATCH);
                let batch = self.read(Read { before: to, ..read }).await?;
                let Some(last) = batch.last() else { break };
                after = last.position;
                if let Some(found) = batch.into_iter().find(is_it) {
                    return Ok((Some(found), false));
                }
            }
        }
        let mut before = MessageId::MAX;
        for _ in 0..FIND_BATCHES {
            let batch = self.newest_between(after, before, FIND_BATCH).await?;
            let Some(last) = batch.last() else { return Ok((None, false)) };
            before = last.position;
            if let Some(found) = batch.into_iter().find(is_it) {
                return Ok((Some(found), false));
            }
        }
        Ok((None, !self.newest_between(after, before, 1).await?.is_empty()))
    }

    /// Where failed messages are: a queue of one partition.
    pub fn place(&self) -> &PartitionName {
        &self.place
    }

    /// Position of the newest failed message, even if it is gone.
    pub async fn newest(&self) -> Result<MessageId, QueueError> {
        let read = Read::after(self.partition.clone(), MessageId::ZERO).limit(1).descending();
        match self.store.read(read).await {
            Err(JournalError::NoTopic { .. }) => Ok(MessageId::ZERO),
            batch => Ok(batch?.last),
        }
    }

    /// Moves one back to the partition it came from, atomically: to its end, under the same id. `false` if it is no
    /// longer here.
    pub async fn retry(&self, failed: &FailedMessage) -> Result<bool, QueueError> {
        let partition = partition_id(&self.origin(failed))?;
        let meta = retried(failed);
        // A message as large as its journal allows leaves room for less.
        let short = Meta { id: meta.id, retries: meta.retries, ..Meta::default() };
        for meta in [meta.encode(), short.encode(), Bytes::new()] {
            let is_last = meta.is_empty();
            let message = NewMessage {
                meta,
                body: failed.message.body.clone(),
                // The full time to live again: little may be left of the first.
                ttl: failed.record.as_ref().and_then(|record| record.ttl),
                ..NewMessage::default()
            };
            // Only one of several concurrent retries and drops can remove it, and the commit fails without that.
            let remove = Edit::Remove { partition: self.partition.clone(), id: failed.position };
            let append = Append { partition: partition.clone(), message };
            let (appends, edits) = (vec![append], vec![remove]);
            let commit = Commit { appends, edits, ..Commit::default() };
            match self.commit(commit, failed, ActKind::Retried).await {
                Err(QueueError::Journal(JournalError::TooLarge { .. })) if !is_last => {}
                outcome => return outcome,
            }
        }
        Ok(false)
    }

    /// The partition that a message came from.
    pub(super) fn origin(&self, failed: &FailedMessage) -> PartitionName {
        let origin = failed.record.as_ref().map(|record| record.origin.clone());
        origin.filter(|origin| *origin.queue() == self.queue).unwrap_or_else(|| self.queue.partition(1))
    }

    /// Drops one. `false` if it is no longer here.
    pub async fn forget(&self, failed: &FailedMessage) -> Result<bool, QueueError> {
        let edits = vec![Edit::Remove { partition: self.partition.clone(), id: failed.position }];
        self.commit(Commit { edits, ..Commit::default() }, failed, ActKind::Forgotten).await
    }

    /// Commits what removes a message, together with the note that somebody did it. `false` if it is no longer here.
    async fn commit(&self, commit: Commit, failed: &FailedMessage, act: ActKind) -> Result<bool, QueueError> {
        let (id, partition, by) = (failed.id, self.origin(failed), self.by.clone());
        let position = failed.record.as_ref().and_then(|record| record.message.parse().ok());
        let act = Act { id, partition, position, act, by, meta: None };
        match story::act::commit(&*self.store, &self.queue, &self.settings, commit, [act]).await {
            Ok(committed) => Ok(!committed.edits.contains(&Edited::Missing)),
            Err(QueueError::Journal(JournalError::NoMessage { .. })) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// Metadata of a message that is retried: as before it failed. Its position is another one now, so its id is stored.
fn retried(failed: &FailedMessage) -> Meta {
    // The record of its failure names these fields in the same way.
    let meta = Meta::of(&failed.message);
    let before = || failed.record.as_ref()?.message.parse::<MessageId>().ok();
    let put = meta.put.or_else(|| before().map(|position| position.0));
    Meta { id: Some(failed.id), put, retries: meta.retries.saturating_add(1), dedup: None, ..meta }
}
