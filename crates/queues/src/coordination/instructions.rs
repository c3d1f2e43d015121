//! What a worker must do: its assigned partitions, pauses, and retention of handled messages.

use std::collections::BTreeSet;

use menagerie_journal::{Topic, TopicConfig};
use menagerie_kernel::recipes::tree_cache::{TreeCache, TreeCacheError};
use menagerie_kernel::{CallError, Session};
use menagerie_znodes::Name;
use menagerie_znodes::queues::{self, Keep, PartitionName, QueueName, Settings};
use tokio::sync::watch;

use crate::core::machine::Instructed;
use crate::story;

/// A worker's part of the assignment. May be slightly stale: the locks keep us safe.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AssignedPartitions {
    /// Epoch of the assignment.
    pub epoch: u64,
    /// Partitions to claim.
    pub partitions: BTreeSet<PartitionName>,
}

/// Caches assignment, pauses and settings for one worker.
#[derive(Debug, Clone)]
pub struct Instructions {
    worker: Name,
    assignment: TreeCache,
    pauses: TreeCache,
    settings: TreeCache,
}

impl Instructions {
    /// Starts the caches, and waits until they are filled.
    pub async fn follow(session: &Session, worker: &Name) -> Result<Self, TreeCacheError> {
        let assignment = TreeCache::start(session, &queues::assignment());
        let pauses = TreeCache::start(session, &queues::pauses());
        let settings = TreeCache::start(session, &queues::all_settings());
        for cache in [&assignment, &pauses, &settings] {
            cache.ready().await?;
        }
        Ok(Self { worker: worker.clone(), assignment, pauses, settings })
    }

    /// The worker's partitions; `None` if there is no assignment.
    ///
    /// # Errors
    /// The assignment cannot be decoded.
    pub fn assigned(&self) -> Result<Option<AssignedPartitions>, CallError> {
        let Some(found) = self.assignment.read(&queues::assignment())? else { return Ok(None) };
        let assignment = found.value;
        let partitions = assignment.workers.get(&self.worker).into_iter().flatten().cloned().collect();
        Ok(Some(AssignedPartitions { epoch: assignment.epoch, partitions }))
    }

    /// Pauses and settings that concern a worker of these queues.
    pub fn instructed(&self, queues: &[QueueName]) -> Instructed {
        let is_paused = |queue: &&QueueName| self.pauses.contains(&queues::pause_of_queue(queue));
        let handling = |queue: &QueueName| Some((queue.clone(), self.settings(queue)?.handling));
        Instructed {
            is_paused: self.pauses.contains(&queues::pause_of_worker(&self.worker)),
            paused_queues: queues.iter().filter(is_paused).cloned().collect(),
            handling: queues.iter().filter_map(handling).collect(),
        }
    }

    /// Retention of a queue's handled messages; `None` if its settings are missing or damaged.
    pub fn keep(&self, queue: &QueueName) -> Option<Keep> {
        Some(self.settings(queue)?.keep)
    }

    /// How the topic of a queue's stories should be; `None` if there is no such queue.
    pub(crate) fn story_config(&self, topic: &Topic) -> Option<TopicConfig> {
        Some(story::config(&self.settings(&story::queue_of(topic)?)?))
    }

    fn settings(&self, queue: &QueueName) -> Option<Settings> {
        Some(self.settings.read(&queues::settings(queue)).ok()??.value)
    }

    /// Tells of all changes from now on.
    pub fn listen(&self) -> Listener {
        Listener {
            assignment: self.assignment.subscribe(),
            pauses: self.pauses.subscribe(),
            settings: self.settings.subscribe(),
        }
    }
}

/// What has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum News {
    /// The assignment.
    Assigned,
    /// A pause, or the settings of a queue.
    Instructed,
}

/// Tells of changes of the instructions.
#[derive(Debug)]
pub struct Listener {
    assignment: watch::Receiver<u64>,
    pauses: watch::Receiver<u64>,
    settings: watch::Receiver<u64>,
}

impl Listener {
    /// Waits for a change since the last time.
    pub async fn next(&mut self) -> News {
        tokio::select! {
            Ok(()) = self.assignment.changed() => News::Assigned,
            Ok(()) = self.pauses.changed() => News::Instructed,
            Ok(()) = self.settings.changed() => News::Instructed,
            // The session is closed, and its caches with it.
            else => std::future::pending().await,
        }
    }
}
