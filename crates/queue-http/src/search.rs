//! Finding messages by id. As a rule the time of an id is the message's position. A message that was delayed or retried
//! stands behind it.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use menagerie_journal::{Message, MessageId, Read, Ticks};
use menagerie_queues::admin::browse;
use menagerie_queues::{MessageUuid, Meta};
use menagerie_znodes::queues::Settings;

use crate::form::ReadForm;
use crate::ids::MessageRef;
use crate::messages::{BATCH_MESSAGES_MAX, QueueStore};
use crate::reply::Reply;
use crate::service::unavailable;

/// Batches that one request may read in search of messages that are not where their ids say.
const BATCHES_MAX: usize = 32;

/// How much earlier than the time of its id a message may stand: clocks differ.
const CLOCKS_DIFFER: Duration = Duration::from_secs(600);

/// The search for the messages of one request.
pub(crate) struct Search<'a> {
    store: &'a QueueStore,
    targets: Vec<&'a MessageRef>,
    /// Where those stand that are not where their ids say, once somebody had to look.
    moved: Option<HashMap<MessageRef, MessageId>>,
}

pub(crate) fn is_in_queue(target: &MessageRef, settings: &Settings) -> bool {
    (1..=settings.partitions).contains(&target.partition)
}

impl<'a> Search<'a> {
    pub(crate) fn new(store: &'a QueueStore, targets: &'a [MessageRef], settings: &Settings) -> Self {
        let targets = targets.iter().filter(|target| is_in_queue(target, settings)).collect();
        Self { store, targets, moved: None }
    }

    /// The message with exactly this id, not another one with the same time.
    pub(crate) async fn find(&mut self, target: &MessageRef) -> Result<Option<Message>, Reply> {
        let Some(id) = target.id else { return Ok(None) };
        let back =
            browse::put_back(&*self.store.journal, &self.store.queue, id).await.map_err(unavailable)?;
        if let Some(back) = back.filter(|back| back.partition.number() == target.partition) {
            return Ok(Some(back.message));
        }
        let is_it = |message: &Message| self.store.id_of(target.partition, message) == id;
        let found = self.store.message_at(target.partition, MessageId(id.time())).await?.filter(is_it);
        if found.is_some() {
            return Ok(found);
        }
        match once_delayed(self.store, target.partition, id).await? {
            Some(found) => Ok(Some(found)),
            None => self.find_behind(target, id).await,
        }
    }

    async fn find_behind(&mut self, target: &MessageRef, id: MessageUuid) -> Result<Option<Message>, Reply> {
        if self.moved.is_none() {
            self.moved = Some(self.find_moved().await?);
        }
        let position = self.moved.as_ref().and_then(|moved| moved.get(target)).copied();
        let Some(position) = position else { return Ok(None) };
        let is_it = |message: &Message| self.store.id_of(target.partition, message) == id;
        Ok(self.store.message_at(target.partition, position).await?.filter(is_it))
    }

    /// Looks through the newest messages, for all ids at once.
    async fn find_moved(&self) -> Result<HashMap<MessageRef, MessageId>, Reply> {
        let mut by_partition: BTreeMap<u16, HashMap<MessageUuid, &MessageRef>> = BTreeMap::new();
        for target in &self.targets {
            if let Some(id) = target.id {
                by_partition.entry(target.partition).or_default().insert(id, target);
            }
        }
        let (mut moved, mut batches) = (HashMap::new(), 0);
        for (partition, wanted) in by_partition {
            let first = wanted.keys().map(|id| id.time()).min().unwrap_or(Ticks(0));
            let from = MessageId(first.minus(CLOCKS_DIFFER));
            let read = Read::from(self.store.partition(partition)?, from).limit(BATCH_MESSAGES_MAX);
            let mut read = read.descending();
            while batches < BATCHES_MAX {
                batches += 1;
                let batch = self.store.read(read.clone()).await?.messages;
                let Some(end) = batch.last() else { break };
                read.before = end.id;
                for message in &batch {
                    let found = Meta::of(message).id.and_then(|id| wanted.get(&id));
                    // The newest counts.
                    found.map(|target| moved.entry(**target).or_insert(message.id));
                }
            }
        }
        Ok(moved)
    }
}

/// Where the message stands that a client continues after, if it was delayed: its id only says when it was due. For
/// others the time of the id counts, even if they were retried: so a reader may see messages again, but misses none.
pub(crate) async fn position_of_marker(
    store: &QueueStore,
    partition: u16,
    form: &ReadForm,
) -> Result<Option<MessageId>, Reply> {
    let Some(id) = form.marker else { return Ok(None) };
    Ok(once_delayed(store, partition, id).await?.map(|message| message.id))
}

/// The message with this id, if it was delayed into this partition and stands close to when it was due.
async fn once_delayed(store: &QueueStore, partition: u16, id: MessageUuid) -> Result<Option<Message>, Reply> {
    let name = store.queue.partition(partition);
    if !id.may_be_chosen_for(&name) {
        return Ok(None);
    }
    browse::once_delayed(&*store.journal, &name, id).await.map_err(unavailable)
}
