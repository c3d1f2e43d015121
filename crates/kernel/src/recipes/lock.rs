//! A fair lock: who comes first holds first, and one release wakes one contender.
//!
//! # What it promises
//! - At most one contender holds at a time, as the server sees it. A holder that was cut off, frozen or forgotten learns
//!   of it late; so writes go through [`Held`]'s [`transaction`](Grant::transaction), which is refused once the lock is
//!   lost, and whatever is outside ZooKeeper gets the [`fence`](Grant::fence).
//! - Holders follow each other in the order in which the server created their contenders.
//! - A dropped future or a dropped guard leaves no contender behind; a lost reply makes no second one.
//! - Uncontended, acquiring and releasing is two round trips, and three right after others have contended; waiting costs one
//!   watch, on the nearest contender only.
//!
//! # What it does not
//! - It is not re-entrant: who asks twice waits for itself.
//! - Who waits while its ZooKeeper session expires, or while its contender is removed, contends anew, at the end of the line.
//! - One directory gives 2,147,483,648 tickets; see [`contest`](super::contest).
//!
//! ```no_run
//! # use menagerie_kernel::{Session, recipes::lock::Lock};
//! # use menagerie_znodes::{Dir, Kind, Text, Znode};
//! # async fn deploy(session: Session, locks: Znode<Dir>, status: Znode<Text>) -> Result<(), Box<dyn std::error::Error>> {
//! let held = Lock::new(&session, locks).identified_by("host-7").acquire().await?;
//! held.transaction().set(&status, &Text("deploying".to_owned()), None).commit().await?;
//! println!("fence for the far side: {}", held.fence());
//! held.release().await?;
//! # Ok(())
//! # }
//! ```

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use menagerie_znodes::{Dir, Znode};
use thiserror::Error;
use tracing::debug;

use super::bid::{Bid, Contest, FirstLook, Place, Seen};
use super::contest::{self, Contender, Dialect, Mode};
use super::grant::Grant;
use crate::error::{CallError, Remedy};
use crate::session::{Session, Term, TermError};

/// Why there is no lock, or no more. Elections fail in the same ways.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum LockError {
    /// It was lost before it was released: what was done under it may have been done beside another holder.
    #[error("what was held in {dir} was lost before it was released")]
    Lost {
        /// The directory of its contenders.
        dir: String,
    },
    /// The directory has used up its numbers.
    #[error("{dir} has used up its numbers; delete it while nobody contends")]
    Exhausted {
        /// The directory of its contenders.
        dir: String,
    },
    /// A call failed for good.
    #[error("cannot contend in {dir}")]
    Call {
        /// The directory of its contenders.
        dir: String,
        /// Why.
        source: CallError,
    },
}

impl LockError {
    /// What the caller may do.
    pub fn remedy(&self) -> Remedy {
        match self {
            Self::Lost { .. } => Remedy::Reacquire,
            Self::Exhausted { .. } => Remedy::TellUser,
            Self::Call { source, .. } => source.remedy(),
        }
    }
}

impl TermError for LockError {
    fn call(&mut self) -> Option<&mut CallError> {
        match self {
            Self::Call { source, .. } => Some(source),
            Self::Lost { .. } | Self::Exhausted { .. } => None,
        }
    }
}

/// One of those who contend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contestant {
    /// What it calls itself.
    pub identifier: String,
    /// Whether it holds.
    pub holds: bool,
    /// What it asks for.
    pub mode: Mode,
    /// The ZooKeeper session that it lives with.
    pub session_id: i64,
    /// Since when, by the server's clock.
    pub since_ms: i64,
}

/// What came of an attempt that does not wait.
#[derive(Debug)]
#[must_use = "dropped, it is released again"]
pub enum TryAcquire {
    /// It is ours.
    Acquired(Held),
    /// Somebody else comes first: this one before all others.
    HeldBy(Contestant),
}

/// A lock to contend for. Cheap to clone; each [`acquire`](Self::acquire) is a contender of its own.
#[derive(Debug, Clone)]
pub struct Lock {
    session: Session,
    contest: Contest,
    /// The last to contend had to wait, so the next will, too: a guess, by which nothing but speed is decided.
    crowded: Arc<AtomicBool>,
}

impl Lock {
    /// The lock whose contenders are in this directory. It is made when it is missing.
    pub fn new(session: &Session, dir: Znode<Dir>) -> Self {
        Self::in_mode(session, dir, Mode::Exclusive)
    }

    pub(super) fn in_mode(session: &Session, dir: Znode<Dir>, mode: Mode) -> Self {
        let dir = dir.path().to_owned();
        let contest = Contest { dir, dialect: Dialect::Kazoo, mode, identifier: Vec::new() };
        Self { session: session.clone(), contest, crowded: Arc::default() }
    }

    /// What [`contenders`](Self::contenders) shows of us.
    pub fn identified_by(mut self, identifier: impl Into<String>) -> Self {
        self.contest.identifier = identifier.into().into_bytes();
        self
    }

    /// With other names, to contend with programs that use them. All of a directory must use the same.
    pub fn in_dialect(mut self, dialect: Dialect) -> Self {
        self.contest.dialect = dialect;
        self
    }

    /// Waits for our turn, as long as it takes: through lost connections and expired sessions. To give up, drop the
    /// future: nothing is left behind.
    pub async fn acquire(&self) -> Result<Held, LockError> {
        self.session.across_terms(|term| async move { self.acquire_in(&term).await }).await
    }

