//! Taking a partition and giving it back.

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
use crate::journals::{self, Home, Journals};
use crate::metrics::Metrics;

/// Under this name workers have their state in the journal.
const CONSUMER: &str = "workers";
/// Its state: who has the partition, as a [`Holder`]. Removed by who gives it back; who finds it follows somebody who did not.
const HELD: &[u8] = b"held";
/// Its state: [`Attempts`].
const ATTEMPTS: &[u8] = b"attempts";

/// Pauses between attempts to reach a journal that is down. It may be away for an upgrade: nobody leaves for that.
const JOURNAL_PAUSE: Duration = Duration::from_millis(100);
const JOURNAL_PAUSE_MAX: Duration = Duration::from_secs(5);

/// Between looks for a partition that is not there.
const GONE_PAUSE: Duration = Duration::from_secs(1);

/// The topic that holds a queue's messages.
pub fn topic(queue: &QueueName) -> Result<Topic, QueueError> {
    let name = queue.to_string();
    Topic::new(&name).map_err(|source| QueueError::Topic { name, source })
}

/// The same partition, as journals call it.
pub fn partition_id(partition: &PartitionName) -> Result<PartitionId, QueueError> {
    Ok(PartitionId::new(topic(partition.queue())?, u32::from(partition.number())))
}

/// Messages of a partition that wait, as far as its journal was told.
pub(crate) fn behind(stats: &PartitionStats) -> u64 {
    let ours = stats.consumers.iter().find(|consumer| consumer.consumer.as_str() == CONSUMER);
    ours.map_or(stats.messages, |consumer| consumer.lag)
}

/// A partition that is ours: its lock is held, its cursor read, and the journal knows our fence.
pub struct Claimed {
    /// Which one.
    pub partition: PartitionName,
    /// By this.
    pub held: LockGuard,
    /// How far it was processed.
    pub cursor: CursorAt,
    /// Where its messages are.
    pub books: Books,
    /// How often its first message was tried.
    pub attempts: Option<Attempts>,
    /// Who had it before us and did not give it back.
    pub follows: Option<Holder>,
}

/// Who has a partition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// By its fence.
    pub fence: String,
    /// So many messages behind the cursor it may have begun, or somebody before it who did not give it back.
    pub window: u32,
}

/// What came of a claim.
pub enum Claim {
    /// It is ours.
    Ours(Box<Claimed>),
    /// There is no such partition any more.
    Gone,
}

/// Takes a partition: waits for its lock, as long as that takes, and for its journal. Dropped, it leaves nothing behind.
/// `window`: as many messages we may have begun without a record.
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
            // It was ours and is not any more: contend again.
            loss = lost => debug!(%partition, ?loss, "lost before it was opened"),
            opened = open(held, journals, partition, window, metrics, &mut written) => match opened {
                Err(error) if error.ends_term() => {}
                // Somebody has opened it with a newer fence, so the lock is or will be another's.
                Err(error) if error.remedy() == menagerie_kernel::Remedy::Reacquire => {
                    warn!(%partition, error = %whole(&error), "the journal knows a newer owner");
                    tokio::time::sleep(JOURNAL_PAUSE_MAX).await;
                }
                outcome => return outcome,
            },
        }
    }
}

/// What we have written while we tried: our fence, and whom it follows.
struct Written {
    fence: String,
    follows: Option<Holder>,
}

async fn open(
    held: LockGuard,
    journals: &Journals,
    partition: &PartitionName,
    window: u32,
    metrics: &Metrics,
    written: &mut Option<Written>,
) -> Result<Claim, QueueError> {
    let term = held.term().patient();
    let Some(cursor) = CursorAt::read(&term, partition).await? else {
        forget(held, partition);
        return Ok(Claim::Gone);
    };
    let queue = partition.queue();
    let home = match term.read(&queues::settings(queue)).await? {
        Some(settings) => journals::home(&settings.value),
        None => Home::named(""),
    };
    let journal = journals
        .get(&home)
        .ok_or_else(|| QueueError::NoJournal { queue: queue.clone(), journal: home.journal.clone() })?;
    let fence = held.fence();
    let consumer = Consumer::new(CONSUMER).expect("it is a name");
    let mut books = Books {
        journal,
        partition: partition_id(partition)?,
        consumer,
        fence,
        known: MessageId::ZERO,
        metrics: metrics.clone(),
    };
    let opened =
        patiently(partition, || books.journal.open(&books.partition, &books.consumer, fence)).await?;
    books.known = opened.position;
    let state = |key: &[u8]| opened.state.iter().find(|(found, _)| found == key).map(|(_, value)| value);
    let attempts = state(ATTEMPTS).and_then(|value| serde_json::from_slice(value).ok());
    let found = state(HELD).map(|holder| {
        // Whoever wrote something else is taken for somebody like us.
        serde_json::from_slice(holder).unwrap_or(Holder { fence: String::new(), window })
    });
    let follows = match written.take() {
        // It was lost before anything could begin.
        Some(ours) if found.as_ref().is_some_and(|found| found.fence == ours.fence) => ours.follows,
        _ => found,
    };
    let fence = fence.to_string();
    *written = Some(Written { fence: fence.clone(), follows: follows.clone() });
    // If we vanish before all is done that the one before us may have begun, it still may have been begun.
    let window = follows.as_ref().map_or(window, |before| before.window.max(window));
    let holder = serde_json::to_vec(&Holder { fence, window }).expect("text and a number can be written");
    patiently(partition, || books.write(HELD, Some(holder.clone()))).await?;
    let partition = partition.clone();
    Ok(Claim::Ours(Box::new(Claimed { partition, held, cursor, books, attempts, follows })))
}

