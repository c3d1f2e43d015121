//! Programs that handle messages: `menagerie-programs` runs them; here is what they are asked about messages.
//!
//! - [`exec`]: a process for each message. [`serve`]: a program that is fed one message after the other as lines of JSON
//!   (`lines`); [`python`]: a Python function, by a program that is fed so.

pub mod exec;
mod lines;
pub mod python;
pub mod serve;

use std::time::Duration;

use menagerie_znodes::queues::PartitionName;
use tracing::error;

pub use lines::Shape;
pub use menagerie_programs::{Limits, Program, User, lease_grace, output};

/// Says that messages wait for a program.
fn on_delay(partition: &PartitionName) -> impl Fn(&str, Duration) {
    move |why, pause| {
        error!(%partition, pause_s = pause.as_secs(), "the program cannot be started; its message waits: {why}");
    }
}
