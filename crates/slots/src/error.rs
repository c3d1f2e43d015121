//! Errors of pools.
use menagerie_kernel::{CallError, Remedy, TermError, TransactionError};
use menagerie_znodes::{Name, slots};
use thiserror::Error;

/// Errors of a pool.
#[expect(missing_docs, reason = "fields of errors name themselves")]
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SlotsError {
    #[error("there is no pool {pool}")]
    NoPool { pool: String },
    /// The pool exists with another maximum.
    #[error("pool {pool} exists with a maximum of {stored}, not {wanted}")]
    OtherMaximum { pool: String, stored: u32, wanted: u32 },
    /// A pool must admit at least one.
    #[error("a pool needs a maximum of at least 1")]
    NoRoomAtAll,
    /// Another operator changed the pool at the same time.
    #[error("pool {pool} was changed by somebody else at the same time")]
    Conflict { pool: String },
    #[error("pool {pool} is in use: {users} hold a slot or wait for one")]
    InUse { pool: String, users: usize },
    /// No holder of that name has a slot.
    #[error("{holder} holds no slot of pool {pool}")]
    NotHeld { pool: String, holder: String },
    /// A command runs under the slot, or may: others must not release it.
    #[error("{holder} holds slot {slot} of pool {pool} by a command that it runs")]
    Running { pool: String, slot: u32, holder: String },
    /// The maximum is not the one that the operator expected.
    #[error("pool {pool} has a maximum of {stored}, not {expected}: somebody else has changed it")]
    NotAsExpected { pool: String, stored: u32, expected: u32 },
    /// The slot is no longer ours: released by force, or its session has ended.
    #[error("slot {slot} of pool {pool} is not held by this ticket any more")]
    Lost { pool: String, slot: u32 },
    /// The pool's own data is damaged: nobody is admitted.
    #[error("pool {pool} is damaged: {path} cannot be read: {why}")]
    Damaged {
        pool: String,
        /// Below the namespace.
        path: String,
        why: String,
    },
    /// A part of the pool is missing that only an operator can restore.
    #[error("pool {pool} is damaged: {path} is missing")]
    Missing {
        pool: String,
        /// Below the namespace.
        path: String,
    },
    /// Somebody deleted the ticket and left the slot.
    #[error("{holder} has slot {slot} of pool {pool}, but its ticket is gone: somebody has deleted {path}")]
    TicketGone {
        pool: String,
        slot: u32,
        holder: String,
        /// Where the ticket was, below the namespace.
        path: String,
    },
    /// Every attempt was refused, and not because of another contender.
    #[error("pool {pool} does not let itself be changed: each attempt was refused")]
    Stuck {
        pool: String,
        /// The last refusal.
        source: CallError,
    },
    #[error("ZooKeeper did not answer as hoped")]
    Call(#[from] CallError),
}

impl SlotsError {
    /// What the caller may do about it.
    pub fn remedy(&self) -> Remedy {
        match self {
            Self::NoPool { .. }
            | Self::OtherMaximum { .. }
            | Self::NoRoomAtAll
            | Self::InUse { .. }
            | Self::NotHeld { .. }
            | Self::Running { .. }
            | Self::Damaged { .. }
            | Self::Missing { .. }
            | Self::TicketGone { .. }
            | Self::Stuck { .. } => Remedy::TellUser,
            Self::Conflict { .. } | Self::NotAsExpected { .. } => Remedy::Conflict,
            Self::Lost { .. } => Remedy::Reacquire,
            Self::Call(error) => error.remedy(),
        }
    }
}

impl SlotsError {
    /// Whether the folder of watchdogs out of service is missing.
    pub fn is_of_watchdogs(&self) -> bool {
        matches!(self, Self::Missing { pool, path }
            if Name::new(pool.as_str()).is_ok_and(|pool| slots::disarmed_dir(&pool).path() == path))
    }
}

impl TermError for SlotsError {
    fn call(&mut self) -> Option<&mut CallError> {
        match self {
            Self::Call(error) => Some(error),
            Self::NoPool { .. }
            | Self::OtherMaximum { .. }
            | Self::NoRoomAtAll
            | Self::Conflict { .. }
            | Self::InUse { .. }
            | Self::NotHeld { .. }
            | Self::Running { .. }
            | Self::NotAsExpected { .. }
            | Self::Lost { .. }
            | Self::Damaged { .. }
            | Self::Missing { .. }
            | Self::TicketGone { .. }
            | Self::Stuck { .. } => None,
        }
    }
}

/// The outcome of a transaction on a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Commit {
    Done,
    /// The facts were stale: read again, decide again. Carries the refusal, which explains it if it persists.
    Stale(CallError),
    /// The reply was lost: look for the ticket.
    Unknown,
}

/// Classifies a transaction's result. A refused part mostly means stale facts.
pub(crate) fn committed(result: Result<Vec<String>, TransactionError>) -> Result<Commit, CallError> {
    match result {
        Ok(_) => Ok(Commit::Done),
        Err(TransactionError::Lost { ticket }) => Ok(Commit::Stale(CallError::NoZnode { path: ticket })),
        Err(TransactionError::Part { source, .. }) => match source {
            CallError::NoZnode { .. }
            | CallError::Exists { .. }
            | CallError::BadVersion { .. }
            | CallError::NotEmpty { .. }
            | CallError::Suspended => Ok(Commit::Stale(source)),
            other => Err(other),
        },
        Err(TransactionError::Call(CallError::Unknown { .. })) => Ok(Commit::Unknown),
        // A patient call waits for the connection; this one used an old connection and was refused.
        Err(TransactionError::Call(error @ CallError::Suspended)) => Ok(Commit::Stale(error)),
        Err(TransactionError::Call(error)) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_that_went_by_an_old_connection_is_made_again() {
        let refused = Err(TransactionError::Call(CallError::Suspended));
        assert_eq!(committed(refused), Ok(Commit::Stale(CallError::Suspended)));
    }
}
