//! The time of day: now, and how long ago.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub use menagerie_types::moment::utc;

/// Now, in milliseconds since 1970.
pub fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// Time since then; zero if the server's clock is ahead of ours.
pub fn since(ms: i64) -> Duration {
    Duration::from_millis(u64::try_from(now_ms().saturating_sub(ms)).unwrap_or(0))
}
