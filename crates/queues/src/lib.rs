//! Queues: one worker per partition handles its messages in order; partitions are rebalanced as workers join and leave.
//! Not here, but in crates of their own: the HTTP interface, running programs, finding journals.
//!
//! # Layout
//! - [`core`]: decisions, without clocks or sockets. [`core::assignment`]: which worker handles which partition;
//!   [`core::rebalance`]: what a new assignment changes. [`core::turn`]: which message comes next. [`core::ledger`]:
//!   what is begun, done and recorded. [`core::failure`]: retries and giving up. [`core::retention`]: when handled
//!   messages are dropped. [`core::partitioning`]: which partition a message goes to.
//! - [`coordination`]: assignments, locks and cursors in ZooKeeper.
//! - [`worker`]: the loop that takes partitions and handles their messages. [`task`]: what handles a message.
//!   [`runner`]: programs as tasks. [`failed`]: messages that were given up.
//! - [`message_uuid`]: a message's id, for life. [`meta`]: what is stored with a message beside its body.
//!   [`fields`]: the fields of a message in JSON. [`moment`]: points in time.
//! - [`journals`]: which journal stores a queue's messages.
//! - [`metrics`]: a worker's metrics.
//! - [`schedule`]: messages that are put periodically.
//! - [`view`]: what is shown of queues and messages.
//! - [`admin`]: creating queues, putting messages, and everything else operators do.

pub mod admin;
pub mod coordination;
pub mod core;
pub mod error;
mod explain;
pub mod failed;
pub mod fields;
pub mod journals;
pub mod message_uuid;
pub mod meta;
pub mod metrics;
pub mod moment;
pub mod runner;
pub mod schedule;
pub mod story;
pub mod task;
pub mod view;
pub mod worker;

pub use error::QueueError;
pub use journals::Journals;
pub use message_uuid::MessageUuid;
pub use meta::{Meta, Origin, Via};
