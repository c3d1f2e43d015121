//! Status of queues: are we behind, and do we need more workers?

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::future::join_all;
use menagerie_journal::{Journal, JournalError, MessageId, PartitionStats, Read, Ticks};
use menagerie_kernel::{CallError, Session, Term};
use menagerie_znodes::queues::{self, Handling, Keep, PartitionName, Pause, QueueName, Worker};
use menagerie_znodes::quote::unquote;
use menagerie_znodes::{Name, Znode};
use schemars::JsonSchema;
use serde::Serialize;

use super::failed::FailedMessages;
use super::{journal_of, readable_settings};
use crate::coordination::catalogue;
use crate::coordination::claim::{lag, last_activity, partition_id, topic};
use crate::coordination::cursor::{CursorAt, ahead};
use crate::core::activity::{Activity, Recent, RetryingMessage, RunningMessage};
use crate::error::QueueError;
use crate::journals::{JournalRef, Journals};
use crate::message_uuid::MessageUuid;

/// Failed messages that are looked at to count them per partition: they are in one list.
const FAILED_COUNTED_MAX: u32 = 2_000;

/// A registered worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
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
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct PartitionView {
    pub partition: PartitionName,
    /// The worker that claims to own it.
    pub owner: Option<Name>,
    /// The owner is paused, so nobody handles its messages.
    pub owner_paused: bool,
    /// Who has paused the owner, and why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner_pause: Option<Pause>,
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
    /// Since when it waits, in milliseconds since 1970.
    pub oldest_since_ms: Option<u64>,
    /// Delayed messages not due yet.
    pub delayed: u64,
    /// Failed messages that were here; at least as many, if [`QueueView::failed_uncounted`] is not 0.
    pub failed: u64,
    /// Messages that run, oldest first; not all if there are many.
    pub running: Vec<RunningView>,
    /// How many there are.
    pub running_count: u64,
    /// Messages that have failed and are tried again, the next one first; not all if there are many.
    pub retrying: Vec<RetryingView>,
    /// How many there are.
    pub retrying_count: u64,
    /// How long ago a message last ended here: done, given up or expired. `None` if its owner has seen none.
    pub last_end_ms: Option<u64>,
    /// How long ago its owner said all this; `None` without an owner.
    pub told_ms: Option<u64>,
    /// What came of attempts within the last minute, as its owner says; `None` without an owner.
    pub recent: Option<Recent>,
    /// Messages per second, as its owner says.
    pub rate: Option<Rate>,
}

/// A message that runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RunningView {
    /// Its id.
    pub id: MessageUuid,
    /// Which attempt.
    pub attempt: u32,
    /// For how long.
    pub for_ms: u64,
    /// Since when, in milliseconds since 1970.
    pub since_ms: u64,
    /// Its program was given it 30 s ago or earlier, and has not answered.
    pub silent: bool,
}

/// A message that has failed, and is tried again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RetryingView {
    /// Its id.
    pub id: MessageUuid,
    /// The attempt that comes next.
    pub attempt: u32,
    /// Attempts in total.
    pub attempts: u32,
    /// When it comes.
    pub in_ms: u64,
    /// The same in milliseconds since 1970.
    pub next_ms: u64,
    /// Why the last one failed.
    pub error: String,
}

