//! Programs as tasks: started under the kernel's guard, given something to do, cut off when their lease or time is over.
//! Not here: what they are asked and what an answer means (each engine's own), and when something is to be done at all.
//!
//! # Layout
//! - [`program`]: a [`Program`], and within which [`Limits`] it runs; [`lease`]: until when it may.
//! - [`exec`]: a process for each thing that is to be done. [`serve`]: a program that stays, and is fed one line after the
//!   other; [`lines`]: what is the same in all its lines.
//! - [`output`]: what programs print, passed on, its end kept.
//!
//! # Invariant
//! Nothing of a program outlives the lease under which it was begun.

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

/// A program that did not do what it was to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// What is wrong, about `it`, the program.
    pub error: String,
    /// The end of what it had printed.
    pub output: Vec<u8>,
}

/// Told, for logs, why a program cannot be started, and for how long nothing is tried. It is called for each attempt.
pub type OnDelay<'a> = &'a (dyn Fn(&str, Duration) + Sync);
