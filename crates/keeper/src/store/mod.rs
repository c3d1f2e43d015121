//! What is on disk: the log, the newest snapshot, and the folder they live in.
//!
//! # Layout
//! - [`folder`]: the data folder: its lock (one keeper at a time) and its format version.
//! - [`snapshot`]: the file format shared by snapshots and backups, written and read.
//! - [`recover`]: from a folder to a [`State`](crate::core::State) and an open log.
//! - [`restore`]: from a backup file to a new folder.

pub mod folder;
pub mod recover;
pub mod restore;
pub mod snapshot;

#[cfg(test)]
mod tests;

use std::path::PathBuf;

use thiserror::Error;

pub use folder::Folder;
pub use recover::{Recovered, recover};
pub use restore::restore;

/// Why the keeper's data could not be used. Each says what was found, where, and what to try.
#[derive(Debug, Error)]
pub enum StoreError {
    /// Another process has the folder.
    #[error("the data folder {} is in use by another keeper{}", path.display(), owner.map(|pid| format!(" (process {pid})")).unwrap_or_default())]
    InUse {
        /// The folder.
        path: PathBuf,
        /// Who has it, if it said so.
        owner: Option<u32>,
    },
    /// The folder was written by a newer version.
    #[error("{} has format {found}, but this version reads formats up to {known}", path.display())]
    Newer {
        /// The file that says so.
        path: PathBuf,
        /// The format it names.
        found: u32,
        /// The newest that we read.
        known: u32,
    },
    /// A file does not hold what it must.
    #[error("{} is damaged at byte {offset}: {what}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where in it.
        offset: u64,
        /// What is wrong there.
        what: String,
    },
    /// A folder that must be empty is not.
    #[error("{} holds keeper data already", path.display())]
    NotEmpty {
        /// The folder.
        path: PathBuf,
    },
    /// The log refused.
    #[error("cannot use the log in {}", path.display())]
    Log {
        /// The log's folder.
        path: PathBuf,
        /// Why.
        source: menagerie_wal::Error,
    },
    /// The operating system refused.
    #[error("cannot {doing} {}", path.display())]
    Io {
        /// What was attempted.
        doing: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
}

impl StoreError {
    /// What the operator may try.
    pub fn help(&self) -> &'static str {
        match self {
            Self::InUse { .. } => "stop the other keeper, or give this one a folder of its own with --data",
            Self::Newer { .. } => "run the version that wrote it, or a newer one",
            Self::Damaged { .. } => {
                "restore a backup into a new folder (menagerie keeper restore); keep the damaged one for analysis"
            }
            Self::NotEmpty { .. } => "name a folder without keeper data, or move the old data away first",
            Self::Log { source, .. } => source.help(),
            Self::Io { .. } => "check that the folder exists, is writable for this user, and has room",
        }
    }

    /// Whether as many files are open as may be: nothing is wrong with the data, and later it may work.
    pub(crate) fn is_out_of_files(&self) -> bool {
        match self {
            Self::Log { source, .. } => matches!(source, menagerie_wal::Error::OutOfFiles { .. }),
            Self::Io { source, .. } => menagerie_wal::is_out_of_files(source),
            Self::InUse { .. } | Self::Newer { .. } | Self::Damaged { .. } | Self::NotEmpty { .. } => false,
        }
    }

    pub(crate) fn io(doing: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { doing, path, source }
    }
}
