//! What a worker is to do: its partitions, and what is paused.

use std::collections::BTreeSet;

use menagerie_kernel::Session;
use menagerie_kernel::recipes::tree_cache::{TreeCache, TreeCacheError};
use menagerie_znodes::queues::{self, Assignment, PartitionName, QueueName};
use menagerie_znodes::{Name, Payload as _, PayloadError};
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
}

impl Orders {
    /// Begins to follow, and waits until it knows.
    pub async fn follow(session: &Session, worker: &Name) -> Result<Self, TreeCacheError> {
        let assignment = TreeCache::start(session, &queues::assignment());
        let pauses = TreeCache::start(session, &queues::pauses());
        assignment.ready().await?;
        pauses.ready().await?;
        Ok(Self { worker: worker.clone(), assignment, pauses })
    }

    /// What the worker is to handle; nothing, if nobody says so.
    ///
    /// # Errors
    /// What is said cannot be read.
    pub fn ordered(&self) -> Result<Option<Ordered>, PayloadError> {
        let Some((data, _)) = self.assignment.get(queues::assignment().path()) else { return Ok(None) };
        let assignment = Assignment::decode(&data)?;
        let partitions = assignment.workers.get(&self.worker).into_iter().flatten().cloned().collect();
        Ok(Some(Ordered { epoch: assignment.epoch, partitions }))
    }

    /// Whether nobody is to take messages of this queue.
    pub fn queue_paused(&self, queue: &QueueName) -> bool {
        self.pauses.get(queues::pause_of_queue(queue).path()).is_some()
    }

    /// Whether this worker is to take none at all.
    pub fn worker_paused(&self) -> bool {
        self.pauses.get(queues::pause_of_worker(&self.worker).path()).is_some()
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
