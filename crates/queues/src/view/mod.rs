//! What is shown of queues and messages, on the command line and over HTTP: the same values, so the same JSON.
//! Not here: tables and pages; nor what is shown of workers and partitions, which `admin::show` reads as it is shown.
//!
//! - `list`: a row per queue. `overview`: one queue; `verdict`: a sentence about it, [`QueueState`]: a word.
//! - `message`: messages that wait, that are delayed, and that were found. `failed`: those that were given up.
//! - `story`: what happened to a message, in words. `schedule`: schedules.

mod failed;
mod list;
mod message;
mod overview;
mod schedule;
mod state;
mod story;
#[cfg(test)]
mod tests;
mod verdict;

pub use failed::{FailedMessageView, failed_page};
pub use list::{ListError, QueueRow, rows, rows_of};
pub use message::{Body, DelayedMessageView, FoundMessageView, MessageView};
pub use overview::{QueueOverview, overview};
pub use schedule::ScheduleRow;
pub use state::QueueState;
pub use story::sentence;
pub use verdict::verdict;
