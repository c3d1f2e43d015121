//! When a command has to be gone.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// A moment after which nothing of a command may run: nanoseconds of `CLOCK_BOOTTIME`. That clock is the same for all
/// processes of a machine, and goes on while the machine is suspended: a lease does too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline(u64);

impl Deadline {
    /// No deadline: the command may run for as long as it wants.
    pub const NEVER: Self = Self(u64::MAX);

    /// The moment with this number.
    pub fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// This long from now.
    pub fn after(time: Duration) -> Self {
        Self(now().saturating_add(nanos(time)))
    }

    /// Its number.
    pub fn as_nanos(self) -> u64 {
        self.0
    }
}

/// `CLOCK_BOOTTIME` in nanoseconds.
pub(super) fn now() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    let part = |n: i64| u64::try_from(n).unwrap_or(0);
    part(now.tv_sec) * NANOS_PER_SECOND + part(now.tv_nsec)
}

/// A duration in nanoseconds; one too long for that counts as endless.
pub(super) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
