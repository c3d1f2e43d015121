//! Room on the disk: appends are refused while there is still enough of it to free some.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use tracing::{info, warn};

/// How often the free space is refreshed,
const REFRESH_INTERVAL: Duration = Duration::from_millis(100);
/// or after how many written bytes.
const REFRESH_BYTES: u64 = 4 << 20;

/// The free space of the disk, as last seen.
pub(crate) struct Space {
    path: PathBuf,
    reserve: u64,
    looked: Option<Instant>,
    written: u64,
    short: bool,
}

impl Space {
    pub(crate) fn new(path: PathBuf, reserve: u64) -> Self {
        Self { path, reserve, looked: None, written: 0, short: false }
    }

    /// Reads the free space, unless that was done just now.
    pub(crate) fn refresh(&mut self) {
        let fresh =
            self.looked.is_some_and(|at| at.elapsed() < REFRESH_INTERVAL) && self.written < REFRESH_BYTES;
        if fresh || self.reserve == 0 {
            return;
        }
        (self.looked, self.written) = (Some(Instant::now()), 0);
        // If the file system does not report it, only a failed write shows that it is full.
        let Ok(found) = rustix::fs::statvfs(&self.path) else { return };
        let free = found.f_bavail.saturating_mul(found.f_frsize);
        let short = free < self.reserve;
        if short && !self.short {
            warn!(free, reserve = self.reserve, "the disk is nearly full: appends are refused");
        }
        if !short && self.short {
            info!(free, "there is room on the disk again");
        }
        self.short = short;
    }

    pub(crate) fn wrote(&mut self, bytes: u64) {
        self.written += bytes;
    }

    /// Whether the free space is below the reserve.
    pub(crate) fn is_short(&self) -> bool {
        self.short
    }
}
