//! What a worker shows of itself.

use menagerie_znodes::Name;
use menagerie_znodes::queues::PartitionName;
use serde::Serialize;

/// Counts since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Stats {
    /// Messages that are done.
    pub done: u64,
    /// Attempts that failed and are made again.
    pub retried: u64,
    /// Messages that were given up.
    pub given_up: u64,
    /// Messages whose time to live was over before their turn came.
    pub expired: u64,
    /// Attempts that were stopped.
    pub stopped: u64,
    /// Records that were confirmed.
    pub records: u64,
    /// Partitions that were taken.
    pub taken: u64,
    /// Partitions that were given back.
    pub released: u64,
    /// Partitions that were lost.
    pub lost: u64,
}

/// One partition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LaneView {
    /// Which one.
    pub partition: PartitionName,
    /// Our fence.
    pub fence: String,
    /// All up to here is recorded.
    pub recorded: String,
    /// All up to here is done.
    pub done: String,
    /// Messages that were read and wait.
    pub cached: usize,
    /// Messages that are being handled.
    pub running: Vec<String>,
    /// It waits for the next attempt.
    pub backing_off: bool,
    /// What comes next cannot be read, for this reason: it waits until that is passed over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub damaged: Option<String>,
}

/// A worker, at a moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WorkerView {
    /// What it is called.
    pub worker: Name,
    /// The assignment that it obeys.
    pub epoch: u64,
    /// It takes nothing until it is told to.
    pub paused: bool,
    /// Partitions that it waits for.
    pub waiting_for: Vec<PartitionName>,
    /// Partitions that it has.
    pub partitions: Vec<LaneView>,
    /// Counts since the start.
    pub stats: Stats,
}
