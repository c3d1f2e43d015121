//! Deleting a queue, or skipping messages that block it.

use menagerie_journal::{JournalError, MessageId};
use menagerie_kernel::{CallError, Session, Term, retry};
use menagerie_znodes::queues::{self, PartitionName, QueueName};

use super::past::Past;
use super::{journal_of, require_settings};
use crate::coordination::claim::{partition_id, topic};
use crate::error::QueueError;
use crate::journals::Journals;
use crate::story::act::{Sweep, note_sweep};
use crate::story::{self, ActKind};

/// Deletes a queue with all its messages, failed ones included. Its workers lose its partitions. Idempotent: the
/// settings go last, so repeating it completes what a crash left half done.
pub async fn delete(session: &Session, journals: &Journals, queue: &QueueName) -> Result<(), QueueError> {
    let term = session.term();
    let settings = require_settings(&term, queue).await?;
    let store = journal_of(journals, queue, &settings)?;
    // Check the journal before changing anything: a queue whose journal is down stays as it is.
    store.topics().await?;
    remove_partitions(&term, queue, settings.partitions).await?;
    if let Some(failed) = queue.failed() {
        store.delete_topic(&topic(&failed)?).await?;
    }
    store.delete_topic(&story::topic(queue)?).await?;
    store.delete_topic(&topic(queue)?).await?;
    Ok(retry::delete(&term, queues::settings(queue).path()).await?)
}

/// Deletes a queue whose journal is gone for good. If the journal returns, it still has the messages.
pub async fn abandon(session: &Session, queue: &QueueName) -> Result<(), QueueError> {
    let term = session.term();
    let settings = require_settings(&term, queue).await?;
    remove_partitions(&term, queue, settings.partitions).await?;
    Ok(retry::delete(&term, queues::settings(queue).path()).await?)
}

/// Removes cursors and locks, so that no worker can continue.
async fn remove_partitions(term: &Term, queue: &QueueName, partitions: u16) -> Result<(), CallError> {
    for number in 1..=partitions {
        let partition = queue.partition(number);
        // Without the cursor no worker can record; without the lock none can continue.
        retry::delete(term, queues::cursor(&partition).path()).await?;
        // Left behind, it would say of a queue of the same name that its messages are done.
        retry::delete(term, queues::gaps(&partition).path()).await?;
        remove_contenders(term, queues::lock(&partition).path()).await?;
    }
    retry::delete(term, queues::pause_of_queue(queue).path()).await
}

/// Workers that lose a partition contend for it again before they find it gone, rarely more than once.
const CLEAR_ATTEMPTS_MAX: u32 = 100;

/// Removes a lock's directory with its contenders.
async fn remove_contenders(term: &Term, dir: &str) -> Result<(), CallError> {
    let mut attempts = 0;
    loop {
        attempts += 1;
        match retry::delete(term, dir).await {
            Err(CallError::NotEmpty { .. }) if attempts < CLEAR_ATTEMPTS_MAX => {}
            outcome => return outcome,
        }
        match term.children(dir).await {
            Ok(names) => {
                for name in names {
                    retry::delete(term, &format!("{dir}/{name}")).await?;
                }
            }
            Err(CallError::NoZnode { .. }) => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}

/// Drops the messages of a partition through this one, handled or not. A worker blocked by damaged messages continues
/// after them: its next read reports the gap.
pub async fn skip(
    session: &Session,
    journals: &Journals,
    partition: &PartitionName,
    through: MessageId,
) -> Result<(), QueueError> {
    let (queue, number) = (partition.queue(), partition.number());
    let settings = require_settings(&session.term(), queue).await?;
    if !(1..=settings.partitions).contains(&number) {
        return Err(QueueError::NoPartition {
            partition: partition.clone(),
            partitions: settings.partitions,
        });
    }
    let store = journal_of(journals, queue, &settings)?;
    let stats = store.stats(&topic(queue)?).await?;
    let ours = stats.iter().find(|stats| stats.partition == u32::from(number));
    // A trim beyond the newest message would drop future messages.
    if through > ours.map_or(MessageId::ZERO, |stats| stats.last) {
        return Err(JournalError::Ahead { id: through }.into());
    }
    let after = Past::read(&session.term(), partition).await?.cursor;
    store.trim(&partition_id(partition)?, through).await?;
    let sweep = Sweep { partition: partition.clone(), after, through, sweep: ActKind::Skipped };
    note_sweep(&*store, &settings, &sweep).await;
    Ok(())
}
