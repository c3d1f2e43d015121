//! Claiming and releasing a partition.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use menagerie_journal::{
    Batch, Commit, Consumer, Fence, Journal, JournalError, MessageId, Move, PartitionId, PartitionStats,
    Read, Remedy, StateWrite, Ticks, Topic,
};
use menagerie_kernel::recipes::grant::Grant;
use menagerie_kernel::recipes::lock::{Lock, LockGuard};
use menagerie_kernel::session::Change;
use menagerie_kernel::{CallError, Session, retry, whole};
use menagerie_znodes::queues::{self, PartitionName, QueueName};
use tracing::{debug, warn};

use super::cursor::{self, CursorAt};
use super::state;
use crate::core::activity::Activity;
use crate::core::lane::{Handover, Holder, Lane, Ownership};
use crate::core::options::Options;
use crate::core::tally::Attempts;
use crate::error::QueueError;
use crate::journals::{self, JournalRef, Journals};
use crate::metrics::Metrics;

/// Consumer name of workers in the journal.
const CONSUMER: &str = "workers";
/// Back-off for a journal that is down, perhaps for an upgrade: owners wait for it.
const JOURNAL_PAUSE: Duration = Duration::from_millis(100);
const JOURNAL_PAUSE_MAX: Duration = Duration::from_secs(5);

/// How often to look whether a missing partition was created.
const MISSING_POLL: Duration = Duration::from_secs(1);

/// The topic of a queue's messages.
pub fn topic(queue: &QueueName) -> Result<Topic, QueueError> {
    let name = queue.to_string();
    Topic::new(&name).map_err(|source| QueueError::Topic { name, source })
}

/// The partition's id in journals.
pub fn partition_id(partition: &PartitionName) -> Result<PartitionId, QueueError> {
    Ok(PartitionId::new(topic(partition.queue())?, u32::from(partition.number())))
}

/// Messages waiting in a partition, as far as its journal knows.
pub(crate) fn lag(stats: &PartitionStats) -> u64 {
    let ours = stats.consumers.iter().find(|consumer| consumer.consumer.as_str() == CONSUMER);
    ours.map_or(stats.messages, |consumer| consumer.lag)
}

/// What the owner of a partition was doing when it last said so.
pub(crate) async fn last_activity(
    journal: &dyn Journal,
    partition: &PartitionName,
) -> Result<Option<Activity>, QueueError> {
    let consumer = Consumer::new(CONSUMER).expect("it is a name");
    let found = journal.consumer(&partition_id(partition)?, &consumer).await?;
    Ok(found.and_then(|found| state::activity(&found.state)))
}

/// A partition we own: we hold its lock, have read its cursor, and the journal knows our fence.
pub struct Claimed {
    /// What that means to its worker.
    pub ownership: Ownership,
    /// Its lock.
    pub held: LockGuard,
    /// Its cursor.
    pub cursor: CursorAt,
    /// Its messages and our state in the journal.
    pub fenced: FencedJournal,
}

/// The outcome of a claim.
pub enum Claim {
    /// We own it.
    Ours(Box<Claimed>),
    /// The partition does not exist any more.
    Gone,
}

/// Claims a partition: waits for its lock and its journal, as long as that takes. Cancel safe.
pub async fn claim(
    session: &Session,
    journals: &Journals,
    partition: &PartitionName,
    options: &Options,
    metrics: &Metrics,
) -> Result<Claim, QueueError> {
    let lock = Lock::new(session, queues::lock(partition)).identified_by(options.name.as_str());
    let mut written = None;
    loop {
        let held = lock.acquire().await?;
        let lost = held.lost();
        tokio::select! {
            // We lost the lock: contend again.
            loss = lost => debug!(%partition, ?loss, "lost before it was opened"),
            opened = open(held, journals, partition, options, metrics, &mut written) => match opened {
                Err(error) if error.ends_term() => {}
                // Somebody opened it with a newer fence, so we have lost the lock or soon will.
                Err(error) if error.remedy() == menagerie_kernel::Remedy::Reacquire => {
                    warn!(%partition, error = %whole(&error), "the journal knows a newer owner");
                    tokio::time::sleep(JOURNAL_PAUSE_MAX).await;
                }
                outcome => return outcome,
            },
        }
    }
}

/// What we wrote in an earlier try: our fence, and the owner before us.
struct OwnClaim {
    fence: String,
    predecessor: Option<Holder>,
}

