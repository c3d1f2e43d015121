//! Why a blob was not read or written.

#![allow(missing_docs, reason = "the fields of errors name themselves")]

use thiserror::Error;

use super::format::CONTENT_BYTES_MAX;
use crate::error::{CallError, Remedy};
use crate::transaction::TransactionError;

/// Why a blob was not read or written.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BlobError {
    /// The current value is not the expected one: somebody else was faster.
    #[error("{path} has another value than expected")]
    Conflict { path: String },
    /// The ticket that fences the write is gone.
    #[error("{ticket} is gone: what was held under it is lost")]
    Lost { ticket: String },
    /// It is too long for ZooKeeper.
    #[error("{bytes} bytes are too many for {path}: at most {CONTENT_BYTES_MAX}, or as many when compressed as {max} shards hold", max = super::format::SHARDS_MAX)]
    TooLong { path: String, bytes: usize },
    /// The stored data fails its checks.
    #[error("{path} is damaged: {why}")]
    Damaged { path: String, why: String },
    /// ZooKeeper refused another part of the transaction.
    #[error("the transaction around {path} was refused")]
    Refused { path: String, source: TransactionError },
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
