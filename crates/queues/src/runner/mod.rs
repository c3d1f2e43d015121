//! Programs as tasks. `menagerie-programs` runs them; this module knows the protocol for messages.
//!
//! - [`exec`]: one process per message. [`serve`]: a long-running program that is fed messages as JSON lines (`lines`).
//!   [`multiplex`]: the same with many messages at a time. [`python`]: a Python function, called by such a program.

pub mod exec;
mod lines;
pub mod multiplex;
pub mod python;
pub mod serve;

use std::time::Duration;

use menagerie_znodes::queues::PartitionName;
use tracing::error;

pub use lines::Shape;
pub use menagerie_programs::{Limits, Program, User, lease_grace, output};

/// Logs that messages wait for a program that cannot be started.
fn on_delay(partition: &PartitionName) -> impl Fn(&str, Duration) {
    move |why, pause| {
        error!(%partition, pause_s = pause.as_secs(), "the program cannot be started; its message waits: {why}");
    }
}
