//! Browsing messages without handling them.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use menagerie_journal::{Journal, Message, MessageId, Order, Read};
use menagerie_kernel::Session;
use menagerie_znodes::queues::{PartitionName, QueueName, Settings};

use super::{journal_of, readable_settings};
use crate::coordination::claim::partition_id;
use crate::coordination::cursor::CursorAt;
use crate::error::QueueError;
use crate::journals::Journals;
use crate::message_uuid::MessageUuid;
use crate::meta::Meta;
use crate::story::ActKind;
use crate::story::{act, is_expired};

/// A message in a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuedMessage {
    /// The partition it is in.
    pub partition: PartitionName,
    /// The message itself.
    pub message: Message,
}

/// How much the clocks of those who put messages may differ from the journal's: a message is searched from this long
/// before the time that its id says.
pub(crate) const CLOCKS_DIFFER: Duration = Duration::from_secs(600);

/// How much earlier than the note about it a message may stand that was put back: both were stored together.
pub(crate) const TOGETHER: Duration = Duration::from_millis(1);

/// How much later it may stand: behind all that was put together with it, and behind what was put before the journal's
/// clock was set back.
const BEHIND: Duration = Duration::from_secs(10);

/// Messages of the first batch in which a message is looked for that was put back.
const NEAR: u32 = 1000;

/// Batches to read from the time on at which a message was due or put back.
const CLOSE_BATCHES: usize = 32;

/// Batches of the newest messages to look through, in all partitions together, for a message that is not where its id
/// says; at least one in each.
const MOVED_BATCHES: usize = 32;
const MOVED_BATCH: u32 = 1000;

/// What a search for the messages with an id has given.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Looked {
    /// Those found: as a rule one.
    pub found: Vec<QueuedMessage>,
    /// The search has stopped after so many of the newest messages; there are more.
    pub stopped_after: Option<u64>,
}

impl QueuedMessage {
    /// Its id, for life.
    pub fn id(&self) -> MessageUuid {
        MessageUuid::of(&self.partition, &self.message)
    }
}

/// Reads the messages of one queue.
pub struct Browser {
    queue: QueueName,
    pub(super) settings: Settings,
    pub(super) store: Arc<dyn Journal>,
}

impl Browser {
    /// Opens an existing queue, or its failed messages.
    pub async fn open(session: &Session, journals: &Journals, queue: &QueueName) -> Result<Self, QueueError> {
        let settings = readable_settings(&session.term(), queue).await?;
        let store = journal_of(journals, queue, &settings)?;
        Ok(Self { queue: queue.clone(), settings, store })
    }

    /// The queue.
    pub(super) fn queue(&self) -> &QueueName {
        &self.queue
    }

    /// All partitions, or only this one.
    pub fn partitions(&self, only: Option<u16>) -> Result<Vec<PartitionName>, QueueError> {
        match only {
            Some(number) if !(1..=self.settings.partitions).contains(&number) => {
                Err(QueueError::NoPartition {
                    partition: self.queue.partition(number),
                    partitions: self.settings.partitions,
                })
            }
            Some(number) => Ok(vec![self.queue.partition(number)]),
            None => Ok((1..=self.settings.partitions).map(|number| self.queue.partition(number)).collect()),
        }
    }

    /// The next messages waiting in these partitions, oldest first.
    pub async fn waiting(
        &self,
        session: &Session,
        partitions: &[PartitionName],
        limit: u32,
    ) -> Result<Vec<QueuedMessage>, QueueError> {
        let mut all = Vec::new();
        for partition in partitions {
            let cursor = CursorAt::read(&session.term(), partition).await?;
            let after = cursor.map_or(MessageId::ZERO, |cursor| cursor.position());
            let read = Read::after(partition_id(partition)?, after).limit(limit);
            all.extend(self.read_all(partition, read).await?);
            // Messages may be large: never hold those of all partitions.
            all.sort_by(oldest_first);
            all.truncate(limit as usize);
        }
        Ok(all)
    }

    /// The newest messages in these partitions, oldest first.
    pub async fn newest(
        &self,
        partitions: &[PartitionName],
        limit: u32,
    ) -> Result<Vec<QueuedMessage>, QueueError> {
        let mut all = Vec::new();
        for partition in partitions {
            let read = Read::after(partition_id(partition)?, MessageId::ZERO).limit(limit).descending();
            all.extend(self.read_all(partition, read).await?);
        }
        all.sort_by(oldest_first);
        Ok(all.split_off(all.len().saturating_sub(limit as usize)))
    }

