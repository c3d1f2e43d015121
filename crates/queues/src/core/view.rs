//! Snapshots of a worker.

use menagerie_znodes::Name;
use menagerie_znodes::queues::PartitionName;
use serde::Serialize;

/// Counts since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Stats {
    /// Messages handled.
    pub done: u64,
    /// Attempts that failed and will be repeated.
    pub retried: u64,
    /// Messages given up.
    pub given_up: u64,
    /// Messages that expired before their turn came.
    pub expired: u64,
    /// Attempts stopped.
    pub stopped: u64,
    /// Records confirmed.
    pub records: u64,
    /// Partitions claimed.
    pub taken: u64,
    /// Partitions released.
    pub released: u64,
    /// Partitions lost.
    pub lost: u64,
}

/// A message being handled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RunningView {
    /// Its id.
    pub message: String,
    /// Which attempt.
    pub attempt: u32,
    /// For how long, in ms.
    pub for_ms: u64,
}

/// A partition of the worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LaneView {
    /// Its name.
    pub partition: PartitionName,
    /// Our fence.
    pub fence: String,
    /// Last message recorded.
    pub recorded: String,
    /// Last message done.
    pub done: String,
    /// Messages read ahead.
    pub cached: usize,
    /// Messages being handled.
    pub running: Vec<RunningView>,
    /// Whether it waits for the next attempt.
    pub backing_off: bool,
    /// Why the next messages cannot be read; the partition waits until they are skipped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub damaged: Option<String>,
}

/// Snapshot of a worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WorkerView {
    /// Its name.
    pub worker: Name,
    /// Epoch of the assignment it follows.
    pub epoch: u64,
    /// Whether it is paused.
    pub paused: bool,
    /// Partitions it is claiming.
    pub waiting_for: Vec<PartitionName>,
    /// Partitions it owns.
    pub partitions: Vec<LaneView>,
    /// Counts since the start.
    pub stats: Stats,
}
