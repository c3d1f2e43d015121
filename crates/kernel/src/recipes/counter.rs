//! A shared counter, compatible with kazoo's.
//!
//! **It promises** that an addition that succeeds was applied exactly once, and that a refused one was not applied.
//! **It does not promise** to know which it was in every case: nothing in ZooKeeper tells who wrote a znode. When a
//! reply was lost and others have written since, perhaps the same value, the addition ends with
//! [`CounterError::Unknown`]. Where you must know, count znodes of your own.
//!
//! # Layout in ZooKeeper
//! The znode holds the number in decimal; empty data is 0. Kazoo can also store fractions, which we refuse
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

/// Why a counter was not read or changed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs, reason = "the fields of errors name themselves")]
pub enum CounterError {
    /// The reply was lost, and the amount may or may not have been added.
    #[error("nobody knows whether {amount} was added to {path}")]
    Unknown {
        path: String,
        /// The amount that may have been added.
        amount: i64,
    },
    /// The znode holds something else than an integer of 64 bits.
    #[error("{path} holds {stored:?}, which is no whole number of 64 bits")]
    NotWhole { path: String, stored: String },
    /// The sum would overflow. Nothing was changed.
    #[error("{path} holds {before}, and {amount} more would be more than fits")]
    Overflow { path: String, before: i64, amount: i64 },
    /// A call failed. Nothing was changed.
    #[error("cannot use counter {path}")]
    Call { path: String, source: CallError },
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

/// A completed addition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    /// The value before it.
    pub before: i64,
    /// The value after it.
    pub after: i64,
}

/// A shared counter. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Counter {
    session: Session,
    path: String,
}

impl Counter {
    /// The counter at this znode.
    pub fn new(session: &Session, znode: Znode<i64>) -> Self {
        Self { session: session.clone(), path: znode.path().to_owned() }
    }

    /// The current value.
    pub async fn value(&self) -> Result<i64, CounterError> {
        let term = self.session.term().patient();
        term.sync(&self.path).await.map_err(|error| self.call_error(error))?;
        match self.read(&term).await {
            Err(CounterError::Call { source: CallError::NoZnode { .. }, .. }) => Ok(0),
            read => read.map(|(value, _)| value),
        }
    }

    /// Adds an amount; retries while others change the counter at the same time.
    pub async fn add(&self, amount: i64) -> Result<Change, CounterError> {
        // A term's end comes up here only if nothing was written: otherwise the outcome is unknown.
        self.session.across_terms(|term| async move { self.add_in(&term.patient(), amount).await }).await
    }

    /// Subtracts an amount, likewise.
    pub async fn sub(&self, amount: i64) -> Result<Change, CounterError> {
        match amount.checked_neg() {
            Some(amount) => self.add(amount).await,
            // `i64::MIN` has no negation.
            None => {
                Err(CounterError::Overflow { path: self.path.clone(), before: self.value().await?, amount })
            }
        }
    }

    async fn add_in(&self, term: &Term, amount: i64) -> Result<Change, CounterError> {
        loop {
            let (before, version) = match self.read(term).await {
                Err(CounterError::Call { source: CallError::NoZnode { .. }, .. }) => {
                    retry::ensure(term, &self.path, b"").await.map_err(|error| self.call_error(error))?;
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
                Err(error) => return Err(self.call_error(error)),
            }
        }
    }

    async fn read(&self, term: &Term) -> Result<(i64, i32), CounterError> {
        let (data, stat) = term.get(&self.path).await.map_err(|error| self.call_error(error))?;
        // Kazoo creates the znode empty, and counts from there.
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

    fn call_error(&self, source: CallError) -> CounterError {
        CounterError::Call { path: self.path.clone(), source }
    }
}
