//! Errors of pipelines.

use std::borrow::Cow;

use menagerie_journal::JournalError;
use menagerie_kernel::recipes::blob::BlobError;
use menagerie_kernel::recipes::lock::LockError;
use menagerie_kernel::recipes::sequence_queue::QueueError;
use menagerie_kernel::recipes::tree_cache::TreeCacheError;
use menagerie_kernel::{CallError, TermError, TransactionError};
use menagerie_types::{Explain, exit_code};
use thiserror::Error;

use crate::config::Problem;
use crate::git::GitError;

/// Why an operation on pipelines failed.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "fields of errors name themselves")]
pub enum PipelineError {
    /// What was asked for does not exist, or is ambiguous.
    #[error("{what}")]
    Unknown { what: String, help: String },
    /// The scheduler, or we, refuse.
    #[error("{why}")]
    Refused { why: String, help: String },
    /// It did not happen in time.
    #[error("{what}")]
    TooLate { what: String, help: String },
    /// The tenant file cannot be used.
    #[error("the tenant file cannot be used: {0}")]
    Tenants(Problem),
    #[error("git did not do it")]
    Git(#[from] GitError),
    #[error("the journal did not do it")]
    Journal(#[from] JournalError),
    #[error("cannot {doing}")]
    Io { doing: String, source: std::io::Error },
    #[error("ZooKeeper did not do it")]
    Call(#[from] CallError),
    #[error("ZooKeeper did not do it")]
    Transaction(#[from] TransactionError),
    #[error("cannot hold it")]
    Lock(#[from] LockError),
    #[error("cannot use an event queue")]
    Queue(#[from] QueueError),
    #[error("cannot read or write a long value")]
    Blob(#[from] BlobError),
    #[error("cannot follow ZooKeeper")]
    Cache(#[from] TreeCacheError),
}

impl PipelineError {
    /// Wraps an IO error with what was attempted.
    pub fn io(doing: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let doing = doing.into();
        move |source| Self::Io { doing, source }
    }
}

impl TermError for PipelineError {
    fn call(&mut self) -> Option<&mut CallError> {
        match self {
            Self::Call(call) => Some(call),
            Self::Lock(lock) => lock.call(),
            Self::Transaction(TransactionError::Call(call)) | Self::Queue(QueueError::Call(call)) => {
                Some(call)
            }
            _ => None,
        }
    }
}

impl Explain for PipelineError {
    fn help(&self) -> Cow<'static, str> {
        match self {
            Self::Unknown { help, .. } | Self::Refused { help, .. } | Self::TooLate { help, .. } => {
                help.clone().into()
            }
            Self::Tenants(problem) => problem.help.to_string().into(),
            Self::Git(error) => error.help().into(),
            Self::Journal(error) => Explain::help(error),
            Self::Io { source, .. } => menagerie_types::explain::io_help(source).into(),
            Self::Call(error) => error.help(),
            Self::Lock(_) | Self::Transaction(_) | Self::Queue(_) | Self::Blob(_) | Self::Cache(_) => {
                "look at ZooKeeper with `menagerie doctor`, and try again".into()
            }
        }
    }

    fn exit_code(&self) -> u8 {
        match self {
            Self::Unknown { .. } | Self::Tenants(_) => exit_code::USAGE,
            Self::TooLate { .. } => exit_code::NOT_NOW,
            Self::Journal(error) => error.exit_code(),
            Self::Call(error) => error.exit_code(),
            Self::Refused { .. } | Self::Git(_) | Self::Io { .. } => exit_code::FAILED,
            Self::Lock(_) | Self::Transaction(_) | Self::Queue(_) | Self::Blob(_) | Self::Cache(_) => {
                exit_code::UNAVAILABLE
            }
        }
    }
}
