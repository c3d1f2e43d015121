//! The keeper's decisions: pure state, no socket, no file, no clock. Times and random numbers come in as arguments.
//!
//! A write goes through two steps. [`State::prepare`] judges it against everything accepted so far, durable or not
//! (tree + [`pending`]), and turns it into a [`Txn`]: a zxid and the *final* state of each znode it touches. Once the
//! log has it on disk, [`State::apply`] puts it into the tree and fires watches. Reads see only the tree, so nobody
//! ever sees what a crash could take back.
//!
//! # Layout
//! - [`path`]: which paths are valid. [`znode`]: one znode. [`tree`]: all of them. [`pending`]: decisions in flight.
//! - [`prepare`], [`create`], [`close`]: requests to transactions. [`txn`]: the transaction and its encoding.
//! - [`apply`]: transactions to the tree, live and in recovery. [`read`]: all requests that change nothing.
//! - [`watches`], [`sessions`], [`acl`], [`quota`].
//! - [`limits`]: how much clients may ask for. [`invariants`]: what holds after every step; tests and debug builds
//!   check it.

pub mod acl;
pub mod apply;
pub mod close;
pub mod create;
pub mod invariants;
pub mod limits;
pub mod path;
pub mod pending;
pub mod prepare;
pub mod quota;
pub mod read;
pub mod sessions;
pub mod state;
pub mod tree;
pub mod txn;
pub mod watches;
pub mod znode;

#[cfg(test)]
mod tests;

pub use acl::AclRef;
pub use apply::Notice;
pub use limits::Limits;
pub use sessions::{Millis, SessionId};
pub use state::{Caller, ConnId, Options, State};
pub use txn::{Change, Outcome, Txn};
