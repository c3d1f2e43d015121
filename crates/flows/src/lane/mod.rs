//! The work on one partition of a task: read, do, commit; until its inputs are drained.
//!
//! - this file: what every lane has, and how it goes on after an error. `reading.rs`: partitions of links.
//!   `writing.rs`: batches for links. `commits.rs`: commits in flight. `input.rs`, `transform.rs`, `aggregate.rs`,
//!   `output.rs`: the lanes of each type of task.
//!
//! # Promises
//! - A commit has outputs, positions and state together, and names the position that it begins at. So it happens once,
//!   also if its answer is lost, and none of several in flight leaves a hole.
//! - After any error a lane opens its partitions again, and goes on from what is committed.
//! - A lane whose fence is old changes nothing, and stops.

mod aggregate;
mod commits;
mod input;
mod output;
mod reading;
mod transform;
mod writing;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use menagerie_journal::{Fence, Journal, JournalError, Opened, PartitionId};
use menagerie_kernel::whole;
use menagerie_znodes::flows::TaskRecord;
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tracing::{debug, warn};

pub use output::parts;

use crate::core::JobId;
use crate::job::{CatalogEntry, Function};
use crate::links::{Links, consumer};
use crate::segments::Malformed;

/// Back-off for a journal that is away.
pub const RETRY_PAUSE: Duration = Duration::from_millis(50);
pub const RETRY_PAUSE_MAX: Duration = Duration::from_secs(5);

/// Where the links into a task end, by the task that writes them; those that are not sealed yet are missing.
pub type KnownEnds = BTreeMap<u32, Arc<[u64]>>;

/// A task, as its lanes see it.
#[derive(Clone)]
pub struct Task {
    /// Where its links are.
    pub journal: Arc<dyn Journal>,
    /// Their names.
    pub topics: Links,
    /// Its job.
    pub job: JobId,
    /// Its number.
    pub number: u32,
    /// How it is connected.
    pub record: TaskRecord,
    /// What it does.
    pub entry: CatalogEntry,
    /// Partitions of the links out of it, by the task that reads them.
    pub after: BTreeMap<u32, u32>,
    /// Where the links into it end.
    pub ends: watch::Receiver<KnownEnds>,
}

/// How a lane ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LaneEnd {
    /// Its partition is drained, and all of that is committed.
    Drained,
    /// Somebody else has the partition, or the job is over.
    Superseded,
    /// The job cannot be done.
    Failed(String),
}

/// Why a lane stops before its end.
#[derive(Debug)]
enum LaneError {
    Journal(JournalError),
    Failed(String),
}

impl From<JournalError> for LaneError {
    fn from(error: JournalError) -> Self {
        Self::Journal(error)
    }
}

impl From<Malformed> for LaneError {
    fn from(error: Malformed) -> Self {
        Self::Failed(error.to_string())
    }
}

/// One partition of a task, under the fence of a share.
#[derive(Clone)]
struct Lane {
    task: Task,
    partition: u32,
    fence: Fence,
}

/// Works on one partition of a task until it is drained.
pub async fn run(task: Task, partition: u32, fence: Fence) -> LaneEnd {
    let lane = Lane { task, partition, fence };
    let mut pause = RETRY_PAUSE;
    loop {
        let begun = Instant::now();
        let attempt = match &lane.task.entry.function {
            Function::JsonlInput { .. } => input::run(&lane).await,
            Function::Identity | Function::Group { .. } => transform::run(&lane).await,
            Function::Count => aggregate::run(&lane).await,
            Function::JsonlOutput { path } => output::run(&lane, path).await,
        };
        let error = match attempt {
            Ok(()) => return LaneEnd::Drained,
            Err(LaneError::Failed(why)) => {
                return LaneEnd::Failed(format!("task {:?}: {why}", lane.task.record.name.as_str()));
            }
            Err(LaneError::Journal(error)) => error,
        };
        let task = lane.task.record.name.as_str();
        match after(&error) {
            After::Stop => {
                debug!(task, partition, error = %whole(&error), "somebody else has the partition");
                return LaneEnd::Superseded;
            }
            After::Reopen => debug!(task, partition, error = %whole(&error), "opening the partition again"),
            After::Wait => {
                warn!(task, partition, error = %whole(&error), "the journal does not answer; trying again");
                // It may have worked well for a long time since the last error.
                if begun.elapsed() > RETRY_PAUSE_MAX {
                    pause = RETRY_PAUSE;
                }
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(RETRY_PAUSE_MAX);
            }
            After::Fail => return LaneEnd::Failed(format!("task {task:?}: {}", whole(&error))),
        }
    }
}

/// What a lane does after an error of the journal.
#[derive(Debug, PartialEq, Eq)]
pub enum After {
    /// Somebody else has the partition, or the job is over.
    Stop,
    /// Go on from what is committed.
    Reopen,
    /// The same, a little later.
    Wait,
    /// The job cannot be done.
    Fail,
}

/// What to do after an error of the journal.
pub fn after(error: &JournalError) -> After {
    use JournalError as E;
    match error {
        E::Fenced { .. } | E::NoTopic { .. } | E::NoPartition { .. } => After::Stop,
        // A commit before this one was refused or has landed late.
        E::Moved { .. } | E::Backwards { .. } => After::Reopen,
        E::Unknown(_) | E::NotOpen { .. } | E::Ahead { .. } => After::Wait,
        E::Quota { .. } | E::DiskFull | E::OutOfFiles | E::Unreachable { .. } | E::Closed => After::Wait,
        E::NoMessage { .. } | E::Groups { .. } | E::TooLarge { .. } | E::Invalid(_) => After::Fail,
        E::Damaged(_) | E::Denied(_) | E::Protocol(_) => After::Fail,
    }
}

impl Lane {
    async fn open(&self, partition: &PartitionId) -> Result<Opened, JournalError> {
        self.task.journal.open(partition, &consumer(), self.fence).await
    }
}

/// The record of this key that was stored with a partition's position.
fn stored_mark<T: DeserializeOwned + Default>(opened: &Opened, key: &[u8]) -> Result<T, LaneError> {
    match opened.state.iter().find(|(stored, _)| stored == key) {
        Some((_, mark)) => serde_json::from_slice(mark)
            .map_err(|error| LaneError::Failed(format!("a mark is damaged: {error}"))),
        None => Ok(T::default()),
    }
}

/// Does something that blocks.
async fn on_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, LaneError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done.map_err(LaneError::Failed),
        Err(error) => Err(LaneError::Failed(error.to_string())),
    }
}
