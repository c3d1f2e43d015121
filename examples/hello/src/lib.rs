//! The smallest engine: counts the messages of a topic, each exactly once, though any of its processes is killed.
//! It shows what an engine consists of; `CONTRIBUTING.md` lists the steps. Not here: anything that a user needs.
//!
//! # Layout
//! - [`core`]: what is decided, without IO. [`znodes`]: its part of the tree. [`count`]: the loop that does it.
//! - [`show`]: what users see. [`error`]: what can go wrong, with help and exit code.

pub mod core;
pub mod count;
pub mod error;
pub mod show;
pub mod znodes;

pub use error::HelloError;
