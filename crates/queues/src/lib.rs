//! Queues: each message handled in order, by exactly one worker per partition; rebalanced as workers come and go.
//! Not here, but crates of their own: the HTTP interface, running programs, finding journals.
//!
//! # Layout
//! - [`core`]: what is decided without a clock or a socket. [`core::assignment`]: which worker handles what;
//!   [`core::rebalance`]: what that changes. [`core::turn`]: which message comes next. [`core::ledger`]: what is begun, done
//!   and recorded. [`core::failure`]: what becomes of a message that failed. [`core::partitioning`]: where a message goes.
//! - [`coordination`]: who handles what, in ZooKeeper.
//! - [`worker`]: the loop that takes partitions and handles their messages; [`task`]: what is done with a message;
//!   [`runner`]: programs that handle messages; [`failed`]: messages that were given up.
//! - [`journals`]: where messages are.
//! - [`metrics`]: what a worker counts.
//! - [`admin`]: creating queues, putting messages, and what else operators do.

pub mod admin;
pub mod coordination;
pub mod core;
pub mod error;
mod explain;
pub mod failed;
pub mod journals;
pub mod metrics;
pub mod runner;
pub mod task;
pub mod worker;

pub use error::QueueError;
pub use journals::Journals;
