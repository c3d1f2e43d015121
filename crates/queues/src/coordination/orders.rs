//! What a worker is to do: its partitions, what is paused, and for how long queues keep what was handled.

use std::collections::BTreeSet;

use menagerie_kernel::recipes::tree_cache::{TreeCache, TreeCacheError};
use menagerie_kernel::{CallError, Session};
use menagerie_znodes::Name;
use menagerie_znodes::queues::{self, Keep, PartitionName, QueueName};
use tokio::sync::watch;

/// What is true now for one worker. It may be a little old: the locks guard.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ordered {
    /// Which assignment it is.
    pub epoch: u64,
    /// What it is to handle.
    pub partitions: BTreeSet<PartitionName>,
}

/// Follows what is ordered.
#[derive(Debug, Clone)]
pub struct Orders {
    worker: Name,
    assignment: TreeCache,
    pauses: TreeCache,
    settings: TreeCache,
}

impl Orders {
    /// Begins to follow, and waits until it knows.
    pub async fn follow(session: &Session, worker: &Name) -> Result<Self, TreeCacheError> {
        let assignment = TreeCache::start(session, &queues::assignment());
        let pauses = TreeCache::start(session, &queues::pauses());
        let settings = TreeCache::start(session, &queues::all_settings());
        for cache in [&assignment, &pauses, &settings] {
            cache.ready().await?;
        }
        Ok(Self { worker: worker.clone(), assignment, pauses, settings })
    }

    /// What the worker is to handle; nothing, if nobody says so.
    ///
    /// # Errors
    /// What is said cannot be read.
    pub fn ordered(&self) -> Result<Option<Ordered>, CallError> {
        let Some(found) = self.assignment.read(&queues::assignment())? else { return Ok(None) };
        let assignment = found.value;
        let partitions = assignment.workers.get(&self.worker).into_iter().flatten().cloned().collect();
        Ok(Some(Ordered { epoch: assignment.epoch, partitions }))
    }

    /// Whether nobody is to take messages of this queue.
    pub fn queue_paused(&self, queue: &QueueName) -> bool {
        self.pauses.contains(&queues::pause_of_queue(queue))
    }

    /// Whether this worker is to take none at all.
    pub fn worker_paused(&self) -> bool {
        self.pauses.contains(&queues::pause_of_worker(&self.worker))
    }

    /// For how long a queue keeps what was handled; nothing, if nobody says or it cannot be read.
    pub fn keep(&self, queue: &QueueName) -> Option<Keep> {
        Some(self.settings.read(&queues::settings(queue)).ok()??.value.keep)
    }

    /// Rises whenever the assignment changes.
    pub fn assignments(&self) -> watch::Receiver<u64> {
        self.assignment.subscribe()
    }

    /// Rises whenever something is paused or goes on.
    pub fn pauses(&self) -> watch::Receiver<u64> {
        self.pauses.subscribe()
    }
}
