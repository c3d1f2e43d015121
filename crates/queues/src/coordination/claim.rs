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
use menagerie_znodes::Name;
use menagerie_znodes::queues::{self, PartitionName, QueueName};
use serde::{Deserialize, Serialize};
use tracing::{debug, warn};

use super::cursor::CursorAt;
use crate::core::failure::Attempts;
use crate::error::QueueError;
use crate::journals::{self, JournalRef, Journals};
use crate::metrics::Metrics;

/// Consumer name of workers in the journal.
const CONSUMER: &str = "workers";
/// State key of the partition's [`Holder`]. A release removes it; an owner that finds it follows one that did not
/// release.
const HELD: &[u8] = b"held";
/// State key of [`Attempts`].
const ATTEMPTS: &[u8] = b"attempts";

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

/// A partition we own: we hold its lock, have read its cursor, and the journal knows our fence.
pub struct Claimed {
    /// Its name.
    pub partition: PartitionName,
    /// Its lock.
    pub held: LockGuard,
    /// Position of the last message processed.
    pub cursor: CursorAt,
    /// Its messages and our state in the journal.
    pub fenced: FencedJournal,
    /// Attempts of the first message after the cursor.
    pub attempts: Option<Attempts>,
    /// The previous owner, if it did not release.
    pub predecessor: Option<Holder>,
}

/// The owner of a partition, as the journal stores it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// The owner's fence.
    pub fence: String,
    /// How many messages after the cursor may have begun: by the owner, or by one before it that did not release.
    pub window: u32,
}

/// The outcome of a claim.
pub enum Claim {
    /// We own it.
    Ours(Box<Claimed>),
    /// The partition does not exist any more.
    Gone,
}

/// Claims a partition: waits for its lock and its journal, as long as that takes. Cancel safe. `window` is how many
/// messages we may begin without a record.
pub async fn claim(
    session: &Session,
    journals: &Journals,
    worker: &Name,
    partition: &PartitionName,
    window: u32,
    metrics: &Metrics,
) -> Result<Claim, QueueError> {
    let lock = Lock::new(session, queues::lock(partition)).identified_by(worker.as_str());
    let mut written = None;
    loop {
        let held = lock.acquire().await?;
        let lost = held.lost();
        tokio::select! {
            // We lost the lock: contend again.
            loss = lost => debug!(%partition, ?loss, "lost before it was opened"),
            opened = open(held, journals, partition, window, metrics, &mut written) => match opened {
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
    window: u32,
    metrics: &Metrics,
    written: &mut Option<OwnClaim>,
) -> Result<Claim, QueueError> {
    let term = held.term().patient();
    let Some(cursor) = CursorAt::read(&term, partition).await? else {
        release_missing(held, partition);
        return Ok(Claim::Gone);
    };
    let queue = partition.queue();
    let target = match term.read(&queues::settings(queue)).await? {
        Some(settings) => journals::journal_ref(&settings.value),
        None => JournalRef::named(""),
    };
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
    let state = |key: &[u8]| opened.state.iter().find(|(found, _)| found == key).map(|(_, value)| value);
    let attempts = state(ATTEMPTS).and_then(|value| serde_json::from_slice(value).ok());
    let found = state(HELD).map(|holder| {
        // If it cannot be read, assume an owner with our own window.
        serde_json::from_slice(holder).unwrap_or(Holder { fence: String::new(), window })
    });
    let predecessor = match written.take() {
        // It was our own earlier try, under which nothing has begun.
        Some(ours) if found.as_ref().is_some_and(|found| found.fence == ours.fence) => ours.predecessor,
        _ => found,
    };
    let fence = fence.to_string();
    *written = Some(OwnClaim { fence: fence.clone(), predecessor: predecessor.clone() });
    // Our predecessor's messages stay suspect until they are done, even if we vanish before that.
    let window = predecessor.as_ref().map_or(window, |before| before.window.max(window));
    let holder = serde_json::to_vec(&Holder { fence, window }).expect("text and a number can be written");
    retry_journal(partition, || fenced.write(HELD, Some(holder.clone()))).await?;
    let partition = partition.clone();
    Ok(Claim::Ours(Box::new(Claimed { partition, held, cursor, fenced, attempts, predecessor })))
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
    async fn write(&self, key: &[u8], value: Option<Vec<u8>>) -> Result<(), JournalError> {
        let commit = Commit { states: vec![self.state(key, value)], ..Commit::default() };
        self.commit(commit).await
    }

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

    /// The state write for these attempts.
    pub fn attempts(&self, attempts: &Attempts) -> StateWrite {
        let value = serde_json::to_vec(attempts).expect("numbers can be written");
        self.state(ATTEMPTS, Some(value))
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
    async fn close(&self, position: MessageId, handover: Handover) -> Result<(), JournalError> {
        let held = (!handover.suspect).then(|| self.state(HELD, None));
        let states = held.into_iter().chain(handover.begun.map(|begun| self.attempts(&begun))).collect();
        let moves = self.position(position).into_iter().collect();
        self.commit(Commit { states, moves, ..Commit::default() }).await
    }
}

/// What the next owner must know of a released partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Handover {
    /// Set if more has begun than is recorded.
    pub begun: Option<Attempts>,
    /// An owner before us did not release, and not everything that it may have begun is done.
    pub suspect: bool,
}

/// Releases a partition. Nothing may run any more, and everything done, through `position`, must be recorded.
pub async fn release(
    held: LockGuard,
    fenced: &FencedJournal,
    position: MessageId,
    handover: Handover,
) -> Result<(), QueueError> {
    // Do not hold the lock for a journal that is down: the next owner is then careful without need, no worse.
    if let Ok(Err(error)) = tokio::time::timeout(JOURNAL_PAUSE_MAX, fenced.close(position, handover)).await {
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
