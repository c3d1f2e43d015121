//! Why there is no permit.

use thiserror::Error;

use crate::error::{CallError, Remedy};
use crate::session::TermError;

/// Why a semaphore did not do what was asked.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SemaphoreError {
    /// Others use it with another limit.
    #[error("semaphore {path} has a limit of {stored}, not of {wanted}")]
    LimitDisagrees {
        /// Which semaphore.
        path: String,
        /// What is stored.
        stored: u32,
        /// What we were told.
        wanted: u32,
    },
    /// Nobody has said yet how many may hold it, and we were told to take what is stored.
    #[error("semaphore {path} has no limit yet")]
    NoLimit {
        /// Which semaphore.
        path: String,
    },
    /// Something else is stored where the limit should be.
    #[error("semaphore {path} has {stored:?} where its limit should be")]
    LimitUnreadable {
        /// Which semaphore.
        path: String,
        /// What is stored, as far as it is text.
        stored: String,
    },
    /// Somebody else has changed the limit since it was looked at.
    #[error("the limit of semaphore {path} was changed meanwhile")]
    LimitMoved {
        /// Which semaphore.
        path: String,
    },
    /// The numbers of its queue are used up.
    #[error("the queue of semaphore {path} has used up its numbers: remove it while nobody waits")]
    Exhausted {
        /// Which semaphore.
        path: String,
    },
    /// It was lost before it was released: what was done under it may have been done beside too many others.
    #[error("a permit of semaphore {path} was lost before it was released")]
    Lost {
        /// Which semaphore.
        path: String,
    },
    /// ZooKeeper said no.
    #[error("cannot use semaphore {path}")]
    Call {
        /// Which semaphore.
        path: String,
        /// What it said.
        source: CallError,
    },
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