    /// Position of the newest message put to a partition, even if it is gone.
    pub async fn last_id(&self, partition: &PartitionName) -> Result<MessageId, QueueError> {
        let read = Read::after(partition_id(partition)?, MessageId::ZERO).limit(1).descending();
        Ok(self.store.read(read).await?.last)
    }

    /// Messages of a partition after this position; waits up to `wait` for the first.
    pub async fn read_after(
        &self,
        partition: &PartitionName,
        after: MessageId,
        limit: u32,
        wait: Duration,
    ) -> Result<Vec<QueuedMessage>, QueueError> {
        let read = Read::after(partition_id(partition)?, after).limit(limit).wait(wait);
        self.read(partition, read).await
    }

    /// The messages at this position: at most one in each partition.
    pub async fn at(
        &self,
        partitions: &[PartitionName],
        position: MessageId,
    ) -> Result<Vec<QueuedMessage>, QueueError> {
        let mut all = Vec::new();
        for partition in partitions {
            all.extend(self.read(partition, Read::one(partition_id(partition)?, position)).await?);
        }
        Ok(all)
    }

    /// The messages with this id, where they stand now: as a rule one. Several old ones may share an id, and a client that
    /// chooses ids over HTTP may choose one twice. Delayed messages are not among these
    /// ([`DelayedMessages`](super::delayed)).
    pub async fn with_id(
        &self,
        partitions: &[PartitionName],
        id: MessageUuid,
    ) -> Result<Vec<QueuedMessage>, QueueError> {
        Ok(self.look_for(partitions, id).await?.found)
    }

    /// The same, and whether there are messages that were not looked at.
    pub async fn look_for(
        &self,
        partitions: &[PartitionName],
        id: MessageUuid,
    ) -> Result<Looked, QueueError> {
        let back = self.put_back(id).await?;
        if let Some(back) = back.filter(|back| partitions.contains(&back.partition)) {
            return Ok(Looked { found: vec![back], stopped_after: None });
        }
        let found = self.where_its_id_says(partitions, id).await?;
        match found.is_empty() {
            false => Ok(Looked { found, stopped_after: None }),
            true => self.moved(partitions, id).await,
        }
    }

    /// The message with this id where an operator has put it back last, after it had failed; `None` if nobody did.
    pub async fn put_back(&self, id: MessageUuid) -> Result<Option<QueuedMessage>, QueueError> {
        put_back(&*self.store, &self.queue, id).await
    }

    /// The messages with this id where they stood first, if they are still there: at its time, or close to when they were
    /// due.
    pub(crate) async fn where_its_id_says(
        &self,
        partitions: &[PartitionName],
        id: MessageUuid,
    ) -> Result<Vec<QueuedMessage>, QueueError> {
        let likely = likely(partitions, id);
        let mut found = self.at(&likely, MessageId(id.time())).await?;
        found.retain(|found| found.id() == id);
        if !found.is_empty() {
            return Ok(found);
        }
        for partition in likely.iter().filter(|partition| id.may_be_chosen_for(partition)) {
            let due = once_delayed(&*self.store, partition, id).await?;
            found.extend(due.map(|message| QueuedMessage { partition: partition.clone(), message }));
        }
        Ok(found)
    }

    /// The newest message of each partition that has this id stored with it, among the newest messages: one was delayed or
    /// retried, and stands somewhere behind the time of its id.
    pub(crate) async fn moved(
        &self,
        partitions: &[PartitionName],
        id: MessageUuid,
    ) -> Result<Looked, QueueError> {
        let likely = likely(partitions, id);
        let batches = (MOVED_BATCHES / likely.len().max(1)).max(1);
        let (mut found, mut looked_at, mut is_stopped) = (Vec::new(), 0, false);
        let from = MessageId(id.time().minus(CLOCKS_DIFFER));
        'partitions: for partition in &likely {
            let mut read = Read::from(partition_id(partition)?, from).limit(MOVED_BATCH).descending();
            for _ in 0..batches {
                let batch = self.read(partition, read.clone()).await?;
                let Some(end) = batch.last().map(|found| found.message.id) else { continue 'partitions };
                looked_at += batch.len() as u64;
                if let Some(one) = batch.into_iter().find(|found| found.id() == id) {
                    found.push(one);
                    continue 'partitions;
                }
                read.before = end;
            }
            is_stopped |= !self.read(partition, read.limit(1)).await?.is_empty();
        }
        let is_stopped = is_stopped && found.is_empty();
        Ok(Looked { found, stopped_after: is_stopped.then_some(looked_at) })
    }

