//! Why a blob was not read or written.

use thiserror::Error;

use super::format::CONTENT_BYTES_MAX;
use crate::error::{CallError, Remedy};
use crate::transaction::TransactionError;

/// Why a blob was not read or written.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BlobError {
    /// It is not the value that was expected: somebody else was faster.
    #[error("{path} has another value than expected")]
    Conflict {
        /// Which blob.
        path: String,
    },
    /// The ticket that it was to be written under is gone.
    #[error("{ticket} is gone: what was held under it is lost")]
    Lost {
        /// The ticket.
        ticket: String,
    },
    /// It is too long for ZooKeeper.
    #[error("{bytes} bytes are too many for {path}: at most {CONTENT_BYTES_MAX}, or as many when compressed as {max} shards hold", max = super::format::SHARDS_MAX)]
    TooLong {
        /// Which blob.
        path: String,
        /// How many.
        bytes: usize,
    },
    /// What is stored is not what was written.
    #[error("{path} is damaged: {why}")]
    Damaged {
        /// Which blob.
        path: String,
        /// What is wrong with it.
        why: String,
    },
    /// Another part of the transaction was refused.
    #[error("the transaction around {path} was refused")]
    Refused {
        /// Which blob.
        path: String,
        /// Why.
        source: TransactionError,
    },
    /// A call failed.
    #[error("cannot reach the blob")]
    Call(#[from] CallError),
}

impl BlobError {
    /// What the caller may do.
    pub fn remedy(&self) -> Remedy {
        match self {
            Self::Conflict { .. } | Self::Refused { .. } => Remedy::Conflict,
            Self::Lost { .. } => Remedy::Reacquire,
            Self::TooLong { .. } | Self::Damaged { .. } => Remedy::TellUser,
            Self::Call(error) => error.remedy(),
        }
    }
}
