//! Making a queue.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use menagerie_journal::{Created as TopicCreated, Journal, Ticks, TopicConfig};
use menagerie_kernel::session::IfLate;
use menagerie_kernel::{CallError, Session, Term, retry};
use menagerie_znodes::queues::{
    self, Consistency, Cursor, Keep, PARTITIONS_MAX, QueueName, Settings, Visibility,
};
use menagerie_znodes::{Kind, Payload as _};

use super::home;
use crate::coordination::claim::topic;
use crate::coordination::cursor::{CursorAt, ahead};
use crate::error::QueueError;
use crate::journals::Journals;

/// For how long a message that was given up is not put among the failed ones again: longer than any outage in which a
/// worker may have put it there without being able to say so.
pub(crate) const FAILED_DEDUP_WINDOW: Duration = Duration::from_secs(7 * 24 * 3600);

/// What came of creating a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Created {
    /// It is new.
    Fresh,
    /// There was one like it.
    Existed,
}

/// Makes a queue, with a place for its failed messages. What a crash had left half made is completed.
pub async fn create(
    session: &Session,
    journals: &Journals,
    queue: &QueueName,
    partitions: u16,
    journal: &str,
) -> Result<Created, QueueError> {
    create_as(session, journals, queue, &plain(partitions, journal)).await
}

/// A queue that nobody has said more about.
pub fn plain(partitions: u16, journal: &str) -> Settings {
    Settings {
        partitions,
        journal: journal.to_owned(),
        folder: None,
        visibility: Visibility::default(),
        consistency: Consistency::default(),
        principles: Vec::new(),
        keep: Keep::default(),
        created_ms: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64),
    }
}

/// The same for a queue that is more than its partitions. One that is there stays as it is.
pub async fn create_as(
    session: &Session,
    journals: &Journals,
    queue: &QueueName,
    settings: &Settings,
) -> Result<Created, QueueError> {
    let (partitions, journal) = (settings.partitions, settings.journal.as_str());
    if !(1..=PARTITIONS_MAX).contains(&partitions) {
        return Err(QueueError::Partitions { partitions });
    }
    if queue.failures_of().is_some() {
        return Err(QueueError::Reserved { queue: queue.clone() });
    }
    let term = session.term();
    let before = term.read(&queues::settings(queue)).await?.map(|found| found.value);
    let store = home(journals, queue, before.as_ref().unwrap_or(settings))?;
    if let Some(found) = &before
        && (found.partitions, found.journal.as_str()) != (partitions, journal)
    {
        return Err(QueueError::Exists { queue: queue.clone(), partitions: found.partitions });
    }
    // Messages first: whoever sees the queue can use it.
    let wide = create_topic(&*store, queue, partitions).await?;
    // A queue that is there may be half way to more; in one that is made anew, nobody would ever see what waits in the rest.
    if before.is_none() && wide > u32::from(partitions) {
        let (queue, journal) = (queue.clone(), journal.to_owned());
        return Err(QueueError::Narrow { queue, journal, partitions, wide });
    }
    if before.is_none() {
        require_past(&term, &*store, queue, partitions).await?;
    }
    create_failed_topic(&*store, queue).await?;
    // The name alone could lead to another folder one day, where these ids and positions mean nothing.
    let settings = Settings { folder: Some(store.folder().await?.to_string()), ..settings.clone() };
    let created = write_settings(&term, queue, &settings).await?;
    create_cursors(&term, queue, partitions).await?;
    Ok(created)
}

/// Cursors that are there already, of qdo, say, must not lie in the future.
async fn require_past(
    term: &Term,
    store: &dyn Journal,
    queue: &QueueName,
    partitions: u16,
) -> Result<(), QueueError> {
    let stats = store.stats(&topic(queue)?).await?;
    for number in 1..=partitions {
        let partition = queue.partition(number);
        let Some(cursor) = CursorAt::read(term, &partition).await? else { continue };
        let last = stats.iter().find(|stats| stats.partition == u32::from(number)).map(|stats| stats.last);
        if let Some(ahead) = ahead(cursor.position(), last.unwrap_or_default(), Ticks::now()) {
            return Err(QueueError::Ahead { partition, ahead });
        }
    }
    Ok(())
}

/// Each partition can be handled from now on.
pub(super) async fn create_cursors(
    term: &Term,
    queue: &QueueName,
    partitions: u16,
) -> Result<(), QueueError> {
    for number in 1..=partitions {
        let cursor = queues::cursor(&queue.partition(number));
        retry::ensure(term, cursor.path(), &Cursor::default().encode()).await?;
    }
    Ok(())
}

/// Room for messages in at least so many partitions; how many there are now, which is more if there were more before.
pub(super) async fn create_topic(
    store: &dyn Journal,
    queue: &QueueName,
    partitions: u16,
) -> Result<u32, QueueError> {
    let wanted = u32::from(partitions);
    Ok(match store.create_topic(&topic(queue)?, TopicConfig::partitions(wanted)).await? {
        TopicCreated::Existed(found) if found.partitions < wanted => {
            let wider = TopicConfig { partitions: wanted, ..found };
            store.alter_topic(&topic(queue)?, wider).await?;
            wanted
        }
        TopicCreated::Existed(found) => found.partitions,
        TopicCreated::Fresh => wanted,
    })
}

async fn create_failed_topic(store: &dyn Journal, queue: &QueueName) -> Result<(), QueueError> {
    if let Some(failed) = queue.failed() {
        let config = TopicConfig { dedup_window: FAILED_DEDUP_WINDOW, ..TopicConfig::partitions(1) };
        store.create_topic(&topic(&failed)?, config).await?;
    }
    Ok(())
}

async fn write_settings(term: &Term, queue: &QueueName, settings: &Settings) -> Result<Created, QueueError> {
    let znode = queues::settings(queue);
    retry::ensure(term, queues::all_settings().path(), b"").await?;
    match term.create(znode.path(), &settings.encode(), Kind::Persistent, IfLate::Report).await {
        Ok(_) => return Ok(Created::Fresh),
        Err(CallError::Exists { .. } | CallError::Unknown { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    // Whether it is ours or another's of the same moment: what counts is what it says.
    term.sync(znode.path()).await?;
    match term.read(&znode).await?.map(|found| found.value) {
        Some(found) if found == *settings => Ok(Created::Fresh),
        Some(found) if (found.partitions, &found.journal) == (settings.partitions, &settings.journal) => {
            Ok(Created::Existed)
        }
        Some(found) => Err(QueueError::Exists { queue: queue.clone(), partitions: found.partitions }),
        None => Err(CallError::Unknown { path: znode.path().to_owned() }.into()),
    }
}
