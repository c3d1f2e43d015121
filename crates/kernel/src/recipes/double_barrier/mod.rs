//! A double barrier, compatible with kazoo's: all enter together, and all leave together.
//!
//! **It promises** that nobody enters before the required number is there; that whoever was there at that moment
//! enters, even if it was disconnected then and the others are leaving already (if one of our programs opened the
//! barrier: it records that, Python does not); that nobody is out before all others have left, have crashed and their
//! sessions are over, or never entered; and that remains of a crash do not let the next round in too early.
//!
//! **It does not promise** to tell a participant that has just crashed from a live one: it counts until its session is
//! over. Exactly the configured number must take part; a surplus participant enters at once or stays alone.
//!
//! # Layout in ZooKeeper
//! `DIR/<uuid>`, ephemeral, for each participant, with its identifier as data; `DIR/ready`, persistent, from when all
//! are there until the first leaves. `DIR` itself records for whom the barrier was last opened: after which transaction
//! they came, and up to which fence.
//!
//! ```no_run
//! # use menagerie_kernel::{Session, recipes::double_barrier::{DoubleBarrier, DoubleBarrierError}};
//! # use menagerie_znodes::{Dir, Znode};
//! # async fn example(session: &Session, dir: Znode<Dir>) -> Result<(), DoubleBarrierError> {
//! let inside = DoubleBarrier::new(session, dir, 3).identified_by("web-1").enter().await?;
//! // All three are here: the work.
//! inside.leave().await?;
//! // All three have done theirs.
//! # Ok(())
//! # }
//! ```

mod decide;
mod enter;
mod leave;

use std::ops::Deref;

use menagerie_znodes::{Dir, Znode};
use thiserror::Error;

pub use decide::{Entering, Leaving, Opening, Snapshot, entering, leaving};

use super::grant::Grant;
use crate::error::{CallError, Remedy};
use crate::retry;
use crate::session::{Session, Term, TermError};

/// The znode that exists while all are in.
const READY: &str = "ready";

/// Why entering or leaving failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs, reason = "the fields of errors name themselves")]
pub enum DoubleBarrierError {
    /// The barrier was opened while our ZooKeeper session ended: the others are in, and take us for crashed.
    #[error("barrier {path} was opened while our session ended")]
    Lost { path: String },
    /// A call to ZooKeeper failed.
    #[error("cannot use barrier {path}")]
    Call { path: String, source: CallError },
}

impl DoubleBarrierError {
    /// What the caller may do.
    pub fn remedy(&self) -> Remedy {
        match self {
            Self::Lost { .. } => Remedy::Reacquire,
            Self::Call { source, .. } => source.remedy(),
        }
    }
}

impl TermError for DoubleBarrierError {
    fn call(&mut self) -> Option<&mut CallError> {
        match self {
            Self::Call { source, .. } => Some(source),
            Self::Lost { .. } => None,
        }
    }
}

/// A double barrier. Cheap to clone; each [`enter`](Self::enter) is a participant of its own.
#[derive(Debug, Clone)]
pub struct DoubleBarrier {
    session: Session,
    dir: String,
    participants: usize,
    identifier: String,
}

impl DoubleBarrier {
    /// The barrier in this directory, for this many participants.
    pub fn new(session: &Session, dir: Znode<Dir>, participants: usize) -> Self {
        let (session, dir) = (session.clone(), dir.path().to_owned());
        Self { session, dir, participants, identifier: String::new() }
    }

    /// The data of our znode, for people who look.
    pub fn identified_by(mut self, identifier: impl Into<String>) -> Self {
        self.identifier = identifier.into();
        self
    }

    fn path_of(&self, name: &str) -> String {
        format!("{}/{name}", self.dir)
    }

    fn call_error(&self, source: CallError) -> DoubleBarrierError {
        DoubleBarrierError::Call { path: self.dir.clone(), source }
    }
}

/// We are in. See [`Grant`] for what can be done meanwhile. Dropping it is like a crash: the others stop waiting for
/// us.
#[derive(Debug)]
#[must_use = "dropped, we are out"]
pub struct Inside {
    grant: Grant,
    presence: Presence,
    barrier: DoubleBarrier,
}

impl Deref for Inside {
    type Target = Grant;

    fn deref(&self) -> &Grant {
        &self.grant
    }
}

/// Our participant znode, which may exist. Dropping it deletes the znode in the background.
#[derive(Debug)]
struct Presence {
    term: Term,
    path: String,
    name: String,
    over: bool,
}

impl Presence {
    async fn end(&mut self) -> Result<(), CallError> {
        if !self.over {
            // An expired session is an error, too: the server may keep it for a while, and the znode with it.
            retry::delete(&self.term, &self.path).await?;
            self.over = true;
        }
        Ok(())
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        if self.over {
            return;
        }
        let (term, path) = (self.term.clone(), std::mem::take(&mut self.path));
        self.term.in_background(async move {
            // Its creation may still be in flight. This fails only if the session is over, and then the znode is gone.
            if term.sync("/").await.is_ok() {
                let _ = retry::delete(&term, &path).await;
            }
        });
    }
}
