//! A number that all share, as kazoo has it.
//!
//! **It promises** that every addition that is reported as done was done exactly once, and that one that is reported as
//! refused was not done. **It does not promise** that every addition can be reported as either: nothing in ZooKeeper tells
//! who has written a znode. When the reply to a write was lost and others have written since, or have perhaps written the
//! same, it ends with [`CounterError::Unknown`]. Count with znodes of your own where you must know.
//!
//! # Layout in ZooKeeper
//! The znode holds the number in decimal; nothing is 0. Kazoo can also keep fractions there: those are not ours
//! ([`CounterError::NotWhole`]).
//!
//! ```no_run
//! # use menagerie_kernel::{Session, recipes::counter::{Counter, CounterError}};
//! # use menagerie_znodes::Znode;
//! # async fn example(session: &Session, znode: Znode<i64>) -> Result<(), CounterError> {
//! let counter = Counter::new(session, znode);
//! let change = counter.add(2).await?;
//! println!("from {} to {}", change.before, change.after);
//! counter.sub(1).await?;
//! # Ok(())
//! # }
//! ```

use menagerie_znodes::{Payload as _, Znode};
use thiserror::Error;

use crate::error::{CallError, Remedy};
use crate::retry;
use crate::session::{Session, Term, TermError};

/// Why the number is not known, or was not changed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CounterError {
    /// The reply was lost, and nobody can tell whether it was added.
    #[error("nobody knows whether {amount} was added to {path}")]
    Unknown {
        /// Which counter.
        path: String,
        /// How much may have been added.
        amount: i64,
    },
    /// There is something else than a whole number, or one that is too large for us.
    #[error("{path} holds {stored:?}, which is no whole number of 64 bits")]
    NotWhole {
        /// Which counter.
        path: String,
        /// What it holds.
        stored: String,
    },
    /// The sum would be too large. Nothing was changed.
    #[error("{path} holds {before}, and {amount} more would be more than fits")]
    Overflow {
        /// Which counter.
        path: String,
        /// What it holds.
        before: i64,
        /// What should have been added.
        amount: i64,
    },
    /// ZooKeeper said no. Nothing was changed.
    #[error("cannot use counter {path}")]
    Call {
        /// Which counter.
        path: String,
        /// What it said.
        source: CallError,
    },
}

impl CounterError {
    /// What the caller may do.
    pub fn remedy(&self) -> Remedy {
        match self {
            Self::Unknown { .. } | Self::NotWhole { .. } | Self::Overflow { .. } => Remedy::TellUser,
            Self::Call { source, .. } => source.remedy(),
        }
    }
}

impl TermError for CounterError {
    fn call(&mut self) -> Option<&mut CallError> {
        match self {
            Self::Call { source, .. } => Some(source),
            Self::Unknown { .. } | Self::NotWhole { .. } | Self::Overflow { .. } => None,
        }
    }
}

/// An addition that was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    /// What was there before.
    pub before: i64,
    /// What was there then.
    pub after: i64,
}

/// A number that all share. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Counter {
    session: Session,
    path: String,
}

impl Counter {
    /// The counter at this place.
    pub fn new(session: &Session, znode: Znode<i64>) -> Self {
        Self { session: session.clone(), path: znode.path().to_owned() }
    }

    /// What it is now.
    pub async fn value(&self) -> Result<i64, CounterError> {
        let term = self.session.term().patient();
        term.sync(&self.path).await.map_err(|error| self.failed(error))?;
        match self.read(&term).await {
            Err(CounterError::Call { source: CallError::NoZnode { .. }, .. }) => Ok(0),
            read => read.map(|(value, _)| value),
        }
    }

    /// Adds, as soon as nobody else comes in between.
    pub async fn add(&self, amount: i64) -> Result<Change, CounterError> {
        // The term ends it only before anything was written: otherwise it is unknown.
        self.session.across_terms(|term| async move { self.add_in(&term.patient(), amount).await }).await
    }

    /// Takes away, likewise.
    pub async fn sub(&self, amount: i64) -> Result<Change, CounterError> {
        match amount.checked_neg() {
            Some(amount) => self.add(amount).await,
            // The one number without a counterpart.
            None => {
                Err(CounterError::Overflow { path: self.path.clone(), before: self.value().await?, amount })
            }
        }
    }

    async fn add_in(&self, term: &Term, amount: i64) -> Result<Change, CounterError> {
        loop {
            let (before, version) = match self.read(term).await {
                Err(CounterError::Call { source: CallError::NoZnode { .. }, .. }) => {
                    retry::ensure(term, &self.path, b"").await.map_err(|error| self.failed(error))?;
                    continue;
                }
                read => read?,
            };
            let path = self.path.clone();
            let Some(after) = before.checked_add(amount) else {
                return Err(CounterError::Overflow { path, before, amount });
            };
            match retry::set(term, &self.path, &after.encode(), version).await {
                Ok(_) => return Ok(Change { before, after }),
                Err(CallError::BadVersion { .. } | CallError::NoZnode { .. }) => {}
                Err(CallError::Unknown { .. }) => return Err(CounterError::Unknown { path, amount }),
                Err(error) => return Err(self.failed(error)),
            }
        }
    }

    async fn read(&self, term: &Term) -> Result<(i64, i32), CounterError> {
        let (data, stat) = term.get(&self.path).await.map_err(|error| self.failed(error))?;
        // Kazoo makes the znode first, and counts from nothing.
        if data.is_empty() {
            return Ok((0, stat.version));
        }
        match i64::decode(&data) {
            Ok(value) => Ok((value, stat.version)),
            Err(_) => {
                let stored = String::from_utf8_lossy(&data).into_owned();
                Err(CounterError::NotWhole { path: self.path.clone(), stored })
            }
        }
    }

    fn failed(&self, source: CallError) -> CounterError {
        CounterError::Call { path: self.path.clone(), source }
    }
}
