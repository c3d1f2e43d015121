//! What the store's loops and its callers share.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use tokio::sync::{Notify, Semaphore};

use super::config::Config;
use super::error::StoreError;
use super::files::Files;
use super::flush::Flushed;
use super::metrics::Metrics;
use crate::core::decide::{Answer, Proposal};
use crate::core::state::{PartitionKey, State};
use crate::error::JournalError;

/// Bytes of proposals that may wait for the log; beyond that, callers wait.
pub(crate) const QUEUE_BYTES: usize = 32 << 20;
/// The least size that a proposal counts with, which bounds the number of small ones.
const WISH_BYTES: usize = 256;
/// What each part of a commit counts besides its bytes.
const PART_BYTES: usize = 64;

/// Called with the answer to a proposal.
pub(crate) type OnAnswer = Box<dyn FnOnce(Result<Answer, JournalError>) + Send>;

/// Called when a checkpoint has ended.
pub(crate) type OnCheckpoint = Box<dyn FnOnce(Result<(), StoreError>) + Send>;

/// A queued proposal.
pub(crate) struct Waiting {
    pub(crate) proposal: Proposal,
    /// Its size in the queue.
    pub(crate) bytes: usize,
    pub(crate) tell: OnAnswer,
}

/// The log loop's work.
#[derive(Default)]
pub(crate) struct Queue {
    pub(crate) proposals: VecDeque<Waiting>,
    /// A flush has ended.
    pub(crate) flushed: Option<Result<Done, StoreError>>,
    /// Requested checkpoints.
    pub(crate) checkpoints: Vec<OnCheckpoint>,
    pub(crate) stopping: bool,
    /// All handles were dropped without closing the journal.
    pub(crate) abandoned: bool,
    /// The loop has ended.
    pub(crate) closed: bool,
}

/// A flush that is durable.
pub(crate) struct Done {
    pub(crate) flushed: Flushed,
    pub(crate) sequence: u64,
    pub(crate) steady: u64,
    pub(crate) ids: Vec<(u64, u64)>,
    pub(crate) segments: std::collections::BTreeSet<super::segment::Name>,
}

/// The store's shared state.
pub(crate) struct Shared {
    pub(crate) config: Config,
    state: RwLock<State>,
    queue: Mutex<Queue>,
    wake: Condvar,
    /// Room in the queue, in bytes.
    pub(crate) room: Semaphore,
    pub(crate) files: Files,
    waiters: Mutex<HashMap<PartitionKey, Arc<Notify>>>,
    pub(crate) metrics: Metrics,
    /// Bytes of the log that no snapshot covers, as last seen by its loop.
    pub(crate) log_bytes: std::sync::atomic::AtomicU64,
}

impl Shared {
    pub(crate) fn new(config: Config, state: State, files: Files, metrics: Metrics) -> Self {
        Self {
            config,
            state: RwLock::new(state),
            queue: Mutex::default(),
            wake: Condvar::new(),
            room: Semaphore::new(QUEUE_BYTES),
            files,
            waiters: Mutex::default(),
            metrics,
            log_bytes: std::sync::atomic::AtomicU64::new(0),
        }
    }

    // A panic of the loop ends the journal; the state that it leaves is still the durable one.
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Unlocks the queue until there is work, or until the time-out.
    pub(crate) fn wait<'a>(
        &self,
        queue: MutexGuard<'a, Queue>,
        patience: std::time::Duration,
    ) -> MutexGuard<'a, Queue> {
        self.wake.wait_timeout(queue, patience).unwrap_or_else(PoisonError::into_inner).0
    }

    /// Wakes the log loop.
    pub(crate) fn wake(&self) {
        self.wake.notify_one();
    }

    /// Enqueues a proposal for which room was taken.
    pub(crate) fn enqueue(&self, proposal: Proposal, bytes: usize, tell: OnAnswer) {
        let mut queue = self.queue();
        if queue.closed || queue.stopping {
            drop(queue);
            self.room.add_permits(bytes);
            return tell(Err(JournalError::Closed));
        }
        queue.proposals.push_back(Waiting { proposal, bytes, tell });
        drop(queue);
        self.wake();
    }

    /// The notifier for messages of a partition.
    pub(crate) fn waiter(&self, partition_key: PartitionKey) -> Arc<Notify> {
        self.waiters.lock().unwrap_or_else(PoisonError::into_inner).entry(partition_key).or_default().clone()
    }

    /// Wakes readers that wait for messages of these partitions.
    pub(crate) fn notify(&self, touched: &[PartitionKey]) {
        let waiters = self.waiters.lock().unwrap_or_else(PoisonError::into_inner);
        if waiters.is_empty() {
            return;
        }
        for partition_key in touched {
            if let Some(waiter) = waiters.get(partition_key) {
                waiter.notify_waiters();
            }
        }
    }

    /// Wakes all readers: topics were deleted, or the journal has ended. Drops notifiers without waiters.
    pub(crate) fn notify_all(&self) {
        let mut waiters = self.waiters.lock().unwrap_or_else(PoisonError::into_inner);
        waiters.retain(|_, waiter| {
            waiter.notify_waiters();
            Arc::strong_count(waiter) > 1
        });
    }
}

/// A proposal's size in the queue.
pub(crate) fn size(proposal: &Proposal) -> usize {
    let bytes = match proposal {
        Proposal::Commit(commit) => {
            let appends = commit.appends.iter().map(|append| &append.message);
            let edits = commit.edits.iter().filter_map(crate::core::edit::message);
            let messages = appends.chain(edits).map(|message| message.meta.len() + message.body.len());
            let states = commit.states.iter().map(|state| state.value.as_ref().map_or(0, bytes::Bytes::len));
            messages.chain(states).sum::<usize>() + commit.parts() * PART_BYTES
        }
        Proposal::Open { .. }
        | Proposal::Trim { .. }
        | Proposal::Create { .. }
        | Proposal::Alter { .. }
        | Proposal::Delete { .. } => 0,
        Proposal::Mature { .. } | Proposal::Forget { .. } | Proposal::Drop(_) => 0,
    };
    (bytes + WISH_BYTES).min(QUEUE_BYTES)
}

#[cfg(test)]
mod tests {
    use super::super::bench::Bench;
    use super::*;
    use crate::topic::Topic;

    #[test]
    fn where_to_wait_for_a_deleted_topic_is_forgotten() {
        let mut bench = Bench::new(16 << 20);
        let shared = bench.log_loop.shared.clone();
        let waits = shared.waiter(PartitionKey::new(1, 1));
        (2..100).for_each(|number| drop(shared.waiter(PartitionKey::new(1, number))));
        bench.propose(Proposal::Delete { topic: Topic::new("mail").unwrap() });
        let kept: Vec<PartitionKey> = shared.waiters.lock().unwrap().keys().copied().collect();
        assert_eq!(kept, [PartitionKey::new(1, 1)], "somebody waits there");
        drop(waits);
    }
}