/// Releases the lock of a partition that does not exist, and removes the directory that contending for it has made again,
/// unless somebody else contends: who is the last finds the same. Whoever contends for one that is made anew while we do so
/// makes the directory once more; an empty one that a crash leaves is in nobody's way.
fn forget(held: LockGuard, partition: &PartitionName) {
    let (term, lock) = (held.term().patient(), queues::lock(partition));
    held.term().clone().in_background(async move {
        let _ = held.release().await;
        match retry::delete(&term, lock.path()).await {
            Ok(()) | Err(CallError::NotEmpty { .. }) => {}
            Err(error) => debug!(path = lock.path(), %error, "the directory of a lock is left"),
        }
    });
}

/// Waits until a partition that does not exist may have been made, without contending for it.
pub async fn made(session: &Session, partition: &PartitionName) {
    let cursor = queues::cursor(partition);
    loop {
        // Not a watch for existence: it would stay with the server for ever.
        tokio::time::sleep(GONE_PAUSE).await;
        match session.term().stat(cursor.path()).await {
            Ok(None) => {}
            Ok(Some(_)) | Err(_) => return,
        }
    }
}

/// Asks a journal until it answers.
pub(crate) async fn patiently<T, F: Future<Output = Result<T, JournalError>>>(
    partition: &PartitionName,
    mut ask: impl FnMut() -> F,
) -> Result<T, JournalError> {
    let mut pause = JOURNAL_PAUSE;
    loop {
        match ask().await {
            // Opening again with the same fence, and writing the same again, changes nothing.
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

/// What a partition's owner keeps in the journal, under its fence.
#[derive(Clone)]
pub struct Books {
    /// Which journal.
    pub journal: Arc<dyn Journal>,
    /// Which partition.
    pub partition: PartitionId,
    consumer: Consumer,
    /// With which it was opened.
    pub fence: Fence,
    /// How far the journal knew us to have come when it was opened.
    pub known: MessageId,
    metrics: Metrics,
}

impl Books {
    async fn write(&self, key: &[u8], value: Option<Vec<u8>>) -> Result<(), JournalError> {
        let commit = Commit { states: vec![self.state(key, value)], ..Commit::default() };
        self.commit(commit).await
    }

    /// Reads messages.
    pub async fn read(&self, read: Read) -> Result<Batch, JournalError> {
        let began = Instant::now();
        let batch = self.journal.read(read).await?;
        if let Some(first) = batch.messages.first() {
            self.metrics.read(began.elapsed(), first.id, Ticks::now());
        }
        Ok(batch)
    }

    /// Stores something.
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

    /// That a message was tried so often, as part of a commit.
    pub fn attempts(&self, attempts: &Attempts) -> StateWrite {
        let value = serde_json::to_vec(attempts).expect("numbers can be written");
        self.state(ATTEMPTS, Some(value))
    }

    /// That all up to here is done, as part of a commit. Nothing, if the journal has been told more: somebody has set the
    /// cursor back since, and the journal's positions do not go back.
    pub fn position(&self, position: MessageId) -> Option<Move> {
        let (partition, consumer) = (self.partition.clone(), self.consumer.clone());
        (position >= self.known).then_some(Move { partition, consumer, fence: self.fence, position })
    }

    /// Says in the journal that the partition is given back: whoever takes it next suspects no more than it is told.
    async fn close(&self, position: MessageId, parting: Parting) -> Result<(), JournalError> {
        let held = (!parting.suspect).then(|| self.state(HELD, None));
        let states = held.into_iter().chain(parting.begun.map(|begun| self.attempts(&begun))).collect();
        let moves = self.position(position).into_iter().collect();
        self.commit(Commit { states, moves, ..Commit::default() }).await
    }
}

/// What the next owner must know of a partition that is given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Parting {
    /// More was begun than is recorded.
    pub begun: Option<Attempts>,
    /// Somebody before us did not give it back, and not all that may have been begun then is done.
    pub suspect: bool,
}

/// Gives a partition back. Nothing may run any more, and what is done, all up to `position`, must be recorded.
pub async fn release(
    held: LockGuard,
    books: &Books,
    position: MessageId,
    parting: Parting,
) -> Result<(), QueueError> {
    // If the journal is away, the next owner is careful without need; the lock must not wait for that.
    if let Ok(Err(error)) = tokio::time::timeout(JOURNAL_PAUSE_MAX, books.close(position, parting)).await {
        debug!(partition = %books.partition, %error, "given back without a word in the journal");
    }
    Ok(held.release().await?)
}

/// Waits until somebody has removed our ticket, or the session is over. Not for the lease clock: that is the same for all
/// partitions, and one who looks at it is enough; see [`lapsed`].
pub async fn removed(grant: Grant) {
    let term = grant.term().patient();
    loop {
        // Not a watch for existence: on a znode that is gone it would stay with the server for ever.
        match term.get_watched(grant.ticket()).await {
            Ok((_, _, watch)) => {
                if watch.changed().await == Change::Ended {
                    return;
                }
            }
            Err(error) if error.is_no_znode() || error.ends_term() => return,
            // The lease clock will tell.
            Err(_) => std::future::pending().await,
        }
    }
}

/// Waits until what is held in a term may be another's, and tells which term that is. `None`: there is no session any more.
pub async fn lapsed(session: &Session) -> Option<u64> {
    let lapsed = session.across_terms(|term| async move {
        term.trusted().await?;
        term.lapsed().await;
        Ok::<_, CallError>(term.number())
    });
    lapsed.await.ok()
}
