//! A double barrier: all go in together, and all go out together. As kazoo has it.
//!
//! **It promises** that nobody goes in before as many are there as must be; that whoever was there at that moment goes in,
//! also if it was disconnected then and the others are on their way out already (if one of ours opened the barrier: it writes
//! that down, Python does not); that nobody comes out before all others have left, have crashed and their sessions are over,
//! or have never come in; and that what a crash leaves behind does not let the next ones in too early.
//!
//! **It does not promise** to tell a participant that has crashed a moment ago from one that is there: it counts until its
//! session is over. Exactly as many must take part as are waited for; who comes beyond that goes in at once or stays alone.
//!
//! # Layout in ZooKeeper
//! `DIR/<uuid>`, ephemeral, for each who is there, with its identifier as data; `DIR/ready`, persistent, from when all are
//! there until the first leaves. `DIR` itself holds for whom the barrier was last opened: a fence up to whom, and the
//! transaction after which.
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

pub use decide::{Entering, Leaving, Opening, Sight, entering, leaving};

use super::grant::Grant;
use crate::error::{CallError, Remedy};
use crate::retry;
use crate::session::{Session, Term, TermError};

/// What says that all are there.
const READY: &str = "ready";

/// Why we are not in, or not any more.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DoubleBarrierError {
    /// The barrier was opened while our ZooKeeper session ended: the others are in, and believe that we have crashed.
    #[error("barrier {path} was opened while our session ended")]
    Lost {
        /// Which barrier.
        path: String,
    },
    /// ZooKeeper said no.
    #[error("cannot use barrier {path}")]
    Call {
        /// Which barrier.
        path: String,
        /// What it said.
        source: CallError,
    },
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
    /// The barrier in this directory, for so many participants.
    pub fn new(session: &Session, dir: Znode<Dir>, participants: usize) -> Self {
        let (session, dir) = (session.clone(), dir.path().to_owned());
        Self { session, dir, participants, identifier: String::new() }
    }

    /// What others see of us.
    pub fn identified_by(mut self, identifier: impl Into<String>) -> Self {
        self.identifier = identifier.into();
        self
    }

    fn path_of(&self, name: &str) -> String {
        format!("{}/{name}", self.dir)
    }

    fn failed(&self, source: CallError) -> DoubleBarrierError {
        DoubleBarrierError::Call { path: self.dir.clone(), source }
    }
}

/// We are in. What can be done meanwhile is said at [`Grant`]. Dropped, we are out, as if we had crashed: the others wait
/// for us no longer.
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

/// A znode of ours that is there or may be. Dropped, it is taken back in the background.
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
            // Also an expired session is an error: the server may keep it for a while, and the znode with it.
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
            // Its creation may still be on its way. What fails fails with the session, which takes the znode along.
            if term.sync("/").await.is_ok() {
                let _ = retry::delete(&term, &path).await;
            }
        });
    }
}
