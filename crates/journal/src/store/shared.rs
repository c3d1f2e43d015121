//! What the store's loops and its callers share.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use tokio::sync::{Notify, Semaphore};

use super::config::Config;
use super::error::StoreError;
use super::files::Files;
use super::flush::Flushed;
use super::metrics::Metrics;
use crate::core::decide::{Answer, Wish};
use crate::core::state::{Spot, State};
use crate::error::JournalError;

/// Bytes of wishes that may wait for the log. Who wants more waits.
pub(crate) const QUEUE_BYTES: usize = 32 << 20;
/// What a wish counts at least: so also the number of small ones is bounded.
const WISH_BYTES: usize = 256;
/// What each part of a commit counts, besides its bytes.
const PART_BYTES: usize = 64;

/// Called with what came of a wish.
pub(crate) type Tell = Box<dyn FnOnce(Result<Answer, JournalError>) + Send>;

/// Called when a checkpoint has ended.
pub(crate) type Asked = Box<dyn FnOnce(Result<(), StoreError>) + Send>;

/// A wish that waits.
pub(crate) struct Waiting {
    pub(crate) wish: Wish,
    /// What it counts in the queue.
    pub(crate) bytes: usize,
    pub(crate) tell: Tell,
}

/// What the log loop has to do.
#[derive(Default)]
pub(crate) struct Queue {
    pub(crate) wishes: VecDeque<Waiting>,
    /// A flush has ended.
    pub(crate) flushed: Option<Result<Done, StoreError>>,
    /// Somebody wants everything in segments, and to be told.
    pub(crate) checkpoints: Vec<Asked>,
    pub(crate) stopping: bool,
    /// Everybody has gone without closing it.
    pub(crate) abandoned: bool,
    /// Nothing will happen any more.
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

/// The store, for all who use it.
pub(crate) struct Shared {
    pub(crate) config: Config,
    state: RwLock<State>,
    queue: Mutex<Queue>,
    wake: Condvar,
    /// Room in the queue, in bytes.
    pub(crate) room: Semaphore,
    pub(crate) files: Files,
    waiters: Mutex<HashMap<Spot, Arc<Notify>>>,
    pub(crate) metrics: Metrics,
    /// Bytes of the log that no snapshot has, as last seen by its loop.
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

    // A loop that panics ends the journal; what it left is still what is durable.
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets go of the queue until there is something to do, or for so long.
    pub(crate) fn wait<'a>(
        &self,
        queue: MutexGuard<'a, Queue>,
        patience: std::time::Duration,
    ) -> MutexGuard<'a, Queue> {
        self.wake.wait_timeout(queue, patience).unwrap_or_else(PoisonError::into_inner).0
    }

    /// The log loop has something to do.
    pub(crate) fn wake(&self) {
        self.wake.notify_one();
    }

    /// Puts a wish into the queue, for which room was taken.
    pub(crate) fn enqueue(&self, wish: Wish, bytes: usize, tell: Tell) {
        let mut queue = self.queue();
        if queue.closed || queue.stopping {
            drop(queue);
            self.room.add_permits(bytes);
            return tell(Err(JournalError::Closed));
        }
        queue.wishes.push_back(Waiting { wish, bytes, tell });
        drop(queue);
        self.wake();
    }

    /// Where to wait for messages of a partition.
    pub(crate) fn waiter(&self, spot: Spot) -> Arc<Notify> {
        self.waiters.lock().unwrap_or_else(PoisonError::into_inner).entry(spot).or_default().clone()
    }

    /// Wakes who waits for messages of these partitions.
    pub(crate) fn notify(&self, touched: &[Spot]) {
        let waiters = self.waiters.lock().unwrap_or_else(PoisonError::into_inner);
        if waiters.is_empty() {
            return;
        }
        for spot in touched {
            if let Some(waiter) = waiters.get(spot) {
                waiter.notify_waiters();
            }
        }
    }

    /// Wakes everybody: topics are gone, or the journal is. Where nobody waits, no place to wait is kept.
    pub(crate) fn notify_all(&self) {
        let mut waiters = self.waiters.lock().unwrap_or_else(PoisonError::into_inner);
        waiters.retain(|_, waiter| {
            waiter.notify_waiters();
            Arc::strong_count(waiter) > 1
        });
    }
}

/// What a wish counts in the queue.
pub(crate) fn size(wish: &Wish) -> usize {
    let bytes = match wish {
        Wish::Commit(commit) => {
            let appends = commit.appends.iter().map(|append| &append.message);
            let edits = commit.edits.iter().filter_map(crate::core::edit::message);
            let messages = appends.chain(edits).map(|message| message.meta.len() + message.body.len());
            let states = commit.states.iter().map(|state| state.value.as_ref().map_or(0, bytes::Bytes::len));
            messages.chain(states).sum::<usize>() + commit.parts() * PART_BYTES
        }
        Wish::Open { .. }
        | Wish::Trim { .. }
        | Wish::Create { .. }
        | Wish::Alter { .. }
        | Wish::Delete { .. } => 0,
        Wish::Mature { .. } | Wish::Forget { .. } | Wish::Drop(_) => 0,
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
        let waits = shared.waiter((1, 1));
        (2..100).for_each(|number| drop(shared.waiter((1, number))));
        bench.wish(Wish::Delete { topic: Topic::new("mail").unwrap() });
        let kept: Vec<Spot> = shared.waiters.lock().unwrap().keys().copied().collect();
        assert_eq!(kept, [(1, 1)], "somebody waits there");
        drop(waits);
    }
}
