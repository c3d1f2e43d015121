//! An election: one of the candidates leads, the others wait, and everybody can see who it is.
//!
//! It is the [lock](super::lock) with a loop around it, and makes the same promises. The layout is kazoo's
//! (`Election`). The candidate that came first leads; its identifier is the data of its contender.
//!
//! # What it promises
//! - At most one candidate leads, as the server sees it. A leader that was cut off learns it from its lease clock
//!   before another can lead, and its writes through its [`Grant`] are refused afterwards.
//! - A [`Candidate`] that lost its leadership or its ZooKeeper session stands again by itself, at the end of the line.
//!
//! # What it does not
//! - [`leader`](Election::leader) is what the server showed a moment ago. Acting on it needs the leader's fence.
//!
//! ```no_run
//! # use menagerie_kernel::{Session, recipes::election::Election, recipes::grant::Grant};
//! # use menagerie_znodes::{Dir, Znode};
//! # async fn lead(_: &Grant) {}
//! # async fn coordinate(session: Session, dir: Znode<Dir>) -> Result<(), Box<dyn std::error::Error>> {
//! let mut candidate = Election::new(&session, dir, "host-7:4100").stand();
//! while let Some(grant) = candidate.elected().await {
//!     tokio::select! {
//!         () = lead(&grant) => break,     // it writes by grant.transaction()
//!         loss = grant.lost() => eprintln!("not leading any more: {loss:?}"),
//!     }
//! }
//! candidate.withdraw().await?;
//! # Ok(())
//! # }
//! ```

use std::ops::Deref;

use menagerie_znodes::{Dir, Znode};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tracing::info;

use super::grant::Grant;
use super::lock::{Contestant, Lock, LockError, LockGuard};
use crate::Fence;
use crate::session::Session;

/// An election, for candidates and observers. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Election {
    lock: Lock,
    dir: String,
}

impl Election {
    /// The election whose candidates are in this directory. `identifier` is what others read about us: an address, say.
    pub fn new(session: &Session, dir: Znode<Dir>, identifier: impl Into<String>) -> Self {
        let path = dir.path().to_owned();
        Self { lock: Lock::new(session, dir).identified_by(identifier), dir: path }
    }

    /// Waits until we lead. To give up, drop the future: nothing is left behind.
    pub async fn campaign(&self) -> Result<Leadership, LockError> {
        Ok(Leadership { held: self.lock.acquire().await? })
    }

    /// Stands, and stands again after each loss, until the candidate withdraws or is dropped.
    pub fn stand(&self) -> Candidate {
        let (leading, seen) = watch::channel(None);
        let (withdraw, withdrawn) = oneshot::channel();
        let office = tokio::spawn(run(self.clone(), leading, withdrawn));
        Candidate { leading: seen, last: None, withdraw: Some(withdraw), office }
    }

    /// Who leads, if anybody does.
    pub async fn leader(&self) -> Result<Option<Contestant>, LockError> {
        Ok(self.candidates().await?.into_iter().next())
    }

    /// All candidates, the leader first.
    pub async fn candidates(&self) -> Result<Vec<Contestant>, LockError> {
        self.lock.contenders().await
    }
}

/// We lead, until we resign or lose it. See [`Grant`] for what a leader can do. Dropping it resigns in the background.
#[derive(Debug)]
#[must_use = "dropped, it resigns"]
pub struct Leadership {
    held: LockGuard,
}

impl Leadership {
    /// Makes way for the next leader; an error means that the leadership was lost before.
    pub async fn resign(self) -> Result<(), LockError> {
        self.held.release().await
    }
}

impl Deref for Leadership {
    type Target = Grant;

    fn deref(&self) -> &Grant {
        &self.held
    }
}

/// A candidate that stands again after each loss. Dropping it withdraws it in the background.
#[derive(Debug)]
pub struct Candidate {
    leading: watch::Receiver<Option<Grant>>,
    /// The leadership that [`Self::elected`] returned last.
    last: Option<Fence>,
    /// `None` once it was sent.
    withdraw: Option<oneshot::Sender<()>>,
    office: JoinHandle<Result<(), LockError>>,
}

impl Candidate {
    /// Whether we lead, and the grant if so, as a watchable value. It ends when no further campaign is possible:
    /// [`withdraw`](Self::withdraw) says why.
    pub fn leading(&self) -> watch::Receiver<Option<Grant>> {
        self.leading.clone()
    }

    /// Waits for the next leadership; returns each one once. `None`: no further campaign is possible.
    pub async fn elected(&mut self) -> Option<Grant> {
        let last = self.last;
        let is_new = |grant: &Option<Grant>| grant.as_ref().is_some_and(|grant| Some(grant.fence()) != last);
        let grant = self.leading.wait_for(is_new).await.ok()?.clone()?;
        self.last = Some(grant.fence());
        Some(grant)
    }

    /// Resigns if we lead, stops standing, and waits until nothing is left. The error is what had ended it before.
    pub async fn withdraw(mut self) -> Result<(), LockError> {
        self.withdraw = None;
        (&mut self.office).await.unwrap_or(Ok(()))
    }
}

/// The loop of a candidate. It ends when the other side drops `withdrawn`.
async fn run(
    election: Election,
    leading: watch::Sender<Option<Grant>>,
    mut withdrawn: oneshot::Receiver<()>,
) -> Result<(), LockError> {
    loop {
        let leadership = tokio::select! {
            leadership = election.campaign() => leadership?,
            _ = &mut withdrawn => return Ok(()),
        };
        info!(path = election.dir, fence = %leadership.fence(), "elected");
        leading.send_replace(Some(leadership.held.grant()));
        let resigns = tokio::select! {
            loss = leadership.lost() => {
                info!(path = election.dir, ?loss, "leadership lost");
                false
            }
            _ = &mut withdrawn => true,
        };
        leading.send_replace(None);
        let resigned = leadership.resign().await;
        if resigns {
            return resigned;
        }
    }
}
