//! Moving a namespace to another ensemble: from the keeper to Apache ZooKeeper, say, when one machine is not enough.
//!
//! - [`format`]: the format of an export: JSON lines.
//! - [`export()`] reads a namespace; [`import()`] writes it somewhere else, and can be run again after a crash.
//! - [`counters`]: keeps the numbers of sequence znodes rising.
//! - [`revise`]: raises generations when a whole server is restored from a backup.
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

/// Progress of a long operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// The current step, as a past participle: "exported".
    pub step: &'static str,
    /// Znodes done so far.
    pub done: u64,
    /// Znodes in all, if known.
    pub total: Option<u64>,
}

/// The full path of a path within a namespace.
fn full(namespace: &str, path: &str) -> String {
    match path {
        "/" => namespace.to_owned(),
        path => subtree::join(namespace, &path[1..]),
    }
}

/// One of our own znodes, with its path from the ensemble's root.
fn place<T>(namespace: &str, znode: &Znode<T>) -> Znode<T> {
    Znode::foreign(full(namespace, znode.path()), znode.kind())
}
