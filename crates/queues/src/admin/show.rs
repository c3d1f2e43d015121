//! Status of queues: are we behind, and do we need more workers?

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures_util::future::join_all;
use menagerie_journal::{JournalError, MessageId, Read, Ticks};
use menagerie_kernel::{CallError, Session, Term};
use menagerie_znodes::Name;
use menagerie_znodes::queues::{self, Keep, PartitionName, Pause, QueueName, Worker};
use menagerie_znodes::quote::unquote;
use serde::Serialize;

use super::{journal_of, readable_settings};
use crate::coordination::catalogue;
use crate::coordination::claim::{lag, partition_id, topic};
use crate::coordination::cursor::{CursorAt, ahead};
use crate::error::QueueError;
use crate::journals::{JournalRef, Journals};

/// A registered worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WorkerEntry {
    /// Its name.
    pub worker: Name,
    /// Partitions it owns.
    pub partitions: Vec<PartitionName>,
    /// Queues it serves; `None` if it does not say.
    pub serves: Option<Vec<QueueName>>,
    /// Whether it is paused.
    pub paused: bool,
}

/// Status of one partition.
#[expect(missing_docs, reason = "its partition names itself")]
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PartitionView {
    pub partition: PartitionName,
    /// The worker that claims to own it.
    pub owner: Option<Name>,
    /// The owner is paused, so nobody handles its messages.
    pub owner_paused: bool,
    /// Position of its cursor.
    pub cursor: String,
    /// How far the cursor is ahead of the clock, if it is: workers handle nothing before then.
    pub ahead_ms: Option<u64>,
    /// Messages stored, including handled ones.
    pub messages: u64,
    /// Messages waiting.
    pub lag: u64,
    /// Age of the oldest waiting message.
    pub oldest_ms: Option<u64>,
    /// Delayed messages not due yet.
    pub delayed: u64,
}

/// Status of a queue.
#[expect(missing_docs, reason = "queue and partitions name themselves")]
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct QueueView {
    pub queue: QueueName,
    /// The journal that stores its messages.
    pub journal: String,
    /// Retention of handled messages.
    #[serde(rename = "keep_ms")]
    pub keep: Keep,
    /// The pause, if it is paused.
    pub paused: Option<Pause>,
    /// Failed messages.
    pub failed: u64,
    pub partitions: Vec<PartitionView>,
    /// Partitions without a cursor, which nobody handles.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub without_cursor: Vec<PartitionName>,
}

impl QueueView {
    /// Messages waiting in all partitions.
    pub fn lag(&self) -> u64 {
        self.partitions.iter().map(|partition| partition.lag).sum()
    }

    /// Age of the oldest waiting message.
    pub fn oldest_ms(&self) -> Option<u64> {
        self.partitions.iter().filter_map(|partition| partition.oldest_ms).max()
    }

    /// The partition whose cursor is farthest ahead of the clock, and by how much.
    pub fn ahead(&self) -> Option<(&PartitionName, Duration)> {
        let ahead = |at: &PartitionView| at.ahead_ms;
        let farthest = self.partitions.iter().filter(|at| ahead(at).is_some()).max_by_key(|at| ahead(at))?;
        Some((&farthest.partition, Duration::from_millis(farthest.ahead_ms?)))
    }

    /// Delayed messages not due yet.
    pub fn delayed(&self) -> u64 {
        self.partitions.iter().map(|partition| partition.delayed).sum()
    }

    /// Messages stored, including handled ones.
    pub fn messages(&self) -> u64 {
        self.partitions.iter().map(|partition| partition.messages).sum()
    }
}

/// Messages per second between two snapshots.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Rate {
    /// Messages put.
    pub put: f64,
    /// Messages handled.
    pub handled: f64,
}

impl Rate {
    /// The rate of a queue between two snapshots. Messages dropped meanwhile count as neither put nor handled.
    pub fn between(before: &QueueView, after: &QueueView, time: Duration) -> Self {
        Self::new((before.messages(), before.lag()), (after.messages(), after.lag()), time)
    }

    /// The rate of one partition.
    pub fn of_partition(before: &PartitionView, after: &PartitionView, time: Duration) -> Self {
        Self::new((before.messages, before.lag), (after.messages, after.lag), time)
    }

    /// From pairs of messages stored and messages waiting.
    fn new(before: (u64, u64), after: (u64, u64), time: Duration) -> Self {
        let seconds = time.as_secs_f64().max(0.001);
        let put = after.0.saturating_sub(before.0);
        let handled = (before.1 + put).saturating_sub(after.1);
        Self { put: put as f64 / seconds, handled: handled as f64 / seconds }
    }
}

/// Names of all queues.
pub async fn list(session: &Session) -> Result<BTreeSet<QueueName>, QueueError> {
    let names = children(&session.term(), queues::all_settings().path()).await?;
    Ok(names.iter().filter_map(|name| unquote(name)?.parse().ok()).collect())
}

