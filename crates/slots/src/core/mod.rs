//! Decisions. No IO, no clock.

pub mod admission;
pub mod attempts;
pub mod crowd;
pub mod order;
pub mod resume;
#[cfg(test)]
mod tests;

pub use admission::{Contender, Decision, Facts, WaitFor, decide};
pub use attempts::Attempts;
pub use crowd::{Crowded, Limits, Source, crowded};
pub use order::{PRIORITY_MAX, QueuePlace};
pub use resume::{Local, Resume, is_of_this_host, machine_id, resume};
