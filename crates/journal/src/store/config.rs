//! Configuration of a store.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::id::Ticks;

/// Configuration of a store.
#[derive(Debug, Clone)]
pub struct Config {
    /// The data folder; created if it does not exist.
    pub data: PathBuf,
    /// Longest message, meta data included.
    pub message_bytes_max: u32,
    /// Refuse appends when segments, and the part of the log that is not in them, exceed this size.
    pub quota_bytes: Option<u64>,
    /// Refuse appends when the disk has less free room than this: freeing room needs some itself.
    pub reserve_bytes: u64,
    /// Move messages from memory and log to segments when they exceed this size. Up to three times as much may be in
    /// memory.
    pub flush_bytes: u64,
    /// A segment is full at this length.
    pub segment_bytes: u64,
    /// Length of a segment of the log.
    pub log_segment_bytes: u64,
    /// Move messages to segments at least this often, so that retention can drop them.
    pub checkpoint_interval: Duration,
    /// Most replaced messages of a partition.
    pub edits_max: usize,
    /// Most delayed messages.
    pub delayed_max: usize,
    /// The current time.
    pub clock: Clock,
}

impl Config {
    /// A store in this folder, with default settings.
    pub fn new(data: PathBuf) -> Self {
        Self {
            data,
            message_bytes_max: 16 << 20,
            quota_bytes: None,
            reserve_bytes: 64 << 20,
            flush_bytes: 16 << 20,
            segment_bytes: 64 << 20,
            log_segment_bytes: 32 << 20,
            checkpoint_interval: Duration::from_secs(600),
            edits_max: 100_000,
            delayed_max: 1_000_000,
            clock: Clock::default(),
        }
    }
}

/// The wall clock, or a test's substitute.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Ticks + Send + Sync>);

impl Clock {
    /// A clock that a test controls.
    pub fn new(now: impl Fn() -> Ticks + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// The current time.
    pub fn now(&self) -> Ticks {
        (self.0)()
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new(Ticks::now)
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}
