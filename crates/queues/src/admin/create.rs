//! Creating a queue.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use menagerie_journal::{Created as TopicCreated, Journal, Ticks, TopicConfig};
use menagerie_kernel::session::IfLate;
use menagerie_kernel::{CallError, Session, Term, retry};
use menagerie_znodes::queues::{
    self, Consistency, Cursor, Handling, Keep, PARTITIONS_MAX, QueueName, Settings, Visibility,
};
use menagerie_znodes::{Kind, Payload as _};

use super::journal_of;
use crate::coordination::claim::topic;
use crate::coordination::cursor::{CursorAt, ahead};
use crate::error::QueueError;
use crate::journals::Journals;
use crate::story;

/// Deduplication window of failed messages: longer than any outage in which a worker may append one without learning
/// that it did.
pub(crate) const FAILED_DEDUP_WINDOW: Duration = Duration::from_secs(7 * 24 * 3600);

/// The outcome of creating a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Created {
    /// The queue is new.
    Fresh,
    /// The queue existed, with the same partitions and journal.
    Existed,
}

/// Creates a queue with default settings, and a topic for its failed messages. Idempotent: completes what a crash left
/// half done.
pub async fn create(
    session: &Session,
    journals: &Journals,
    queue: &QueueName,
    partitions: u16,
    journal: &str,
) -> Result<Created, QueueError> {
    create_with(session, journals, queue, &default_settings(partitions, journal)).await
}

/// Settings of a queue with this many partitions, and defaults for the rest.
pub fn default_settings(partitions: u16, journal: &str) -> Settings {
    Settings {
        partitions,
        journal: journal.to_owned(),
        folder: None,
        visibility: Visibility::default(),
        consistency: Consistency::default(),
        principles: Vec::new(),
        keep: Keep::default(),
        handling: Handling::default(),
        created_ms: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64),
    }
}

/// [`create`] with these settings. Does not change an existing queue.
pub async fn create_with(
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
    let store = journal_of(journals, queue, before.as_ref().unwrap_or(settings))?;
    if let Some(found) = &before
        && (found.partitions, found.journal.as_str()) != (partitions, journal)
    {
        return Err(exists(queue, found, settings));
    }
    // The topic first, so that whoever sees the queue can use it.
    let wide = create_topic(&*store, queue, partitions).await?;
    // An existing queue may be about to grow. In a new one, messages in the extra partitions would wait for ever.
    if before.is_none() && wide > u32::from(partitions) {
        let (queue, journal) = (queue.clone(), journal.to_owned());
        return Err(QueueError::Narrow { queue, journal, partitions, wide });
    }
    if before.is_none() {
        require_past(&term, &*store, queue, partitions).await?;
    }
    create_failed_topic(&*store, queue).await?;
    story::prepare(&*store, queue, before.as_ref().unwrap_or(settings)).await?;
    // Under the same name another folder may appear one day, in which these ids and positions mean nothing.
    let settings = Settings { folder: Some(store.folder().await?.to_string()), ..settings.clone() };
    let created = write_settings(&term, queue, &settings).await?;
    create_cursors(&term, queue, partitions).await?;
    Ok(created)
}

/// Refuses if an existing cursor, of qdo for instance, lies in the future.
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

/// Creates the cursors, which makes the partitions assignable.
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

/// Creates or widens the topic to at least this many partitions. Returns how many it has: more if it had more before.
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

/// What keeps a queue from being made: another one of its name.
fn exists(queue: &QueueName, found: &Settings, wanted: &Settings) -> QueueError {
    let (queue, partitions) = (queue.clone(), found.partitions);
    match partitions == wanted.partitions {
        true => QueueError::InOtherJournal { queue, journal: found.journal.clone() },
        false => QueueError::Exists { queue, partitions },
    }
}

async fn write_settings(term: &Term, queue: &QueueName, settings: &Settings) -> Result<Created, QueueError> {
    let znode = queues::settings(queue);
    retry::ensure(term, queues::all_settings().path(), b"").await?;
    match term.create(znode.path(), &settings.encode(), Kind::Persistent, IfLate::Report).await {
        Ok(_) => return Ok(Created::Fresh),
        Err(CallError::Exists { .. } | CallError::Unknown { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    // The znode may be ours or that of a concurrent create: its contents decide.
    term.sync(znode.path()).await?;
    match term.read(&znode).await?.map(|found| found.value) {
        Some(found) if found == *settings => Ok(Created::Fresh),
        Some(found) if (found.partitions, &found.journal) == (settings.partitions, &settings.journal) => {
            Ok(Created::Existed)
        }
        Some(found) => Err(exists(queue, &found, settings)),
        None => Err(CallError::Unknown { path: znode.path().to_owned() }.into()),
    }
}
