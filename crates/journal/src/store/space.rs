//! Room on the disk: appends are refused while there is still enough of it to get rid of something.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use tracing::{info, warn};

/// The disk is looked at again after this.
const LOOK_TIME: Duration = Duration::from_millis(100);
/// Or when so much was written since.
const LOOK_BYTES: u64 = 4 << 20;

/// How much room the disk has, as last seen.
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

    /// Looks at the disk, unless it was looked at just now.
    pub(crate) fn look(&mut self) {
        let fresh = self.looked.is_some_and(|at| at.elapsed() < LOOK_TIME) && self.written < LOOK_BYTES;
        if fresh || self.reserve == 0 {
            return;
        }
        (self.looked, self.written) = (Some(Instant::now()), 0);
        // A file system that does not tell is full when it says so.
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

    /// Whether what is left is needed for other things than appends.
    pub(crate) fn is_short(&self) -> bool {
        self.short
    }
}
