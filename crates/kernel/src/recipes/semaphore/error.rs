//! Errors of semaphores.

#![allow(missing_docs, reason = "the fields of errors name themselves")]

use thiserror::Error;

use crate::error::{CallError, Remedy};
use crate::session::TermError;

/// Errors of semaphores.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SemaphoreError {
    /// Others use it with another limit.
    #[error("semaphore {path} has a limit of {stored}, not of {wanted}")]
    LimitDisagrees { path: String, stored: u32, wanted: u32 },
    /// No limit is stored yet, and we were configured to use the stored one.
    #[error("semaphore {path} has no limit yet")]
    NoLimit { path: String },
    /// Something else is stored where the limit should be.
    #[error("semaphore {path} has {stored:?} where its limit should be")]
    LimitUnreadable {
        path: String,
        /// What is stored, as far as it is text.
        stored: String,
    },
    /// Somebody else has changed the limit since it was read.
    #[error("the limit of semaphore {path} was changed meanwhile")]
    LimitMoved { path: String },
    /// The queue has used up its ticket numbers.
    #[error("the queue of semaphore {path} has used up its numbers: remove it while nobody waits")]
    Exhausted { path: String },
    /// The permit was lost before it was released: too many holders may have worked at the same time.
    #[error("a permit of semaphore {path} was lost before it was released")]
    Lost { path: String },
    /// A call to ZooKeeper failed.
    #[error("cannot use semaphore {path}")]
    Call { path: String, source: CallError },
}

impl SemaphoreError {
    /// What the caller may do.
    pub fn remedy(&self) -> Remedy {
        match self {
            Self::LimitDisagrees { .. }
            | Self::NoLimit { .. }
            | Self::LimitUnreadable { .. }
            | Self::Exhausted { .. } => Remedy::TellUser,
            Self::LimitMoved { .. } => Remedy::Conflict,
            Self::Lost { .. } => Remedy::Reacquire,
            Self::Call { source, .. } => source.remedy(),
        }
    }
}

impl TermError for SemaphoreError {
    fn call(&mut self) -> Option<&mut CallError> {
        match self {
            Self::Call { source, .. } => Some(source),
            Self::LimitDisagrees { .. }
            | Self::NoLimit { .. }
            | Self::LimitUnreadable { .. }
            | Self::Exhausted { .. }
            | Self::LimitMoved { .. }
            | Self::Lost { .. } => None,
        }
    }
}
