//! Dropping the messages of a queue.

use menagerie_kernel::Session;
use menagerie_znodes::queues::QueueName;
use schemars::JsonSchema;
use serde::Serialize;

use super::past::Past;
use super::{journal_of, require_settings};
use crate::coordination::claim::{partition_id, topic};
use crate::coordination::cursor::CursorAt;
use crate::error::QueueError;
use crate::journals::Journals;
use crate::story::ActKind;
use crate::story::act::{Sweep, note_sweep};

/// Drops every message of a queue, handled or not, and returns their number. Workers may still handle what they have
/// read ahead. Delayed messages stay.
pub async fn purge(session: &Session, journals: &Journals, queue: &QueueName) -> Result<u64, QueueError> {
    let settings = require_settings(&session.term(), queue).await?;
    let store = journal_of(journals, queue, &settings)?;
    let mut messages = 0;
    for stats in store.stats(&topic(queue)?).await? {
        let Ok(number) = u16::try_from(stats.partition) else { continue };
        let partition = queue.partition(number);
        let after = Past::read(&session.term(), &partition).await?.cursor;
        store.trim(&partition_id(&partition)?, stats.last).await?;
        messages += stats.messages;
        let sweep = Sweep { partition, after, through: stats.last, sweep: ActKind::Purged };
        if stats.messages > 0 {
            note_sweep(&*store, &settings, &sweep).await;
        }
    }
    Ok(messages)
}

/// What was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, JsonSchema)]
pub struct Purged {
    /// Partitions that had messages to drop.
    pub partitions: u64,
    /// Messages dropped. Messages put meanwhile make it look like fewer.
    pub messages: u64,
    /// Their bytes before compression. The journal frees disk space in the background, and sooner when space is short.
    pub bytes: u64,
}

/// Drops the handled messages of a queue, however recent; waiting ones stay. Those before the cursor count as handled:
/// with `--ack before`, that includes one that is still running.
pub async fn purge_handled(
    session: &Session,
    journals: &Journals,
    queue: &QueueName,
) -> Result<Purged, QueueError> {
    let term = session.term();
    let settings = require_settings(&term, queue).await?;
    let (store, topic) = (journal_of(journals, queue, &settings)?, topic(queue)?);
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
