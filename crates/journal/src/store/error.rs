//! Why the journal's data cannot be used.

#![allow(missing_docs, reason = "the fields of errors name themselves")]

use std::io;
use std::path::{Path, PathBuf};

use menagerie_datadir::DataError;
use thiserror::Error;

use crate::error::JournalError;

/// Why the journal's data cannot be used. Each says what was found, where, and what to try.
#[derive(Debug, Clone, Error)]
pub enum StoreError {
    /// An error of the folder or a file in it.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The folder should hold data, but has none.
    #[error("there is no journal data in {}", path.display())]
    NoData { path: PathBuf },
    /// The file is no valid backup.
    #[error("{} cannot be restored: {what}", path.display())]
    NoBackup { path: PathBuf, what: String },
    /// An error of the log.
    #[error("cannot use the log in {}", path.display())]
    Log { path: PathBuf, source: menagerie_wal::Error },
}

impl StoreError {
    /// Whether a file is missing: for a segment, this means that it became obsolete.
    pub(crate) fn is_missing_file(&self) -> bool {
        matches!(self, Self::Data(error) if error.is_missing_file())
    }

    pub(crate) fn io(doing: &'static str, path: impl AsRef<Path>) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Data(DataError::io(doing, path)(source))
    }

    pub(crate) fn damaged(path: &Path, offset: u64, what: impl Into<String>) -> Self {
        Self::Data(DataError::damaged(path, offset, what))
    }

    /// What the operator may try.
    pub fn help(&self) -> &'static str {
        match self {
            Self::Data(DataError::InUse { .. }) => "stop the other journal, or choose another --data folder",
            Self::Data(DataError::Newer { .. }) => "use the newer version that wrote this folder",
            Self::Data(DataError::Damaged { .. }) => {
                "copy the folder away, look at the disk, and restore it from a backup"
            }
            Self::Data(DataError::NotEmpty { .. }) => "choose an empty --data folder",
            Self::NoData { .. } => "pass the journal's data folder with --data: the one above journal/",
            Self::NoBackup { .. } => "name a file that `menagerie journal backup` wrote",
            Self::Log { source, .. } => source.help(),
            Self::Data(DataError::Io { source, .. }) if menagerie_wal::is_out_of_files(source) => {
                "raise the limit of open files (ulimit -n), or see which processes have them open, then start again"
            }
            Self::Data(DataError::Io { .. }) => "look at the disk and its permissions, then start again",
        }
    }

    /// Whether the only problem is a full disk or the limit of open files.
    pub(crate) fn is_full(&self) -> bool {
        match self {
            Self::Data(DataError::Io { source, .. }) => {
                matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
                    || menagerie_wal::is_out_of_files(source)
            }
            Self::Log { source, .. } => source.is_full(),
            Self::Data(
                DataError::InUse { .. }
                | DataError::Newer { .. }
                | DataError::Damaged { .. }
                | DataError::NotEmpty { .. },
            )
            | Self::NoData { .. }
            | Self::NoBackup { .. } => false,
        }
    }
}

impl From<StoreError> for JournalError {
    fn from(error: StoreError) -> Self {
        match &error {
            StoreError::Data(DataError::Io { source, .. }) if menagerie_wal::is_out_of_files(source) => {
                Self::OutOfFiles
            }
            StoreError::Log { source, .. } if source.is_full() => shortage(source),
            error if error.is_full() => Self::DiskFull,
            error => Self::Damaged(error.to_string()),
        }
    }
}

/// What is short when the log has no room.
pub(crate) fn shortage(error: &menagerie_wal::Error) -> JournalError {
    match error {
        menagerie_wal::Error::OutOfFiles { .. } => JournalError::OutOfFiles,
        _ => JournalError::DiskFull,
    }
}
