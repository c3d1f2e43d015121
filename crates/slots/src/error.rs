//! Why a slot was not given, or not given back.

use menagerie_kernel::{CallError, Remedy, TermError, TransactionError};
use menagerie_znodes::{Name, slots};
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
    /// The pool's own data is damaged: nobody gets in.
    #[error("pool {pool} is damaged: {path} cannot be read: {why}")]
    Damaged {
        /// The pool.
        pool: String,
        /// Which znode, below the namespace.
        path: String,
        /// What is wrong.
        why: String,
    },
    /// A part of the pool is missing that cannot be made again without a person.
    #[error("pool {pool} is damaged: {path} is missing")]
    Missing {
        /// The pool.
        pool: String,
        /// Which znode, below the namespace.
        path: String,
    },
    /// Somebody has deleted the ticket, and left the slot.
    #[error("{holder} has slot {slot} of pool {pool}, but its ticket is gone: somebody has deleted {path}")]
    TicketGone {
        /// The pool.
        pool: String,
        /// The slot.
        slot: u32,
        /// Who.
        holder: String,
        /// Where the ticket was, below the namespace.
        path: String,
    },
    /// Every attempt was refused, and nobody else seems to be the reason.
    #[error("pool {pool} does not let itself be changed: each attempt was refused")]
    Stuck {
        /// The pool.
        pool: String,
        /// The last refusal.
        source: CallError,
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
    /// Whether the list is missing of watchdogs that are out of service.
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

/// What became of a transaction on a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Commit {
    /// It happened.
    Done,
    /// Something is not as it was thought to be: read again, decide again. It tells what; if it is so again and again, nobody
    /// has changed it meanwhile.
    Stale(CallError),
    /// Nobody knows: look for the ticket.
    Unknown,
}

/// Sorts out what a transaction said. A part that was refused mostly means that the facts were old.
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
        // A patient call waits for the connection; this one went by an old one, and was refused.
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
