//! The consumer's side of a job request queue: takes requests, one lock each, and finishes each in one transaction.
//!
//! - A request is worked on by whoever holds its lock. Finishing puts the result, sets the request completed and
//!   releases the lock together, so a result is put once, and nobody sees a completed request without its result.
//! - A merge is idempotent, so mergers take over what a dead merger has left. A build is not: executors take only what
//!   nobody has begun, and the scheduler decides about builds whose executor is gone.
//! - A merger that cannot do a request, through a fault of its own machine, gives it back without an answer and leaves it
//!   alone for a while, each time longer; so another merger can do it.
//! - Sessions may expire and connections break at any time: what was in flight then loses its lock and is dropped, and the
//!   consumer goes on with the next session.
//!
//! # Layout
//! [`Consumer`] finds and takes requests; a [`Claim`] is one that was taken, and ends with its [`Answer`]. `aside.rs`:
//! pauses of requests that failed here. `unreadable.rs`: what to answer to damaged ones.

mod aside;
mod claim;
mod consumer;
mod unreadable;

use std::time::{SystemTime, UNIX_EPOCH};

pub use claim::{Answer, Claim};
pub use consumer::{Consumer, Handling};

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
