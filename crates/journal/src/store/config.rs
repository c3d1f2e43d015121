//! What the operator chooses.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::id::Ticks;

/// How a journal is to keep its data.
#[derive(Debug, Clone)]
pub struct Config {
    /// The data folder; made if it does not exist.
    pub data: PathBuf,
    /// Longest message, meta data included.
    pub message_bytes_max: u32,
    /// Appends are refused when segments, and what of the log they do not have, are so large.
    pub quota_bytes: Option<u64>,
    /// Appends are refused when the disk has less room than this left: it is for what makes room, which needs some itself.
    pub reserve_bytes: u64,
    /// Messages are moved from memory and log to segments when there are so many bytes of them. Up to three times as much
    /// may be in memory.
    pub flush_bytes: u64,
    /// A segment is full at this length.
    pub segment_bytes: u64,
    /// Length of a segment of the log.
    pub log_segment_bytes: u64,
    /// At the latest after so long, messages are moved to segments, so that retention can drop them.
    pub checkpoint_interval: Duration,
    /// At most so many messages of a partition may have been replaced.
    pub edits_max: usize,
    /// At most so many messages may be delayed.
    pub delayed_max: usize,
    /// What time it is.
    pub clock: Clock,
}

impl Config {
    /// A journal in a folder; the rest as most want it.
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

/// The wall clock, or what a test takes for one.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Ticks + Send + Sync>);

impl Clock {
    /// A clock that somebody else moves.
    pub fn new(now: impl Fn() -> Ticks + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// What time it is.
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