async fn open(
    held: LockGuard,
    journals: &Journals,
    partition: &PartitionName,
    options: &Options,
    metrics: &Metrics,
    written: &mut Option<OwnClaim>,
) -> Result<Claim, QueueError> {
    let term = held.term().patient();
    let Some(cursor) = CursorAt::read(&term, partition).await? else {
        release_missing(held, partition);
        return Ok(Claim::Gone);
    };
    let queue = partition.queue();
    let settings = term.read(&queues::settings(queue)).await?.map(|settings| settings.value);
    let target = settings.as_ref().map_or_else(|| JournalRef::named(""), journals::journal_ref);
    let handling = settings.map(|settings| settings.handling).unwrap_or_default();
    let beyond = cursor::beyond(&term, &cursor, Lane::has_gaps(&handling)).await?;
    let journal = journals
        .get(&target)
        .ok_or_else(|| QueueError::NoJournal { queue: queue.clone(), journal: target.journal.clone() })?;
    let fence = held.fence();
    let consumer = Consumer::new(CONSUMER).expect("it is a name");
    let mut fenced = FencedJournal {
        journal,
        partition: partition_id(partition)?,
        consumer,
        fence,
        known: MessageId::ZERO,
        metrics: metrics.clone(),
    };
    let opened =
        retry_journal(partition, || fenced.journal.open(&fenced.partition, &fenced.consumer, fence)).await?;
    fenced.known = opened.position;
    let found = state::holder(&opened.state).map(|found| {
        // If it cannot be read, assume an owner with our own options.
        found.unwrap_or_else(|| Holder {
            fence: String::new(),
            ..Holder::new(fence, None, handling.order, options)
        })
    });
    let predecessor = match written.take() {
        // It was our own earlier try, under which nothing has begun.
        Some(ours) if found.as_ref().is_some_and(|found| found.fence == ours.fence) => ours.predecessor,
        _ => found,
    };
    *written = Some(OwnClaim { fence: fence.to_string(), predecessor: predecessor.clone() });
    let holder = Holder::new(fence, predecessor.as_ref(), handling.order, options);
    let write = Commit { states: vec![fenced.holder(Some(&holder))], ..Commit::default() };
    retry_journal(partition, || fenced.commit(write.clone())).await?;
    let ownership = Ownership {
        partition: partition.clone(),
        fence,
        term: held.term().number(),
        cursor: cursor.position(),
        beyond,
        attempts: state::attempts(&opened.state),
        predecessor,
        reported: opened.position,
        handling,
    };
    Ok(Claim::Ours(Box::new(Claimed { ownership, held, cursor, fenced })))
}

/// Releases the lock of a partition that does not exist, and removes the directory that contending for it created,
/// unless others contend: the last of them removes it. A contender for a recreated partition creates the directory
/// again; an empty one left by a crash does no harm.
fn release_missing(held: LockGuard, partition: &PartitionName) {
    let (term, lock) = (held.term().patient(), queues::lock(partition));
    held.term().clone().in_background(async move {
        let _ = held.release().await;
        match retry::delete(&term, lock.path()).await {
            Ok(()) | Err(CallError::NotEmpty { .. }) => {}
            Err(error) => debug!(path = lock.path(), %error, "directory of a lock left behind"),
        }
    });
}

/// Waits until a missing partition may exist, without contending for it.
pub async fn wait_until_created(session: &Session, partition: &PartitionName) {
    let cursor = queues::cursor(partition);
    loop {
        // Poll rather than watch: an existence watch would stay on the server for ever.
        tokio::time::sleep(MISSING_POLL).await;
        match session.term().stat(cursor.path()).await {
            Ok(None) => {}
            Ok(Some(_)) | Err(_) => return,
        }
    }
}

/// Calls a journal until it answers, with back-off. The call must be idempotent.
pub(crate) async fn retry_journal<T, F: Future<Output = Result<T, JournalError>>>(
    partition: &PartitionName,
    mut ask: impl FnMut() -> F,
) -> Result<T, JournalError> {
    let mut pause = JOURNAL_PAUSE;
    loop {
        match ask().await {
            // Idempotent: opening again with the same fence, or writing the same state again, changes nothing.
            Err(error) if error.remedy() == Remedy::Retry || matches!(error, JournalError::Unknown(_)) => {
                if pause == JOURNAL_PAUSE {
                    warn!(%partition, %error, "the journal does not answer; waiting for it");
                }
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(JOURNAL_PAUSE_MAX);
            }
            outcome => return outcome,
        }
    }
}

