//! Errors of sequence queues.

#![allow(missing_docs, reason = "the fields of errors name themselves")]

use thiserror::Error;

use crate::error::{CallError, Remedy};
use crate::recipes::blob::BlobError;
use crate::transaction::TransactionError;

/// Errors of sequence queues.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum QueueError {
    /// The queue has no room for what was to be put. Nothing was put.
    #[error("{path} has no room: it has {len} entries, and may have {limit}")]
    Full { path: String, limit: usize, len: usize },
    /// The ticket that fences the writes is gone.
    #[error("{ticket} is gone: what was held under it is lost")]
    Lost { ticket: String },
    /// ZooKeeper refused another part of the transaction.
    #[error("the transaction around {path} was refused")]
    Refused { path: String, source: TransactionError },
    /// An entry's side data cannot be read or written.
    #[error("cannot read or write the data beside an entry")]
    Side(#[from] BlobError),
    /// A call failed.
    #[error("cannot reach the queue")]
    Call(#[from] CallError),
}

impl QueueError {
    /// What the caller may do.
    pub fn remedy(&self) -> Remedy {
        match self {
            Self::Full { .. } => Remedy::TellUser,
            Self::Lost { .. } => Remedy::Reacquire,
            Self::Refused { .. } => Remedy::Conflict,
            Self::Side(error) => error.remedy(),
            Self::Call(error) => error.remedy(),
        }
    }

    pub(super) fn from_transaction(error: TransactionError, path: &str) -> Self {
        match error {
            TransactionError::Lost { ticket } => Self::Lost { ticket },
            TransactionError::Call(error) => Self::Call(error),
            source @ TransactionError::Part { .. } => Self::Refused { path: path.to_owned(), source },
        }
    }
}
