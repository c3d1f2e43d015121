//! Forgetting what is in a queue.

use menagerie_kernel::Session;
use menagerie_znodes::queues::QueueName;
use serde::Serialize;

use super::{found, home};
use crate::coordination::claim::{partition_id, topic};
use crate::coordination::cursor::CursorAt;
use crate::error::QueueError;
use crate::journals::Journals;

/// Forgets every message of a queue, handled or not; how many there were. Some that a worker has read ahead may still be
/// handled; those that are not due yet stay.
pub async fn purge(session: &Session, journals: &Journals, queue: &QueueName) -> Result<u64, QueueError> {
    let settings = found(&session.term(), queue).await?;
    let store = home(journals, queue, &settings)?;
    let mut messages = 0;
    for stats in store.stats(&topic(queue)?).await? {
        let Ok(number) = u16::try_from(stats.partition) else { continue };
        store.trim(&partition_id(&queue.partition(number))?, stats.last).await?;
        messages += stats.messages;
    }
    Ok(messages)
}

/// What was forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Purged {
    /// Partitions that had such messages.
    pub partitions: u64,
    /// Messages. What was put meanwhile is not among them, and makes them seem fewer.
    pub messages: u64,
    /// Their bytes, before compression. The journal gives the room back by and by, and soon when it is short of it.
    pub bytes: u64,
}

/// Forgets the messages of a queue that were handled, however short they have been there; those that wait stay. The cursor says
/// which: with `--ack before` also one that runs.
pub async fn purge_handled(
    session: &Session,
    journals: &Journals,
    queue: &QueueName,
) -> Result<Purged, QueueError> {
    let term = session.term();
    let settings = found(&term, queue).await?;
    let (store, topic) = (home(journals, queue, &settings)?, topic(queue)?);
    let before = store.stats(&topic).await?;
    for number in 1..=settings.partitions {
        let partition = queue.partition(number);
        if let Some(cursor) = CursorAt::read(&term, &partition).await? {
            store.trim(&partition_id(&partition)?, cursor.position()).await?;
        }
    }
    let after = store.stats(&topic).await?;
    let mut purged = Purged::default();
    for (before, after) in before.iter().zip(&after) {
        let messages = before.messages.saturating_sub(after.messages);
        purged.partitions += u64::from(messages > 0);
        purged.messages += messages;
        purged.bytes += before.bytes.saturating_sub(after.bytes);
    }
    Ok(purged)
}