/// Status of a queue.
#[expect(missing_docs, reason = "queue and partitions name themselves")]
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct QueueView {
    pub queue: QueueName,
    /// The journal that stores its messages.
    pub journal: String,
    /// Retention of handled messages.
    #[serde(rename = "keep_ms")]
    pub keep: Keep,
    /// In which order its messages are handled, and what happens after a failure.
    pub handling: Handling,
    /// The pause, if it is paused.
    pub paused: Option<Pause>,
    /// Failed messages.
    pub failed: u64,
    /// Those of them that no partition counts: only the newest are looked at, and none for a summary or if they cannot be read.
    pub failed_uncounted: u64,
    /// Workers that serve it.
    pub workers: usize,
    pub partitions: Vec<PartitionView>,
    /// Partitions without a cursor, which nobody handles.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
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

    /// Since when the oldest waiting message waits, in milliseconds since 1970.
    pub fn oldest_since_ms(&self) -> Option<u64> {
        self.partitions.iter().filter_map(|partition| partition.oldest_since_ms).min()
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

    /// Messages per second in all partitions; `None` if no owner says.
    pub fn rate(&self) -> Option<Rate> {
        let rates = self.partitions.iter().filter_map(|partition| partition.rate);
        rates
            .reduce(|a, b| Rate { put: a.put.zip(b.put).map(|(a, b)| a + b), handled: a.handled + b.handled })
    }

    /// Messages stored, including handled ones.
    pub fn messages(&self) -> u64 {
        self.partitions.iter().map(|partition| partition.messages).sum()
    }
}

/// Messages per second, over the last minute at most.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "MessageRate")]
pub struct Rate {
    /// Messages put; `None` until its owner has looked twice, a second apart.
    pub put: Option<f64>,
    /// Messages that ended: done, given up or expired.
    pub handled: f64,
}

impl Rate {
    fn of(activity: &Activity) -> Self {
        let Recent { seconds, done, given_up, expired, .. } = activity.recent;
        let handled = (done + given_up + expired) as f64 / seconds.max(1) as f64;
        Self { put: activity.put_per_1000_s.map(|put| put as f64 / 1000.0), handled }
    }
}

/// Names of all queues.
pub async fn list(session: &Session) -> Result<BTreeSet<QueueName>, QueueError> {
    let names = children(&session.term(), queues::all_settings().path()).await?;
    Ok(names.iter().filter_map(|name| unquote(name)?.parse().ok()).collect())
}

/// Status of each of these queues, or why it is unknown, by name. Waits once for a journal that does not answer, not once per
/// queue.
pub async fn of(
    session: &Session,
    journals: &Journals,
    queues: BTreeSet<QueueName>,
) -> Result<Vec<(QueueName, Result<QueueView, QueueError>)>, QueueError> {
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
    // Its sync counts for all that is read below, too.
    let (term, workers) = (session.term(), workers(session).await?);
    let owners = owners(&workers);
    let views = queues.iter().map(|queue| {
        let errors = journal_names.get(queue).and_then(|journal| errors.get(journal)).cloned().flatten();
        let (term, workers, owners) = (&term, &workers, &owners);
        async move {
            match errors {
                Some(error) => Err(error.into()),
                None => synced_summary(term, journals, queue, workers, owners).await,
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

/// Status of one queue; or of its failed messages, which count as handled. Failed messages are counted per partition.
pub async fn show(
    session: &Session,
    journals: &Journals,
    queue: &QueueName,
) -> Result<QueueView, QueueError> {
    let mut view = summary(session, journals, queue).await?;
    if view.failed_uncounted > 0 {
        let messages = FailedMessages::open(session, journals, queue).await?;
        // A number less is no reason to show nothing: some may be damaged.
        let newest = messages.newest_between(MessageId::ZERO, MessageId::MAX, FAILED_COUNTED_MAX).await;
        for one in newest.unwrap_or_default() {
            let origin = messages.origin(&one);
            if let Some(view) = view.partitions.iter_mut().find(|view| view.partition == origin) {
                view.failed += 1;
            }
        }
        let counted: u64 = view.partitions.iter().map(|view| view.failed).sum();
        view.failed_uncounted = view.failed.saturating_sub(counted);
    }
    Ok(view)
}

/// The same without the failed messages of each partition, for which messages must be read.
pub async fn summary(
    session: &Session,
    journals: &Journals,
    queue: &QueueName,
) -> Result<QueueView, QueueError> {
    let workers = workers(session).await?;
    synced_summary(&session.term(), journals, queue, &workers, &owners(&workers)).await
}

/// The worker of each partition that has one.
fn owners(workers: &[WorkerEntry]) -> BTreeMap<&PartitionName, &WorkerEntry> {
    let each = workers.iter();
    each.flat_map(|entry| entry.partitions.iter().map(move |partition| (partition, entry))).collect()
}

/// The summary of a queue, after a sync.
async fn synced_summary(
    term: &Term,
    journals: &Journals,
    queue: &QueueName,
    workers: &[WorkerEntry],
    owners: &BTreeMap<&PartitionName, &WorkerEntry>,
) -> Result<QueueView, QueueError> {
    let settings = readable_settings(term, queue).await?;
    let store = journal_of(journals, queue, &settings)?;
    let stats = store.stats(&topic(queue)?).await?;
    let views = join_all((1..=settings.partitions).map(|number| {
        let partition = queue.partition(number);
        let stats = stats.iter().find(|stats| stats.partition == u32::from(number));
        let owner = owners.get(&partition).copied();
        partition_view(term, &*store, partition, stats, owner)
    }));
    let (mut partitions, mut without_cursor) = (Vec::new(), Vec::new());
    for view in views.await {
        match view? {
            Ok(view) => partitions.push(view),
            Err(partition) => without_cursor.push(partition),
        }
    }
    let failed = match queue.failed() {
        // Nothing has failed yet. Any other error is no reason to say so: whoever deletes the queue relies on it.
        Some(failed) => match store.stats(&topic(&failed)?).await {
            Err(JournalError::NoTopic { .. }) => Vec::new(),
            failed => failed?,
        },
        None => stats,
    };
    let failed: u64 = failed.iter().map(|stats| stats.messages).sum();
    Ok(QueueView {
        queue: queue.clone(),
        journal: settings.journal,
        keep: settings.keep,
        handling: settings.handling,
        paused: pause_at(term, queues::pause_of_queue(queue)).await?,
        failed,
        failed_uncounted: if queue.failed().is_some() { failed } else { 0 },
        workers: workers
            .iter()
            .filter(|entry| entry.serves.as_ref().is_some_and(|of| of.contains(queue)))
            .count(),
        partitions,
        without_cursor,
    })
}

/// Status of one partition; its name if it has no cursor.
async fn partition_view(
    term: &Term,
    store: &dyn Journal,
    partition: PartitionName,
    stats: Option<&PartitionStats>,
    owner: Option<&WorkerEntry>,
) -> Result<Result<PartitionView, PartitionName>, QueueError> {
    let last = stats.map_or(MessageId::ZERO, |stats| stats.last);
    let position = match CursorAt::read_synced(term, &partition).await? {
        Some(cursor) => cursor.position(),
        None if partition.queue().failures_of().is_some() => last,
        None => return Ok(Err(partition)),
    };
    let (waits, oldest) = match store.read(Read::after(partition_id(&partition)?, position).limit(1)).await {
        // Its owner says so in its log; what else there is to show is shown.
        Err(JournalError::Damaged(_)) => (true, None),
        oldest => {
            let oldest = oldest?.messages.pop();
            (oldest.is_some(), oldest)
        }
    };
    let waited = oldest.as_ref().map(|oldest| Ticks::now().since(oldest.id.0));
    let activity = match owner {
        Some(owner) => {
            last_activity(store, &partition).await?.filter(|said| said.worker == owner.worker.as_str())
        }
        None => None,
    };
    let activity = activity.map(|activity| fresh(activity, waits, now_ms()));
    let now = now_ms();
    let running = |of: &RunningMessage| RunningView {
        id: of.id,
        attempt: of.attempt,
        for_ms: now.saturating_sub(of.since_ms),
        since_ms: of.since_ms,
        silent: of.silent,
    };
    let retrying = |of: &RetryingMessage| RetryingView {
        id: of.id,
        attempt: of.attempt,
        attempts: of.attempts,
        in_ms: of.next_ms.saturating_sub(now),
        next_ms: of.next_ms,
        error: of.error.clone(),
    };
    let said = activity.as_ref();
    Ok(Ok(PartitionView {
        owner: owner.map(|entry| entry.worker.clone()),
        owner_paused: owner.is_some_and(|entry| entry.paused),
        owner_pause: match owner.filter(|entry| entry.paused) {
            Some(entry) => pause_at(term, queues::pause_of_worker(&entry.worker)).await?,
            None => None,
        },
        cursor: position.seconds(),
        ahead_ms: ahead(position, last, Ticks::now()).map(ms),
        messages: stats.map_or(0, |stats| stats.messages),
        // The journal's lag may be a second old; whether anything waits is exact.
        lag: if waits { stats.map_or(1, lag).max(1) } else { 0 },
        oldest_ms: waited.map(ms),
        oldest_since_ms: oldest.as_ref().map(|oldest| unix_ms(oldest.id)),
        delayed: stats.map_or(0, |stats| stats.delayed),
        failed: 0,
        running: said.map_or(Vec::new(), |said| said.running.iter().map(running).collect()),
        running_count: said.map_or(0, |said| said.running_count),
        retrying: said.map_or(Vec::new(), |said| said.retrying.iter().map(retrying).collect()),
        retrying_count: said.map_or(0, |said| said.retrying_count),
        last_end_ms: said.and_then(|said| Some(now.saturating_sub(said.last_end_ms?))),
        told_ms: said.map(|said| now.saturating_sub(said.at_ms)),
        recent: said.map(|said| said.recent.clone()),
        rate: said.map(Rate::of),
        partition,
    }))
}

/// An owner that has said nothing for a minute has done nothing in that time: it would have said so. If nothing waits
/// either, nothing was put.
fn fresh(activity: Activity, waits: bool, now_ms: u64) -> Activity {
    match now_ms.saturating_sub(activity.at_ms) {
        0..60_000 => activity,
        _ => Activity { recent: Recent::default(), put_per_1000_s: (!waits).then_some(0), ..activity },
    }
}

fn unix_ms(id: MessageId) -> u64 {
    ms(id.time().duration_since(UNIX_EPOCH).unwrap_or_default())
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    ms(since)
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

async fn pause_at(term: &Term, pause: Znode<Pause>) -> Result<Option<Pause>, CallError> {
    // Somebody may have created the znode by hand.
    let unknown = || Pause { by: "somebody".to_owned(), reason: None };
    let found = term.read(&pause.maybe_damaged()).await?;
    Ok(found.map(|found| found.value.sound().unwrap_or_else(unknown)))
}

async fn children(term: &Term, path: &str) -> Result<Vec<String>, CallError> {
    match term.children(path).await {
        Err(CallError::NoZnode { .. }) => Ok(Vec::new()),
        names => names,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_that_is_silent_for_a_minute_has_done_nothing_since() {
        let told = Activity { at_ms: 1_000, put_per_1000_s: Some(500), ..Activity::default() };
        assert_eq!(fresh(told.clone(), false, 60_999), told);
        assert_eq!(Rate::of(&fresh(told.clone(), false, 61_000)), Rate { put: Some(0.0), handled: 0.0 });
        assert_eq!(fresh(told, true, 61_000).put_per_1000_s, None);
    }
}
