//! Programs as tasks: started under the kernel's guard, given jobs, interrupted when their lease or time limit ends.
//! Not here: what they are asked and what answers mean (each engine's own), and when to run them.
//!
//! # Layout
//! - [`program`]: a [`Program`] and its [`Limits`]. [`lease`]: until when it may run.
//! - [`exec`]: one process per job. [`serve`]: a long-running program that is fed lines, one or ([`serve::multiplex`])
//!   many at a time. [`lines`]: what all such lines have in common.
//! - [`output`]: forwards output and keeps its end.
//!
//! # Invariant
//! Nothing of a program outlives the lease under which it began.

pub mod exec;
pub mod lease;
mod limits;
pub mod lines;
pub mod output;
pub mod program;
pub mod serve;

pub use exec::Exec;
pub use lease::{Lease, lease_grace};
pub use limits::Limits;
pub use program::{Program, User};
pub use serve::Serve;

use std::time::Duration;

/// Why a program failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The reason, a sentence whose subject is "it", the program.
    pub error: String,
    /// The end of its output.
    pub output: Vec<u8>,
}

/// Called, for logs, after each failed start with the reason and the pause before the next.
pub type OnDelay<'a> = &'a (dyn Fn(&str, Duration) + Sync);
