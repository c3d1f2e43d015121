//! Errors of data folders.

#![allow(missing_docs, reason = "the fields of errors name themselves")]

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thiserror::Error;

/// Why a data folder, or a file in it, cannot be used. The server that uses the folder adds the help text.
#[derive(Debug, Clone, Error)]
pub enum DataError {
    /// Another process has locked the folder.
    #[error("the data folder {} is in use by another {server}{}", path.display(), owner.map(|pid| format!(" (process {pid})")).unwrap_or_default())]
    InUse {
        /// Whose folder it is: `keeper`, `journal`.
        server: &'static str,
        path: PathBuf,
        /// The process that holds the lock, if known.
        owner: Option<u32>,
    },
    /// A newer version wrote the file.
    #[error("{} has format {found}, but this version reads formats up to {known}", path.display())]
    Newer {
        /// The format file.
        path: PathBuf,
        /// The version in the file.
        found: u32,
        /// The newest version that we read.
        known: u32,
    },
    /// The contents of a file are invalid.
    #[error("{} is damaged at byte {offset}: {what}", path.display())]
    Damaged { path: PathBuf, offset: u64, what: String },
    /// The folder should be empty, but is not.
    #[error("{} holds {server} data already", path.display())]
    NotEmpty {
        /// Whose data it holds.
        server: &'static str,
        path: PathBuf,
    },
    /// The operating system refused.
    #[error("cannot {doing} {}", path.display())]
    Io { doing: &'static str, path: PathBuf, source: Arc<io::Error> },
}

impl DataError {
    /// For `map_err`: what was attempted, and on which path.
    pub fn io(doing: &'static str, path: impl AsRef<Path>) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { doing, path: path.as_ref().to_owned(), source: Arc::new(source) }
    }

    /// A file that is damaged at `offset`.
    pub fn damaged(path: &Path, offset: u64, what: impl Into<String>) -> Self {
        Self::Damaged { path: path.to_owned(), offset, what: what.into() }
    }

    /// Whether a file is missing.
    pub fn is_missing_file(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}
