//! How engines find journals through ZooKeeper, how journals register there, and how to consume one under a fence. Not
//! here: what a journal is and stores (`menagerie-journal`), and what an engine's messages mean.
//!
//! # Layout
//! - [`journals`]: the [`Journals`] that a process can use, by name. `directory`: the registered ones, kept up to date.
//!   `located`: a journal wherever it is at the moment. [`resolve`]: which registered journal a [`JournalRef`] names
//!   (pure). [`access`]: tokens and certificate authorities.
//! - [`register`]: a journal's entry in ZooKeeper, for as long as it serves.
//! - [`consumer`]: a [`FencedConsumer`] reads a partition and commits position, state and output exactly once.

pub mod access;
pub mod consumer;
mod directory;
pub mod journals;
mod located;
pub mod register;
pub mod resolve;

pub use access::{Access, TokenFiles};
pub use consumer::FencedConsumer;
pub use journals::Journals;
pub use resolve::JournalRef;
