//! Finding the message that a duplicate repeats. Dedup ids are valid for the whole queue, so it may be in another
//! partition than the one where the duplicate would have gone.

use menagerie_journal::{Journal, JournalError, MessageId, Read, Ticks};
use menagerie_znodes::queues::PartitionName;

use super::browse::CLOCKS_DIFFER;
use super::delayed as waiting;
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

/// The message that was delayed with this dedup id; it may be due by now. `None` if it was cancelled or is gone.
pub async fn delayed(
    store: &dyn Journal,
    partitions: impl Iterator<Item = PartitionName> + Clone,
    dedup: &[u8],
) -> Result<Option<Put>, QueueError> {
    let dedup = dedup_text(dedup);
    let is_it = |meta: &Meta| meta.dedup.as_ref() == Some(&dedup);
    for partition in partitions.clone() {
        if let Some(found) = waiting::find(store, &partition, waiting::ANY_TIME, is_it).await? {
            let id = Meta::of(&found.message).id;
            let due = Some(found.place.due);
            return Ok(Some(Put { id, partition, position: None, due, duplicate: true }));
        }
    }
    for partition in partitions {
        let from = MessageId(Ticks::now().minus(CLOCKS_DIFFER));
        let mut next = Read::from(partition_id(&partition)?, from).descending();
        for _ in 0..DUE_BATCHES_MAX {
            let batch = read(store, next.clone()).await?;
            let Some(last) = batch.last() else { break };
            next.before = last.id;
            if let Some(found) = batch.iter().find(|message| is_it(&Meta::of(message))) {
                let (id, position) = (Some(MessageUuid::of(&partition, found)), Some(found.id));
                return Ok(Some(Put { id, partition, position, due: None, duplicate: true }));
            }
        }
    }
    Ok(None)
}

/// A missing partition reads as empty: another process may have recreated the queue with fewer.
async fn read(store: &dyn Journal, read: Read) -> Result<Vec<menagerie_journal::Message>, QueueError> {
    match store.read(read).await {
        Err(JournalError::NoPartition { .. }) => Ok(Vec::new()),
        batch => Ok(batch?.messages),
    }
}
