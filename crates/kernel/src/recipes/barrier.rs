//! A barrier, compatible with kazoo's: everybody waits while it is up, and goes on when it is taken down.
//!
//! **It promises** that every waiter goes on once the barrier is down, through lost connections and lost ZooKeeper
//! sessions, and that nobody goes on before that. **It does not promise** that all waiters have gone on before somebody
//! puts it up again: one that was disconnected for that long finds it up, and waits. The barrier stays up when its
//! creator crashes.
//!
//! # Layout in ZooKeeper
//! The barrier is up as long as its znode exists.
//!
//! ```no_run
//! # use menagerie_kernel::{Session, recipes::barrier::{Barrier, BarrierError}};
//! # use menagerie_znodes::{Dir, Znode};
//! # use std::time::Duration;
//! # async fn example(session: &Session, dir: Znode<Dir>) -> Result<(), BarrierError> {
//! let barrier = Barrier::new(session, dir);
//! barrier.create().await?;
//! // To time out, drop the future.
//! let waited = tokio::time::timeout(Duration::from_secs(5), barrier.wait()).await;
//! assert!(waited.is_err(), "it is still up");
//! barrier.remove().await?;
//! barrier.wait().await?;
//! # Ok(())
//! # }
//! ```

use std::future::Future;

use menagerie_znodes::{Dir, Znode};
use thiserror::Error;

use crate::error::{CallError, Remedy};
use crate::retry;
use crate::session::{Session, Term};

/// A call to ZooKeeper failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("cannot use barrier {path}")]
#[allow(missing_docs, reason = "the fields of errors name themselves")]
pub struct BarrierError {
    pub path: String,
    pub source: CallError,
}

impl BarrierError {
    /// What the caller may do.
    pub fn remedy(&self) -> Remedy {
        self.source.remedy()
    }
}

/// A barrier. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Barrier {
    session: Session,
    path: String,
}

impl Barrier {
    /// The barrier at this znode.
    pub fn new(session: &Session, place: Znode<Dir>) -> Self {
        Self { session: session.clone(), path: place.path().to_owned() }
    }

    /// Puts the barrier up; does nothing if it is up.
    pub async fn create(&self) -> Result<(), BarrierError> {
        self.in_some_term(|term, path| async move { retry::ensure(&term, &path, b"").await }).await
    }

    /// Takes the barrier down. `false`: it was not up, or somebody else was faster.
    pub async fn remove(&self) -> Result<bool, BarrierError> {
        self.in_some_term(|term, path| async move {
            // It may have been put up a moment ago, by somebody on another server.
            term.sync(&path).await?;
            retry::remove(&term, &path).await
        })
        .await
    }

    /// Waits until the barrier is down.
    pub async fn wait(&self) -> Result<(), BarrierError> {
        self.in_some_term(|term, path| async move {
            term.sync(&path).await?;
            loop {
                match term.get_watched(&path).await {
                    Ok((_, _, watch)) => drop(watch.changed().await),
                    Err(CallError::NoZnode { .. }) => return Ok(()),
                    Err(error) => return Err(error),
                }
            }
        })
        .await
    }

    /// All these calls can safely be repeated in the next ZooKeeper session.
    async fn in_some_term<T, F>(&self, call: impl Fn(Term, String) -> F) -> Result<T, BarrierError>
    where
        F: Future<Output = Result<T, CallError>>,
    {
        let outcome = self.session.across_terms(|term| call(term.patient(), self.path.clone())).await;
        outcome.map_err(|source| BarrierError { path: self.path.clone(), source })
    }
}
