//! How queues are doing: are we behind, and do we need more workers?

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures_util::future::join_all;
use menagerie_journal::{JournalError, MessageId, Read, Ticks};
use menagerie_kernel::{CallError, Session, Term};
use menagerie_znodes::Name;
use menagerie_znodes::queues::{self, Keep, PartitionName, Pause, QueueName, Worker};
use menagerie_znodes::quote::unquote;
use serde::Serialize;

use super::{home, readable};
use crate::coordination::catalogue;
use crate::coordination::claim::{behind, partition_id, topic};
use crate::coordination::cursor::{CursorAt, ahead};
use crate::error::QueueError;
use crate::journals::{Home, Journals};

/// A worker that is listed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WorkerEntry {
    /// What it is called.
    pub worker: Name,
    /// What it handles.
    pub partitions: Vec<PartitionName>,
    /// What it would handle; nothing is said by who takes any.
    pub serves: Option<Vec<QueueName>>,
    /// It takes nothing until it is told to.
    pub paused: bool,
}

/// One partition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PartitionView {
    /// Which one.
    pub partition: PartitionName,
    /// Who says that it handles it.
    pub owner: Option<Name>,
    /// That worker takes nothing until it is told to, and nobody else does.
    pub owner_paused: bool,
    /// How far it was processed.
    pub cursor: String,
    /// How far that is ahead of the clock, if it is: nothing is handled before then.
    pub ahead_ms: Option<u64>,
    /// Messages in it, handled ones too.
    pub messages: u64,
    /// Messages that wait.
    pub lag: u64,
    /// How long the oldest of them has waited.
    pub oldest_ms: Option<u64>,
    /// Messages that are not due yet.
    pub delayed: u64,
}

/// A queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct QueueView {
    /// Which one.
    pub queue: QueueName,
    /// The journal that its messages are in.
    pub journal: String,
    /// For how long messages stay that were handled.
    #[serde(rename = "keep_ms")]
    pub keep: Keep,
    /// Why it is paused, if it is.
    pub paused: Option<Pause>,
    /// Messages that were given up.
    pub failed: u64,
    /// All partitions.
    pub partitions: Vec<PartitionView>,
    /// Partitions that should be there and have no cursor: nobody handles what is in them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub without_cursor: Vec<PartitionName>,
}

impl QueueView {
    /// Messages that wait.
    pub fn lag(&self) -> u64 {
        self.partitions.iter().map(|partition| partition.lag).sum()
    }

    /// How long the oldest message has waited.
    pub fn oldest_ms(&self) -> Option<u64> {
        self.partitions.iter().filter_map(|partition| partition.oldest_ms).max()
    }

    /// The partition whose cursor is ahead of the clock, and by how much; the farthest if there are several.
    pub fn ahead(&self) -> Option<(&PartitionName, Duration)> {
        let ahead = |at: &PartitionView| at.ahead_ms;
        let farthest = self.partitions.iter().filter(|at| ahead(at).is_some()).max_by_key(|at| ahead(at))?;
        Some((&farthest.partition, Duration::from_millis(farthest.ahead_ms?)))
    }

    /// Messages that are not due yet.
    pub fn delayed(&self) -> u64 {
        self.partitions.iter().map(|partition| partition.delayed).sum()
    }

    /// Messages in it, handled ones too.
    pub fn messages(&self) -> u64 {
        self.partitions.iter().map(|partition| partition.messages).sum()
    }
}

/// Messages per second, between two looks.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Rate {
    /// That were put.
    pub put: f64,
    /// That were handled.
    pub handled: f64,
}

impl Rate {
    /// What was put and handled from one look to a later one. What was dropped meanwhile counts as neither.
    pub fn between(before: &QueueView, after: &QueueView, time: Duration) -> Self {
        Self::new((before.messages(), before.lag()), (after.messages(), after.lag()), time)
    }

    /// The same for one partition.
    pub fn of_partition(before: &PartitionView, after: &PartitionView, time: Duration) -> Self {
        Self::new((before.messages, before.lag), (after.messages, after.lag), time)
    }

    /// From messages that are there and messages that wait.
    fn new(before: (u64, u64), after: (u64, u64), time: Duration) -> Self {
        let seconds = time.as_secs_f64().max(0.001);
        let put = after.0.saturating_sub(before.0);
        let handled = (before.1 + put).saturating_sub(after.1);
        Self { put: put as f64 / seconds, handled: handled as f64 / seconds }
    }
}

/// All queues, by name.
pub async fn list(session: &Session) -> Result<BTreeSet<QueueName>, QueueError> {
    let names = children(&session.term(), queues::all_settings().path()).await?;
    Ok(names.iter().filter_map(|name| unquote(name)?.parse().ok()).collect())
}

/// All queues, by name, with how each of them is or why that is not known. A journal that does not answer is waited for once,
/// not once for each of its queues.
pub async fn all(
    session: &Session,
    journals: &Journals,
) -> Result<Vec<(QueueName, Result<QueueView, QueueError>)>, QueueError> {
    let queues = list(session).await?;
    let places = catalogue::journals(&session.term(), &queues).await?;
    let names: BTreeSet<&String> = places.values().collect();
    let answers = names.into_iter().map(|name| async move {
        let away = match journals.get(&Home::named(name)) {
            Some(store) => store.usage().await.err(),
            None => None,
        };
        (name, away)
    });
    let away: BTreeMap<&String, Option<JournalError>> = join_all(answers).await.into_iter().collect();
    let views = queues.iter().map(|queue| {
        let away = places.get(queue).and_then(|journal| away.get(journal)).cloned().flatten();
        async move {
            match away {
                Some(error) => Err(error.into()),
                None => show(session, journals, queue).await,
            }
        }
    });
    let views = join_all(views).await;
    Ok(queues.into_iter().zip(views).collect())
}

/// All workers, by name.
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

/// One queue, with all its partitions; or its failed messages, for which nobody waits.
pub async fn show(
    session: &Session,
    journals: &Journals,
    queue: &QueueName,
) -> Result<QueueView, QueueError> {
    let term = session.term();
    let settings = readable(&term, queue).await?;
    let store = home(journals, queue, &settings)?;
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
            // What the journal was told may be a second old; whether anything waits is known exactly.
            lag: if oldest.is_some() { stats.map_or(1, behind).max(1) } else { 0 },
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
    // Whoever made it by hand has said less.
    let unsaid = || Pause { by: "somebody".to_owned(), reason: None };
    let found = term.read(&queues::pause_of_queue(queue).maybe_damaged()).await?;
    Ok(found.map(|found| found.value.sound().unwrap_or_else(unsaid)))
}

async fn children(term: &Term, path: &str) -> Result<Vec<String>, CallError> {
    match term.children(path).await {
        Err(CallError::NoZnode { .. }) => Ok(Vec::new()),
        names => names,
    }
}
