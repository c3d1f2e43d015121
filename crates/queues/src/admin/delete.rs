//! Taking a queue away, or what stands in its way.

use menagerie_journal::{JournalError, MessageId};
use menagerie_kernel::{CallError, Session, Term, retry};
use menagerie_znodes::queues::{self, PartitionName, QueueName};

use super::{found, home};
use crate::coordination::claim::{partition_id, topic};
use crate::error::QueueError;
use crate::journals::Journals;

/// Takes a queue away, with all its messages and those that failed. Its workers lose its partitions. What a crash had left
/// half done is completed by doing it again: the settings go last.
pub async fn delete(session: &Session, journals: &Journals, queue: &QueueName) -> Result<(), QueueError> {
    let term = session.term();
    let settings = found(&term, queue).await?;
    let store = home(journals, queue, &settings)?;
    // Before anything is changed: a queue whose journal is away stays as it is.
    store.topics().await?;
    stop(&term, queue, settings.partitions).await?;
    if let Some(failed) = queue.failed() {
        store.delete_topic(&topic(&failed)?).await?;
    }
    store.delete_topic(&topic(queue)?).await?;
    Ok(retry::delete(&term, queues::settings(queue).path()).await?)
}

/// Takes a queue away whose journal does not come back. If it does, the messages are still in it.
pub async fn abandon(session: &Session, queue: &QueueName) -> Result<(), QueueError> {
    let term = session.term();
    let settings = found(&term, queue).await?;
    stop(&term, queue, settings.partitions).await?;
    Ok(retry::delete(&term, queues::settings(queue).path()).await?)
}

/// Lets nobody work on.
async fn stop(term: &Term, queue: &QueueName, partitions: u16) -> Result<(), CallError> {
    for number in 1..=partitions {
        let partition = queue.partition(number);
        // Without a cursor nothing can be recorded any more; then the lock, so that nobody works on.
        retry::delete(term, queues::cursor(&partition).path()).await?;
        clear(term, queues::lock(&partition).path()).await?;
    }
    retry::delete(term, queues::pause_of_queue(queue).path()).await
}

/// Workers that lose a partition contend for it again, and find that it is gone: rarely more than once.
const CLEAR_ATTEMPTS_MAX: u32 = 100;

/// Removes a directory of contenders, those who are in it too.
async fn clear(term: &Term, dir: &str) -> Result<(), CallError> {
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

/// Forgets the messages of a partition up to this one, handled or not. Where some cannot be read, its worker goes on behind
/// them; it need not be asked, as it is told of the gap.
pub async fn skip(
    session: &Session,
    journals: &Journals,
    partition: &PartitionName,
    through: MessageId,
) -> Result<(), QueueError> {
    let (queue, number) = (partition.queue(), partition.number());
    let settings = found(&session.term(), queue).await?;
    if !(1..=settings.partitions).contains(&number) {
        return Err(QueueError::NoPartition {
            partition: partition.clone(),
            partitions: settings.partitions,
        });
    }
    let store = home(journals, queue, &settings)?;
    let stats = store.stats(&topic(queue)?).await?;
    let ours = stats.iter().find(|stats| stats.partition == u32::from(number));
    // What is not there yet must not be gone when it comes.
    if through > ours.map_or(MessageId::ZERO, |stats| stats.last) {
        return Err(JournalError::Ahead { id: through }.into());
    }
    Ok(store.trim(&partition_id(partition)?, through).await?)
}