    async fn acquire_in(&self, term: &Term) -> Result<Held, LockError> {
        let (mut bid, mut seen) = self.bid(term).await?;
        let mut crowded = false;
        loop {
            match bid.look(seen.take()).await.map_err(|error| self.failed(error))? {
                Place::Holds => {
                    self.crowded.store(crowded, Ordering::Relaxed);
                    term.trusted().await.map_err(|error| self.failed(error))?;
                    return Ok(self.held(bid));
                }
                Place::Waits { nearest, .. } => {
                    crowded = true;
                    bid.wait_for(&nearest).await.map_err(|error| self.failed(error))?;
                }
                Place::Gone => (bid, seen) = self.bid(term).await?,
                Place::Exhausted => return Err(self.exhausted()),
            }
        }
    }

    /// Takes it if nobody comes before us.
    pub async fn try_acquire(&self) -> Result<TryAcquire, LockError> {
        let term = self.session.term();
        let (mut bid, mut seen) = self.bid(&term).await?;
        loop {
            let (first, holds) = match bid.look(seen.take()).await.map_err(|error| self.failed(error))? {
                Place::Holds => {
                    term.trusted().await.map_err(|error| self.failed(error))?;
                    return Ok(TryAcquire::Acquired(self.held(bid)));
                }
                Place::Waits { first, first_holds, .. } => (first, first_holds),
                Place::Gone => {
                    (bid, seen) = self.bid(&term).await?;
                    continue;
                }
                Place::Exhausted => return Err(self.exhausted()),
            };
            // It may be gone by now, and we the first: then look again.
            if let Some(first) = self.contestants(&term, vec![(first, holds)]).await?.pop() {
                bid.withdraw().await.map_err(|error| self.failed(error))?;
                return Ok(TryAcquire::HeldBy(first));
            }
        }
    }

    /// Everybody who contends, in order.
    pub async fn contenders(&self) -> Result<Vec<Contestant>, LockError> {
        let term = self.session.term();
        let names = match term.children(&self.contest.dir).await {
            Err(CallError::NoZnode { .. }) => return Ok(Vec::new()),
            names => names.map_err(|error| self.failed(error))?,
        };
        let all = self.contest.dialect.contenders(names.iter().map(String::as_str));
        let holders = contest::holders(&all);
        let all = all.into_iter().enumerate().map(|(place, contender)| (contender, place < holders));
        self.contestants(&term, all.collect()).await
    }

    /// What these say of themselves; who is gone meanwhile is left out.
    async fn contestants(
        &self,
        term: &Term,
        all: Vec<(Contender, bool)>,
    ) -> Result<Vec<Contestant>, LockError> {
        let path = |contender: &Contender| format!("{}/{}", self.contest.dir, contender.name);
        let paths: Vec<String> = all.iter().map(|(contender, _)| path(contender)).collect();
        let read = term.get_many(&paths).await.map_err(|error| self.failed(error))?;
        let contestants = all.into_iter().zip(read).filter_map(|((contender, holds), read)| {
            let (data, stat) = read?;
            Some(Contestant {
                identifier: String::from_utf8_lossy(&data).into_owned(),
                holds,
                mode: contender.mode,
                session_id: stat.ephemeral_owner,
                since_ms: stat.ctime_ms,
            })
        });
        Ok(contestants.collect())
    }

    async fn bid(&self, term: &Term) -> Result<(Bid, Option<Seen>), LockError> {
        let crowded = self.crowded.load(Ordering::Relaxed);
        let first_look = if crowded { FirstLook::After } else { FirstLook::Along };
        Bid::place(term, &self.contest, first_look).await.map_err(|error| self.failed(error))
    }

    fn held(&self, bid: Bid) -> Held {
        let grant = bid.grant();
        debug!(path = self.contest.dir, fence = %grant.fence(), "lock acquired");
        Held { grant, bid, dir: self.contest.dir.clone(), _session: self.session.clone() }
    }

    fn failed(&self, source: CallError) -> LockError {
        LockError::Call { dir: self.contest.dir.clone(), source }
    }

    fn exhausted(&self) -> LockError {
        LockError::Exhausted { dir: self.contest.dir.clone() }
    }
}

/// The lock is ours: until we release it, or lose it. What can be done under it is said at [`Grant`]. Dropped, it is
/// released in the background, and nobody learns whether it had been lost.
#[derive(Debug)]
#[must_use = "dropped, it is released"]
pub struct Held {
    grant: Grant,
    bid: Bid,
    dir: String,
    /// Without a handle the ZooKeeper session would end, and the lock with it.
    _session: Session,
}

impl Held {
    /// Gives it to the next. An error means that it was lost before, or that nobody knows yet and it goes on in the
    /// background. A lost reply is resolved here.
    pub async fn release(self) -> Result<(), LockError> {
        let Self { bid, dir, .. } = self;
        match bid.withdraw().await {
            Ok(true) => Ok(()),
            Ok(false) => Err(LockError::Lost { dir }),
            Err(source) => Err(LockError::Call { dir, source }),
        }
    }

    /// A view of it for others who work under it. It does not release.
    pub fn grant(&self) -> Grant {
        self.grant.clone()
    }
}

impl Deref for Held {
    type Target = Grant;

    fn deref(&self) -> &Grant {
        &self.grant
    }
}
