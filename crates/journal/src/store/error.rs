//! Why the journal's data could not be used.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thiserror::Error;

use crate::error::JournalError;

/// Why the journal's data could not be used. Each says what was found, where, and what to try.
#[derive(Debug, Clone, Error)]
pub enum StoreError {
    /// Another process has the folder.
    #[error("the data folder {} is in use by another journal{}", path.display(), owner.map(|pid| format!(" (process {pid})")).unwrap_or_default())]
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
    #[error("{} holds journal data already", path.display())]
    NotEmpty {
        /// The folder.
        path: PathBuf,
    },
    /// A folder that must hold data holds none.
    #[error("there is no journal data in {}", path.display())]
    NoData {
        /// The folder.
        path: PathBuf,
    },
    /// A file is none that can be restored.
    #[error("{} cannot be restored: {what}", path.display())]
    NoBackup {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// The log refused.
    #[error("cannot use the log in {}", path.display())]
    Log {
        /// Its folder.
        path: PathBuf,
        /// What it said.
        source: menagerie_wal::Error,
    },
    /// The operating system refused.
    #[error("cannot {doing} {}", path.display())]
    Io {
        /// What was attempted.
        doing: &'static str,
        /// With what.
        path: PathBuf,
        /// Why not.
        source: Arc<io::Error>,
    },
}

impl StoreError {
    /// Whether a file is not there: of a segment, that nothing in it was needed any more.
    pub(crate) fn is_missing_file(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound)
    }

    pub(crate) fn io(doing: &'static str, path: impl AsRef<Path>) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { doing, path: path.as_ref().to_owned(), source: Arc::new(source) }
    }

    pub(crate) fn damaged(path: &Path, offset: u64, what: impl Into<String>) -> Self {
        Self::Damaged { path: path.to_owned(), offset, what: what.into() }
    }

    /// What the operator may try.
    pub fn help(&self) -> &'static str {
        match self {
            Self::InUse { .. } => "stop the other journal, or choose another --data folder",
            Self::Newer { .. } => "use the newer version that wrote this folder",
            Self::Damaged { .. } => "copy the folder away, look at the disk, and restore it from a backup",
            Self::NotEmpty { .. } => "choose an empty --data folder",
            Self::NoData { .. } => {
                "name with --data the folder that the journal was given, the one above journal/"
            }
            Self::NoBackup { .. } => "name a file that `menagerie journal backup` wrote",
            Self::Log { source, .. } => source.help(),
            Self::Io { source, .. } if menagerie_wal::is_out_of_files(source) => {
                "raise the limit of open files (ulimit -n), or see who has them open, then start again"
            }
            Self::Io { .. } => "look at the disk and its permissions, then start again",
        }
    }

    /// Room is wanting, on the disk or for open files; nothing else is wrong.
    pub(crate) fn is_full(&self) -> bool {
        match self {
            Self::Io { source, .. } => {
                matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
                    || menagerie_wal::is_out_of_files(source)
            }
            Self::Log { source, .. } => source.is_full(),
            Self::InUse { .. }
            | Self::Newer { .. }
            | Self::Damaged { .. }
            | Self::NotEmpty { .. }
            | Self::NoData { .. }
            | Self::NoBackup { .. } => false,
        }
    }
}

impl From<StoreError> for JournalError {
    fn from(error: StoreError) -> Self {
        match &error {
            StoreError::Io { source, .. } if menagerie_wal::is_out_of_files(source) => Self::OutOfFiles,
            StoreError::Log { source, .. } if source.is_full() => wanting(source),
            error if error.is_full() => Self::DiskFull,
            error => Self::Damaged(error.to_string()),
        }
    }
}

/// What a log wants that has no room.
pub(crate) fn wanting(error: &menagerie_wal::Error) -> JournalError {
    match error {
        menagerie_wal::Error::OutOfFiles { .. } => JournalError::OutOfFiles,
        _ => JournalError::DiskFull,
    }
}
