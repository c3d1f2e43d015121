//! Why a data folder could not be used.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thiserror::Error;

/// Why a data folder, or a file in it, could not be used. Says what was found, and where; what to try, the server knows.
#[derive(Debug, Clone, Error)]
pub enum DataError {
    /// Another process has the folder.
    #[error("the data folder {} is in use by another {server}{}", path.display(), owner.map(|pid| format!(" (process {pid})")).unwrap_or_default())]
    InUse {
        /// Whose folder it is: `keeper`, `journal`.
        server: &'static str,
        /// The folder.
        path: PathBuf,
        /// The process that has it, if it said so.
        owner: Option<u32>,
    },
    /// The file was written by a newer version.
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
    #[error("{} holds {server} data already", path.display())]
    NotEmpty {
        /// Whose data it holds.
        server: &'static str,
        /// The folder.
        path: PathBuf,
    },
    /// The operating system refused.
    #[error("cannot {doing} {}", path.display())]
    Io {
        /// What was attempted.
        doing: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        source: Arc<io::Error>,
    },
}

impl DataError {
    /// For `map_err`: what was attempted, on what.
    pub fn io(doing: &'static str, path: impl AsRef<Path>) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { doing, path: path.as_ref().to_owned(), source: Arc::new(source) }
    }

    /// The file is damaged at `offset`.
    pub fn damaged(path: &Path, offset: u64, what: impl Into<String>) -> Self {
        Self::Damaged { path: path.to_owned(), offset, what: what.into() }
    }

    /// Whether a file is not there.
    pub fn is_missing_file(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}