/// A partition in its journal, as its owner sees it: all writes carry the owner's fence.
#[derive(Clone)]
pub struct FencedJournal {
    /// The journal.
    pub journal: Arc<dyn Journal>,
    /// The partition's id there.
    pub partition: PartitionId,
    consumer: Consumer,
    /// The owner's fence.
    pub fence: Fence,
    /// The position that the journal knew when we opened it.
    pub known: MessageId,
    metrics: Metrics,
}

impl FencedJournal {
    /// Reads messages, timed.
    pub async fn read(&self, read: Read) -> Result<Batch, JournalError> {
        let began = Instant::now();
        let batch = self.journal.read(read).await?;
        if let Some(first) = batch.messages.first() {
            self.metrics.read(began.elapsed(), first.id, Ticks::now());
        }
        Ok(batch)
    }

    /// Commits, timed.
    pub async fn commit(&self, commit: Commit) -> Result<(), JournalError> {
        let began = Instant::now();
        let committed = self.journal.commit(commit).await.map(drop);
        self.metrics.commit(began.elapsed());
        committed
    }

    fn state(&self, key: &[u8], value: Option<Vec<u8>>) -> StateWrite {
        StateWrite {
            partition: self.partition.clone(),
            consumer: self.consumer.clone(),
            fence: self.fence,
            key: Bytes::copy_from_slice(key),
            value: value.map(Bytes::from),
        }
    }

    /// The state write for these attempts of a message; `None` drops them.
    pub fn attempts(&self, message: MessageId, attempts: Option<&Attempts>) -> StateWrite {
        self.state(&state::key(message), attempts.map(state::encode))
    }

    /// The state write for what its owner is doing.
    pub fn activity(&self, activity: &Activity) -> StateWrite {
        self.state(state::NOW, Some(state::encode(activity)))
    }

    /// The state write for the partition's owner.
    fn holder(&self, holder: Option<&Holder>) -> StateWrite {
        self.state(state::HELD, holder.map(state::encode))
    }

    /// The move to this position. `None` if the journal knows a later one: somebody has set the cursor back since, and
    /// positions in the journal only advance.
    pub fn position(&self, position: MessageId) -> Option<Move> {
        let (partition, consumer) = (self.partition.clone(), self.consumer.clone());
        (position >= self.known).then_some(Move {
            partition,
            consumer,
            fence: self.fence,
            from: None,
            position,
        })
    }

    /// Records the release in the journal, so that the next owner is no more careful than it must be.
    async fn close(&self, handover: &Handover) -> Result<(), JournalError> {
        let Handover { position, begun, begun_through, settled, suspect } = handover;
        let mut states = vec![
            self.holder(suspect.as_ref()),
            self.state(state::NOW, None),
            self.state(state::BEGUN, begun_through.as_ref().map(state::encode)),
        ];
        states.extend(settled.iter().map(|message| self.attempts(*message, None)));
        states.extend(begun.iter().map(|(message, attempts)| self.attempts(*message, Some(attempts))));
        let moves = self.position(*position).into_iter().collect();
        self.commit(Commit { states, moves, ..Commit::default() }).await
    }
}

/// Releases a partition. Nothing may run any more, and everything done must be recorded.
pub async fn release(held: LockGuard, fenced: &FencedJournal, handover: Handover) -> Result<(), QueueError> {
    // Do not hold the lock for a journal that is down: the next owner is then careful without need, no worse.
    if let Ok(Err(error)) = tokio::time::timeout(JOURNAL_PAUSE_MAX, fenced.close(&handover)).await {
        debug!(partition = %fenced.partition, %error, "released without a note in the journal");
    }
    Ok(held.release().await?)
}

/// Waits until somebody removes our ticket, or the session is over. Does not watch the lease, which is the same for all
/// partitions; see [`wait_until_lapsed`].
pub async fn wait_until_removed(grant: Grant) {
    let term = grant.term().patient();
    loop {
        // Not an existence watch: on a missing znode it would stay on the server for ever.
        match term.get_watched(grant.ticket()).await {
            Ok((_, _, watch)) => {
                if watch.changed().await == Change::Ended {
                    return;
                }
            }
            Err(error) if error.is_no_znode() || error.ends_term() => return,
            // The lease watch will notice.
            Err(_) => std::future::pending().await,
        }
    }
}

/// Waits until the lease of a term has lapsed, and returns the term's number. `None` if the session is closed.
pub async fn wait_until_lapsed(session: &Session) -> Option<u64> {
    let lapsed = session.across_terms(|term| async move {
        term.trusted().await?;
        term.lapsed().await;
        Ok::<_, CallError>(term.number())
    });
    lapsed.await.ok()
}
