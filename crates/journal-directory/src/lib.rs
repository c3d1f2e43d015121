//! How engines find journals through ZooKeeper, how a journal claims its place there, and consuming one under a fence.
//! Not here: what a journal is and keeps (`menagerie-journal`), and what any engine's messages mean.
//!
//! # Layout
//! - [`journals`]: the [`Journals`] that a process can use, by name. `directory`: those that are registered, as they come and
//!   go. `located`: one of them, wherever it is at the moment; [`whereabouts`]: which one is meant (pure). [`access`]: by what
//!   they and we know each other.
//! - [`register`]: a journal's entry in ZooKeeper, for as long as it serves.
//! - [`consumer`]: a [`FencedConsumer`] reads a partition and commits exactly once how far it has come and what came of it.

pub mod access;
pub mod consumer;
mod directory;
pub mod journals;
mod located;
pub mod register;
pub mod whereabouts;

pub use access::{Access, TokenFiles};
pub use consumer::FencedConsumer;
pub use journals::Journals;
pub use whereabouts::Home;
