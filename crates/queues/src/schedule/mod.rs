//! Messages that are put periodically, each time exactly once.
//!
//! Every process that lives with queues stands for election; the elected one puts what is due. How far a schedule has
//! come is a state record of the consumer `schedules` in partition 1 of the queue's topic. One commit appends the message
//! and writes the record, under the election's fence: so a deposed leader's commit is refused, and after a lost reply the
//! record tells.
//!
//! - [`cron`]: which times a line means. [`core`]: which of them are due. `clock`: whether the host's clock can be
//!   trusted. `patience`: when the elected process makes way for another.
//! - `leader`: the election. `queue_loop`: the schedules of one queue. `outlet`: its consumer in the journal. `message`:
//!   the message of a schedule. `host_clock`: the clock that the loops share.

mod clock;
pub mod core;
pub mod cron;
mod host_clock;
mod leader;
pub(crate) mod message;
pub(crate) mod outlet;
mod patience;
mod queue_loop;

use std::time::{SystemTime, UNIX_EPOCH};

pub use cron::{Calendar, ScheduleError};
pub use leader::{run, run_by};

/// The clock, in whole seconds.
pub fn now() -> i64 {
    seconds(SystemTime::now())
}

/// A time in whole seconds since 1970.
fn seconds(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}
