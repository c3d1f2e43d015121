//! Errors of flows.

use std::borrow::Cow;

use menagerie_journal::JournalError;
use menagerie_kernel::recipes::lock::LockError;
use menagerie_kernel::recipes::tree_cache::TreeCacheError;
use menagerie_kernel::{CallError, TermError, TransactionError};
use menagerie_types::{Explain, exit_code};
use thiserror::Error;

/// Why an operation on flows failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "fields of errors name themselves")]
pub enum FlowError {
    #[error("there is no job {job} in deployment {deployment}")]
    NoJob { job: String, deployment: String },
    /// The job has ended, and cannot be killed any more.
    #[error("job {job} has ended already: it is {state}")]
    Ended { job: String, state: &'static str },
    /// The job cannot be done.
    #[error("the job was refused: {why}")]
    Refused { why: String },
    /// The journal refused.
    #[error("the journal did not do it")]
    Journal(#[from] JournalError),
    /// ZooKeeper refused.
    #[error("ZooKeeper did not do it")]
    Call(#[from] CallError),
    /// A transaction was refused.
    #[error("a transaction was refused")]
    Transaction(#[from] TransactionError),
    /// The election failed.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// Watching the deployment failed.
    #[error(transparent)]
    Cache(#[from] TreeCacheError),
}

impl FlowError {
    /// Whether it is the end of the ZooKeeper session, and no more than that.
    pub fn ends_term(&self) -> bool {
        match self {
            Self::Call(error) | Self::Transaction(TransactionError::Call(error)) => error.ends_term(),
            Self::Transaction(TransactionError::Lost { .. } | TransactionError::Part { .. }) => false,
            Self::NoJob { .. } | Self::Ended { .. } | Self::Refused { .. } => false,
            Self::Journal(_) | Self::Lock(_) | Self::Cache(_) => false,
        }
    }
}

impl TermError for FlowError {
    fn call(&mut self) -> Option<&mut CallError> {
        match self {
            Self::Call(error) | Self::Transaction(TransactionError::Call(error)) => Some(error),
            _ => None,
        }
    }
}

impl Explain for FlowError {
    fn help(&self) -> Cow<'static, str> {
        match self {
            Self::NoJob { .. } => {
                "`menagerie flow list` shows all jobs; is --deployment the right one?".into()
            }
            Self::Ended { job, .. } => format!("`menagerie flow show {job}` shows how it ended").into(),
            Self::Refused { .. } => "correct the job and submit it again; nothing was started".into(),
            Self::Journal(error) => error.help().into(),
            Self::Call(error) => error.help(),
            Self::Transaction(_) | Self::Lock(_) | Self::Cache(_) => {
                "see how ZooKeeper is with `menagerie doctor`, and try again".into()
            }
        }
    }

    fn exit_code(&self) -> u8 {
        match self {
            Self::NoJob { .. }
            | Self::Ended { .. }
            | Self::Transaction(_)
            | Self::Lock(_)
            | Self::Cache(_) => exit_code::FAILED,
            Self::Refused { .. } => exit_code::USAGE,
            Self::Journal(error) => error.exit_code(),
            Self::Call(error) => error.exit_code(),
        }
    }
}
