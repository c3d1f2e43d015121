//! Waiting for another process or thread.

use std::thread;
use std::time::{Duration, Instant};

/// How long any wait may take before the test fails: far more than a loaded machine needs, so that a missed deadline
/// means a bug and not a slow day.
pub const DEADLINE: Duration = Duration::from_secs(120);

/// How often to poll a condition: short compared with anything a test waits for, long compared with the cost of a
/// poll.
const INTERVAL: Duration = Duration::from_millis(5);

/// Polls `condition` until it returns a value.
///
/// # Panics
/// After [`DEADLINE`], naming `what` was awaited.
#[track_caller]
pub fn eventually<T>(what: &str, condition: impl FnMut() -> Option<T>) -> T {
    eventually_within(DEADLINE, what, condition)
}

/// The same for conditions that take long by design.
///
/// # Panics
/// After `patience`, naming `what` was awaited.
#[track_caller]
pub fn eventually_within<T>(patience: Duration, what: &str, condition: impl FnMut() -> Option<T>) -> T {
    match poll(patience, condition) {
        Some(value) => value,
        None => panic!("waited {patience:?} in vain: {what}"),
    }
}

/// The same as [`eventually`] for async tests: the runtime goes on meanwhile, so it works on one thread, too. A
/// hanging poll ends with the deadline.
///
/// # Panics
/// After [`DEADLINE`], naming `what` was awaited.
pub async fn eventually_async<T>(what: &str, mut condition: impl AsyncFnMut() -> Option<T>) -> T {
    let found = async {
        loop {
            if let Some(value) = condition().await {
                return value;
            }
            tokio::time::sleep(INTERVAL).await;
        }
    };
    match tokio::time::timeout(DEADLINE, found).await {
        Ok(value) => value,
        Err(_) => panic!("waited {DEADLINE:?} in vain: {what}"),
    }
}

/// Polls `condition` until it returns a value or the time is up.
pub(crate) fn poll<T>(patience: Duration, mut condition: impl FnMut() -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + patience;
    loop {
        if let Some(value) = condition() {
            return Some(value);
        }
        if Instant::now() >= deadline {
            return None;
        }
        thread::sleep(INTERVAL);
    }
}