    /// Reads until `limit` is reached: the journal limits the bytes of each batch.
    async fn read_all(
        &self,
        partition: &PartitionName,
        mut read: Read,
    ) -> Result<Vec<QueuedMessage>, QueueError> {
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

    async fn read(&self, partition: &PartitionName, read: Read) -> Result<Vec<QueuedMessage>, QueueError> {
        let messages = self.store.read(read).await?.messages;
        Ok(messages
            .into_iter()
            .map(|message| QueuedMessage { partition: partition.clone(), message })
            .collect())
    }
}

/// Those of these partitions that an id can be of: a derived one names its own, and one that was chosen at a put nearly
/// does.
fn likely(partitions: &[PartitionName], id: MessageUuid) -> Vec<PartitionName> {
    if let Some(derived) = partitions.iter().find(|partition| id.position_in(partition).is_some()) {
        return vec![derived.clone()];
    }
    let chosen: Vec<_> = partitions.iter().filter(|one| id.may_be_chosen_for(one)).cloned().collect();
    if chosen.is_empty() { partitions.to_vec() } else { chosen }
}

/// The message with this id where an operator has put it back last, after it had failed; `None` if nobody did.
pub async fn put_back(
    store: &dyn Journal,
    queue: &QueueName,
    id: MessageUuid,
) -> Result<Option<QueuedMessage>, QueueError> {
    let acts = act::acts(store, queue, id, id.time()).await?.acts;
    match acts.iter().rfind(|(_, act)| act.act == ActKind::Retried) {
        Some((at, act)) => {
            let back = put_back_at(store, &act.partition, *at, id).await?;
            Ok(back.filter(|back| !is_expired(&back.message)))
        }
        None => Ok(None),
    }
}

/// Between which positions a message stands that an operator has put back when this note was stored.
pub fn put_back_near(note: MessageId) -> RangeInclusive<MessageId> {
    MessageId(note.0.minus(TOGETHER))..=MessageId(note.0.plus(BEHIND))
}

/// The message with this id as an operator has put it back at about this time, also if it has expired; `None` if it is gone, or too many were put
/// together with it.
pub(crate) async fn put_back_at(
    store: &dyn Journal,
    partition: &PartitionName,
    at: MessageId,
    id: MessageUuid,
) -> Result<Option<QueuedMessage>, QueueError> {
    let near = put_back_near(at);
    let mut read = Read::from(partition_id(partition)?, *near.start()).limit(NEAR).with_expired();
    for _ in 0..CLOSE_BATCHES {
        let batch = store.read(read.clone()).await?.messages;
        let Some(end) = batch.last().map(|message| message.id) else { return Ok(None) };
        let is_first = |message: &Message| id.position_in(partition) == Some(message.id);
        let is_it = |message: &Message| MessageUuid::of(partition, message) == id && !is_first(message);
        if let Some(message) = batch.into_iter().find(is_it) {
            return Ok(Some(QueuedMessage { partition: partition.clone(), message }));
        }
        if end > *near.end() {
            return Ok(None);
        }
        read = Read::after(read.partition, end).with_expired();
    }
    Ok(None)
}

/// The message of a partition with this id, which was chosen when it was put and delayed. It stands behind the time when
/// it was due, as a rule closely: `None` if it does not, or is gone.
pub async fn once_delayed(
    store: &dyn Journal,
    partition: &PartitionName,
    id: MessageUuid,
) -> Result<Option<Message>, QueueError> {
    let mut read = Read::from(partition_id(partition)?, MessageId(*id.due().start()));
    for _ in 0..CLOSE_BATCHES {
        let batch = store.read(read.clone()).await?.messages;
        let Some(end) = batch.last().map(|message| message.id) else { return Ok(None) };
        if let Some(found) = batch.into_iter().find(|message| Meta::of(message).id == Some(id)) {
            return Ok(Some(found));
        }
        read.after = end;
    }
    Ok(None)
}

fn oldest_first(one: &QueuedMessage, other: &QueuedMessage) -> std::cmp::Ordering {
    (one.message.id, &one.partition).cmp(&(other.message.id, &other.partition))
}