/// Status of each queue, or why it is unknown, by name. Waits once for a journal that does not answer, not once per
/// queue.
pub async fn all(
    session: &Session,
    journals: &Journals,
) -> Result<Vec<(QueueName, Result<QueueView, QueueError>)>, QueueError> {
    let queues = list(session).await?;
    let journal_names = catalogue::journals(&session.term(), &queues).await?;
    let names: BTreeSet<&String> = journal_names.values().collect();
    let answers = names.into_iter().map(|name| async move {
        let errors = match journals.get(&JournalRef::named(name)) {
            Some(store) => store.usage().await.err(),
            None => None,
        };
        (name, errors)
    });
    let errors: BTreeMap<&String, Option<JournalError>> = join_all(answers).await.into_iter().collect();
    let views = queues.iter().map(|queue| {
        let errors = journal_names.get(queue).and_then(|journal| errors.get(journal)).cloned().flatten();
        async move {
            match errors {
                Some(error) => Err(error.into()),
                None => show(session, journals, queue).await,
            }
        }
    });
    let views = join_all(views).await;
    Ok(queues.into_iter().zip(views).collect())
}

/// All workers, sorted by name.
pub async fn workers(session: &Session) -> Result<Vec<WorkerEntry>, QueueError> {
    let term = session.term();
    term.sync(queues::workers().path()).await?;
    let names = children(&term, queues::workers().path()).await?;
    let mut names: Vec<Name> = names.iter().filter_map(|name| Name::new(unquote(name)?).ok()).collect();
    names.sort();
    let znodes: Vec<_> = names.iter().map(|name| queues::worker(name).maybe_damaged()).collect();
    let found = names.into_iter().zip(term.read_many(&znodes).await?);
    let entries = found.filter_map(|(worker, found)| {
        let Worker { queues, serves, paused } = found?.value.sound()?;
        Some(WorkerEntry { worker, partitions: queues, serves, paused })
    });
    Ok(entries.collect())
}

/// Status of one queue; or of its failed messages, which count as handled.
pub async fn show(
    session: &Session,
    journals: &Journals,
    queue: &QueueName,
) -> Result<QueueView, QueueError> {
    let term = session.term();
    let settings = readable_settings(&term, queue).await?;
    let store = journal_of(journals, queue, &settings)?;
    let workers = workers(session).await?;
    let owners: BTreeMap<&PartitionName, &WorkerEntry> = workers
        .iter()
        .flat_map(|entry| entry.partitions.iter().map(move |partition| (partition, entry)))
        .collect();
    let stats = store.stats(&topic(queue)?).await?;
    let (mut partitions, mut without_cursor) = (Vec::new(), Vec::new());
    for number in 1..=settings.partitions {
        let partition = queue.partition(number);
        let stats = stats.iter().find(|stats| stats.partition == u32::from(number));
        let position = match CursorAt::read(&term, &partition).await? {
            Some(cursor) => cursor.position(),
            None if queue.failures_of().is_some() => stats.map_or(MessageId::ZERO, |stats| stats.last),
            None => {
                without_cursor.push(partition);
                continue;
            }
        };
        let read = Read::after(partition_id(&partition)?, position).limit(1);
        let oldest = store.read(read).await?.messages.pop();
        let waited = oldest.as_ref().map(|oldest| Ticks::now().since(oldest.id.0));
        let owner = owners.get(&partition);
        partitions.push(PartitionView {
            owner: owner.map(|entry| entry.worker.clone()),
            owner_paused: owner.is_some_and(|entry| entry.paused),
            cursor: position.seconds(),
            ahead_ms: ahead(position, stats.map_or(MessageId::ZERO, |stats| stats.last), Ticks::now())
                .map(ms),
            messages: stats.map_or(0, |stats| stats.messages),
            // The journal's lag may be a second old; whether anything waits is exact.
            lag: if oldest.is_some() { stats.map_or(1, lag).max(1) } else { 0 },
            oldest_ms: waited.map(ms),
            delayed: stats.map_or(0, |stats| stats.delayed),
            partition,
        });
    }
    let failed = match queue.failed() {
        Some(failed) => store.stats(&topic(&failed)?).await.unwrap_or_default(),
        None => stats,
    };
    Ok(QueueView {
        queue: queue.clone(),
        journal: settings.journal,
        keep: settings.keep,
        paused: paused(&term, queue).await?,
        failed: failed.iter().map(|stats| stats.messages).sum(),
        partitions,
        without_cursor,
    })
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

async fn paused(term: &Term, queue: &QueueName) -> Result<Option<Pause>, CallError> {
    // Somebody may have created the znode by hand.
    let unknown = || Pause { by: "somebody".to_owned(), reason: None };
    let found = term.read(&queues::pause_of_queue(queue).maybe_damaged()).await?;
    Ok(found.map(|found| found.value.sound().unwrap_or_else(unknown)))
}

async fn children(term: &Term, path: &str) -> Result<Vec<String>, CallError> {
    match term.children(path).await {
        Err(CallError::NoZnode { .. }) => Ok(Vec::new()),
        names => names,
    }
}
