//! The data on disk: the log, the newest snapshot, and their folder.
//!
//! # Layout
//! - [`folder`]: the data folder, and what files are in it.
//! - [`snapshot`]: the file format shared by snapshots and backups, written and read.
//! - [`recover`]: from a folder to a [`State`](crate::core::State) and an open log.
//! - [`restore`]: from a backup file to a new folder.

pub mod folder;
pub mod recover;
pub mod restore;
pub mod snapshot;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use menagerie_datadir::DataError;
use thiserror::Error;

pub use folder::Folder;
pub use recover::{Recovered, recover};
pub use restore::restore;

/// Why the keeper's data cannot be used.
#[derive(Debug, Error)]
#[allow(missing_docs, reason = "the fields of errors name themselves")]
pub enum StoreError {
    /// An error of the folder or a file in it.
    #[error(transparent)]
    Data(#[from] DataError),
    /// An error of the log.
    #[error("cannot use the log in {}", path.display())]
    Log { path: PathBuf, source: menagerie_wal::Error },
}

impl StoreError {
    /// What the operator may try.
    pub fn help(&self) -> &'static str {
        match self {
            Self::Data(DataError::InUse { .. }) => {
                "stop the other keeper, or give this one a folder of its own with --data"
            }
            Self::Data(DataError::Newer { .. }) => "run the version that wrote it, or a newer one",
            Self::Data(DataError::Damaged { .. }) => {
                "restore a backup into a new folder (menagerie keeper restore); keep the damaged one for analysis"
            }
            Self::Data(DataError::NotEmpty { .. }) => {
                "name a folder without keeper data, or move the old data away first"
            }
            Self::Data(DataError::Io { .. }) => {
                "check that the folder exists, is writable for this user, and has room"
            }
            Self::Log { source, .. } => source.help(),
        }
    }

    /// Whether the limit of open files is reached: the data is fine, and it may work later.
    pub(crate) fn is_out_of_files(&self) -> bool {
        match self {
            Self::Log { source, .. } => matches!(source, menagerie_wal::Error::OutOfFiles { .. }),
            Self::Data(DataError::Io { source, .. }) => menagerie_wal::is_out_of_files(source),
            Self::Data(
                DataError::InUse { .. }
                | DataError::Newer { .. }
                | DataError::Damaged { .. }
                | DataError::NotEmpty { .. },
            ) => false,
        }
    }

    pub(crate) fn io(doing: &'static str, path: impl AsRef<Path>) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::Data(DataError::io(doing, path)(source))
    }

    pub(crate) fn damaged(path: &Path, offset: u64, what: impl Into<String>) -> Self {
        Self::Data(DataError::damaged(path, offset, what))
    }
}
