//! Moving a namespace to another ensemble: from the keeper to Apache ZooKeeper, say, when one machine is not enough.
//!
//! - [`format`]: what an export looks like: JSON, line by line.
//! - [`export()`] reads a namespace; [`import()`] writes it somewhere else, and can be run again after a crash.
//! - [`counters`]: the numbers of sequence znodes go on where they were.
//! - [`revise`]: what has to rise when a whole server comes back from a backup.
//!
//! Ephemerals are not moved: they belong to sessions. What a client cannot see of a znode (that it is a container, or has
//! a time to live) is taken from the map, or lost.

pub mod counters;
mod export;
pub mod format;
mod import;
mod restored;

use menagerie_znodes::Znode;

pub use export::{ExportError, Exported, WhenChanged, export};
pub use import::{ImportError, Imported, Options, import};
pub use restored::revise;

use crate::subtree;

/// How far long work is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// What is being done.
    pub step: &'static str,
    /// How many are done.
    pub done: u64,
    /// Of how many, if that is known.
    pub total: Option<u64>,
}

/// The full path of a place within a namespace.
fn full(namespace: &str, path: &str) -> String {
    match path {
        "/" => namespace.to_owned(),
        path => subtree::join(namespace, &path[1..]),
    }
}

/// One of our own znodes, seen from the ensemble's root.
fn place<T>(namespace: &str, znode: &Znode<T>) -> Znode<T> {
    Znode::foreign(full(namespace, znode.path()), znode.kind())
}
