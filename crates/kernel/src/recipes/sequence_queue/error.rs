//! Why a queue did not do what was asked.

use thiserror::Error;

use crate::error::{CallError, Remedy};
use crate::recipes::blob::BlobError;
use crate::transaction::TransactionError;

/// Why a queue did not do what was asked.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum QueueError {
    /// There are too many entries. Nothing was put.
    #[error("{path} is full: it has {len} entries, and may have {limit}")]
    Full {
        /// Which queue.
        path: String,
        /// How many it may have.
        limit: usize,
        /// How many it has.
        len: usize,
    },
    /// The ticket that the writes were made under is gone.
    #[error("{ticket} is gone: what was held under it is lost")]
    Lost {
        /// The ticket.
        ticket: String,
    },
    /// Another part of the transaction was refused.
    #[error("the transaction around {path} was refused")]
    Refused {
        /// Which queue.
        path: String,
        /// Why.
        source: TransactionError,
    },
    /// What lies beside an entry cannot be read or written.
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
