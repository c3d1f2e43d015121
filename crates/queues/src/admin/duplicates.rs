//! Finding the message that a duplicate repeats. Dedup ids are valid for the whole queue, so it may be in another
//! partition than the one where the duplicate would have gone.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use menagerie_journal::{DelayedId, Journal, JournalError, Message, MessageId, Read, Ticks};
use menagerie_znodes::queues::PartitionName;

use super::browse::CLOCKS_DIFFER;
use super::delayed::{self as waiting, DelayedMessage};
use super::put::Put;
use super::stamp::dedup_text;
use crate::coordination::claim::partition_id;
use crate::error::QueueError;
use crate::message_uuid::MessageUuid;
use crate::meta::Meta;

/// Batches read from each partition in search of a message that was delayed and is due by now: journals remember dedup
/// ids for some minutes, so it is among the newest.
const DUE_BATCHES_MAX: usize = 100;

/// The message at this position that was put with this dedup id. Messages of one commit may have the same position in
/// several partitions; those of older versions do not carry their dedup id, and are known by their body.
pub async fn at(
    store: &dyn Journal,
    partitions: impl Iterator<Item = PartitionName>,
    position: MessageId,
    dedup: &[u8],
    body: &[u8],
) -> Result<Option<Put>, QueueError> {
    let dedup = dedup_text(dedup);
    for partition in partitions {
        let Some(message) = read(store, Read::one(partition_id(&partition)?, position)).await?.pop() else {
            continue;
        };
        if Meta::of(&message).dedup.map_or_else(|| message.body == body, |its| its == dedup) {
            let id = Some(MessageUuid::of(&partition, &message));
            return Ok(Some(Put { id, partition, position: Some(position), due: None, duplicate: true }));
        }
    }
    Ok(None)
}

/// The messages that were delayed with these dedup ids; they may be due by now. `None` for those that were cancelled or
/// are gone. However many are asked for, the delayed messages are read once.
pub async fn delayed(
    store: &dyn Journal,
    partitions: impl Iterator<Item = PartitionName> + Clone,
    dedups: &[Bytes],
) -> Result<Vec<Option<Put>>, QueueError> {
    let wanted = dedups.iter().map(|dedup| dedup_text(dedup)).collect();
    let mut search = Search { wanted, found: BTreeMap::new() };
    for partition in partitions.clone() {
        search.among_delayed(store, &partition).await?;
    }
    for partition in partitions {
        search.among_newest(store, &partition).await?;
    }
    Ok(dedups.iter().map(|dedup| search.found.get(&dedup_text(dedup)).cloned()).collect())
}

/// A search for messages by their dedup ids.
struct Search {
    wanted: BTreeSet<String>,
    found: BTreeMap<String, Put>,
}

impl Search {
    async fn among_delayed(
        &mut self,
        store: &dyn Journal,
        partition: &PartitionName,
    ) -> Result<(), QueueError> {
        let mut after = DelayedId::ZERO;
        while !self.wanted.is_empty() {
            let (batch, _) = waiting::read(store, partition, after, waiting::BATCH).await?;
            let Some(last) = batch.last() else { break };
            after = last.place;
            for DelayedMessage { place, message, .. } in &batch {
                let (id, due) = (Meta::of(message).id, Some(place.due));
                let put = Put { id, partition: partition.clone(), position: None, due, duplicate: true };
                self.consider(message, put);
            }
        }
        Ok(())
    }

    async fn among_newest(
        &mut self,
        store: &dyn Journal,
        partition: &PartitionName,
    ) -> Result<(), QueueError> {
        let from = MessageId(Ticks::now().minus(CLOCKS_DIFFER));
        let mut next = Read::from(partition_id(partition)?, from).descending();
        for _ in 0..DUE_BATCHES_MAX {
            if self.wanted.is_empty() {
                break;
            }
            let batch = read(store, next.clone()).await?;
            let Some(last) = batch.last() else { break };
            next.before = last.id;
            for message in &batch {
                let (id, position) = (Some(MessageUuid::of(partition, message)), Some(message.id));
                let put = Put { id, partition: partition.clone(), position, due: None, duplicate: true };
                self.consider(message, put);
            }
        }
        Ok(())
    }

    fn consider(&mut self, message: &Message, put: Put) {
        if let Some(dedup) = Meta::of(message).dedup.filter(|dedup| self.wanted.remove(dedup)) {
            self.found.insert(dedup, put);
        }
    }
}

/// A missing partition reads as empty: another process may have recreated the queue with fewer.
async fn read(store: &dyn Journal, read: Read) -> Result<Vec<Message>, QueueError> {
    match store.read(read).await {
        Err(JournalError::NoPartition { .. }) => Ok(Vec::new()),
        batch => Ok(batch?.messages),
    }
}
