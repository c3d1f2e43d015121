//! Why a slot was not given, or not given back.

use menagerie_kernel::{CallError, Remedy, TransactionError};
use thiserror::Error;

/// What can go wrong with a pool.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SlotsError {
    /// There is no such pool.
    #[error("there is no pool {pool}")]
    NoPool {
        /// Which one.
        pool: String,
    },
    /// There is one already, and it is different.
    #[error("pool {pool} exists with a maximum of {stored}, not {wanted}")]
    OtherMaximum {
        /// Which one.
        pool: String,
        /// What it has.
        stored: u32,
        /// What was asked for.
        wanted: u32,
    },
    /// A pool for nobody makes no sense.
    #[error("a pool needs a maximum of at least 1")]
    NoRoomAtAll,
    /// Somebody else changed the pool at the same time.
    #[error("pool {pool} was changed by somebody else at the same time")]
    Conflict {
        /// Which one.
        pool: String,
    },
    /// It is in use.
    #[error("pool {pool} is in use: {users} hold a slot or wait for one")]
    InUse {
        /// Which one.
        pool: String,
        /// How many.
        users: usize,
    },
    /// Nobody of that name has a slot.
    #[error("{holder} holds no slot of pool {pool}")]
    NotHeld {
        /// The pool.
        pool: String,
        /// Who.
        holder: String,
    },
    /// A command runs under the slot, or may: it is not for others to give back.
    #[error("{holder} holds slot {slot} of pool {pool} by a command that it runs")]
    Running {
        /// The pool.
        pool: String,
        /// The slot.
        slot: u32,
        /// Who.
        holder: String,
    },
    /// The maximum is not what the operator thought.
    #[error("pool {pool} has a maximum of {stored}, not {expected}: somebody else has changed it")]
    NotAsExpected {
        /// Which one.
        pool: String,
        /// What it has.
        stored: u32,
        /// What the operator thought.
        expected: u32,
    },
    /// The slot is not ours any more: somebody released it by force, or its session has ended.
    #[error("slot {slot} of pool {pool} is not held by this ticket any more")]
    Lost {
        /// The pool.
        pool: String,
        /// The slot.
        slot: u32,
    },
    /// The pool's own data is damaged.
    #[error("pool {pool} cannot be read: {why}")]
    Damaged {
        /// The pool.
        pool: String,
        /// What is wrong.
        why: String,
    },
    /// The server did not do it.
    #[error("ZooKeeper did not answer as hoped")]
    Call(#[from] CallError),
}

impl SlotsError {
    /// What the caller may do.
    pub fn remedy(&self) -> Remedy {
        match self {
            Self::NoPool { .. }
            | Self::OtherMaximum { .. }
            | Self::NoRoomAtAll
            | Self::InUse { .. }
            | Self::NotHeld { .. }
            | Self::Running { .. }
            | Self::Damaged { .. } => Remedy::TellUser,
            Self::Conflict { .. } | Self::NotAsExpected { .. } => Remedy::Conflict,
            Self::Lost { .. } => Remedy::Reacquire,
            Self::Call(error) => error.remedy(),
        }
    }
}

/// What became of a transaction on a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Commit {
    /// It happened.
    Done,
    /// Something was changed meanwhile: read again, decide again.
    Stale,
    /// Nobody knows: look for the ticket.
    Unknown,
}

/// Sorts out what a transaction said; every refused part means that the facts were old.
pub(crate) fn committed(result: Result<Vec<String>, TransactionError>) -> Result<Commit, CallError> {
    match result {
        Ok(_) => Ok(Commit::Done),
        Err(TransactionError::Lost { .. }) => Ok(Commit::Stale),
        Err(TransactionError::Part { source, .. }) => match source {
            CallError::NoZnode { .. }
            | CallError::Exists { .. }
            | CallError::BadVersion { .. }
            | CallError::NotEmpty { .. }
            | CallError::Suspended => Ok(Commit::Stale),
            other => Err(other),
        },
        Err(TransactionError::Call(CallError::Unknown { .. })) => Ok(Commit::Unknown),
        // A patient call waits for the connection; this one went by an old one, and was refused.
        Err(TransactionError::Call(CallError::Suspended)) => Ok(Commit::Stale),
        Err(TransactionError::Call(error)) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_that_went_by_an_old_connection_is_made_again() {
        let refused = Err(TransactionError::Call(CallError::Suspended));
        assert_eq!(committed(refused), Ok(Commit::Stale));
    }
}
