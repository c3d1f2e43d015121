//! A fair lock: contenders hold in the order in which they came, and one release wakes one contender.
//!
//! # What it promises
//! - At most one contender holds at a time, as the server sees it. A holder that was cut off, frozen or forgotten learns
//!   of it late; so writes go through [`LockGuard`]'s [`transaction`](Grant::transaction), which is refused once the lock is
//!   lost, and whatever is outside ZooKeeper gets the [`fence`](Grant::fence).
//! - Holders follow each other in the order in which the server created their contenders.
//! - A dropped future or a dropped guard leaves no contender behind; a lost reply makes no second one.
//! - A release can be part of the holder's last transaction: see [`LockGuard::release_with`].
//! - Uncontended, acquiring and releasing is two round trips, and three right after others have contended; waiting costs one
//!   watch, on the nearest contender only.
//!
//! # What it does not
//! - It is not re-entrant: a holder that asks again waits for itself.
//! - A waiter whose ZooKeeper session expires, or whose contender is removed, contends again, at the end of the line.
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

use super::bid::{Bid, Contest, FirstRead, OwnedStanding, SeenNames};
use super::contest::{self, Contender, Dialect, Mode};
use super::grant::Grant;
use crate::error::{CallError, Remedy};
use crate::session::{Session, Term, TermError};
use crate::transaction::Transaction;

/// Why a lock was not acquired, or was lost. Elections share these errors.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs, reason = "the fields of errors name themselves")]
pub enum LockError {
    /// The lock was lost before it was released: another holder may have worked at the same time.
    #[error("what was held in {dir} was lost before it was released")]
    Lost { dir: String },
    /// The directory has used up its ticket numbers.
    #[error("{dir} has used up its numbers; delete it while nobody contends")]
    Exhausted { dir: String },
    /// A call failed for good.
    #[error("cannot contend in {dir}")]
    Call { dir: String, source: CallError },
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

/// A contender, as others see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contestant {
    /// As given to [`Lock::identified_by`].
    pub identifier: String,
    /// Whether it holds the lock now.
    pub holds: bool,
    /// What it asks for.
    pub mode: Mode,
    /// The ZooKeeper session that owns it.
    pub session_id: i64,
    /// When it began to contend, by the server's clock.
    pub since_ms: i64,
}

/// Outcome of an attempt that does not wait.
#[derive(Debug)]
#[must_use = "dropped, it is released again"]
pub enum TryAcquire {
    /// We hold the lock.
    Acquired(LockGuard),
    /// Others come first; this is the first of them.
    HeldBy(Contestant),
}

/// A lock to contend for. Cheap to clone; each [`acquire`](Self::acquire) is a contender of its own.
#[derive(Debug, Clone)]
pub struct Lock {
    session: Session,
    contest: Contest,
    /// The last attempt had to wait, so the next probably will, too. It affects only speed.
    crowded: Arc<AtomicBool>,
}

impl Lock {
    /// The lock whose contenders are in this directory, which is created if it is missing.
    pub fn new(session: &Session, dir: Znode<Dir>) -> Self {
        Self::in_mode(session, dir, Mode::Exclusive)
    }

    pub(super) fn in_mode(session: &Session, dir: Znode<Dir>, mode: Mode) -> Self {
        let dir = dir.path().to_owned();
        let contest = Contest { dir, dialect: Dialect::Kazoo, mode, identifier: Vec::new() };
        Self { session: session.clone(), contest, crowded: Arc::default() }
    }

    /// The identifier that [`contenders`](Self::contenders) shows.
    pub fn identified_by(mut self, identifier: impl Into<String>) -> Self {
        self.contest.identifier = identifier.into().into_bytes();
        self
    }

    /// Uses another naming scheme, to contend with programs that use it. All contenders of a directory must use the
    /// same.
    pub fn in_dialect(mut self, dialect: Dialect) -> Self {
        self.contest.dialect = dialect;
        self
    }

    /// Waits for our turn, through lost connections and expired sessions. To give up, drop the future: nothing is left
    /// behind.
    pub async fn acquire(&self) -> Result<LockGuard, LockError> {
        self.session.across_terms(|term| async move { self.acquire_in(&term).await }).await
    }

    async fn acquire_in(&self, term: &Term) -> Result<LockGuard, LockError> {
        let (mut bid, mut seen) = self.bid(term).await?;
        let mut crowded = false;
        loop {
            match bid.read_standing(seen.take()).await.map_err(|error| self.call_error(error))? {
                OwnedStanding::Holds => {
                    self.crowded.store(crowded, Ordering::Relaxed);
                    term.trusted().await.map_err(|error| self.call_error(error))?;
                    return Ok(self.guard(bid));
                }
                OwnedStanding::Waits { nearest, .. } => {
                    crowded = true;
                    bid.wait_for(&nearest).await.map_err(|error| self.call_error(error))?;
                }
                OwnedStanding::Gone => (bid, seen) = self.bid(term).await?,
                OwnedStanding::Exhausted => return Err(self.exhausted()),
            }
        }
    }

    /// Acquires the lock if nobody comes before us.
    pub async fn try_acquire(&self) -> Result<TryAcquire, LockError> {
        let term = self.session.term();
        let (mut bid, mut seen) = self.bid(&term).await?;
        loop {
            let (first, holds) =
                match bid.read_standing(seen.take()).await.map_err(|error| self.call_error(error))? {
                    OwnedStanding::Holds => {
                        term.trusted().await.map_err(|error| self.call_error(error))?;
                        return Ok(TryAcquire::Acquired(self.guard(bid)));
                    }
                    OwnedStanding::Waits { first, first_holds, .. } => (first, first_holds),
                    OwnedStanding::Gone => {
                        (bid, seen) = self.bid(&term).await?;
                        continue;
                    }
                    OwnedStanding::Exhausted => return Err(self.exhausted()),
                };
            // It may be gone by now, and we may be first: then read again.
            if let Some(first) = self.contestants(&term, vec![(first, holds)]).await?.pop() {
                bid.withdraw().await.map_err(|error| self.call_error(error))?;
                return Ok(TryAcquire::HeldBy(first));
            }
        }
    }

    /// All contenders, in order.
    pub async fn contenders(&self) -> Result<Vec<Contestant>, LockError> {
        let term = self.session.term();
        let names = match term.children(&self.contest.dir).await {
            Err(CallError::NoZnode { .. }) => return Ok(Vec::new()),
            names => names.map_err(|error| self.call_error(error))?,
        };
        let all = self.contest.dialect.contenders(names.iter().map(String::as_str));
        let holders = contest::holders(&all);
        let all = all.into_iter().enumerate().map(|(place, contender)| (contender, place < holders));
        self.contestants(&term, all.collect()).await
    }

    /// Reads the znodes of these contenders; those that are gone meanwhile are left out.
    async fn contestants(
        &self,
        term: &Term,
        all: Vec<(Contender, bool)>,
    ) -> Result<Vec<Contestant>, LockError> {
        let path = |contender: &Contender| format!("{}/{}", self.contest.dir, contender.name);
        let paths: Vec<String> = all.iter().map(|(contender, _)| path(contender)).collect();
        let read = term.get_many(&paths).await.map_err(|error| self.call_error(error))?;
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

    async fn bid(&self, term: &Term) -> Result<(Bid, Option<SeenNames>), LockError> {
        let crowded = self.crowded.load(Ordering::Relaxed);
        let first_read = if crowded { FirstRead::AfterCreation } else { FirstRead::Pipelined };
        Bid::place(term, &self.contest, first_read).await.map_err(|error| self.call_error(error))
    }

    fn guard(&self, bid: Bid) -> LockGuard {
        let grant = bid.grant();
        debug!(path = self.contest.dir, fence = %grant.fence(), "lock acquired");
        LockGuard { grant, bid, dir: self.contest.dir.clone(), _session: self.session.clone() }
    }

    fn call_error(&self, source: CallError) -> LockError {
        LockError::Call { dir: self.contest.dir.clone(), source }
    }

    fn exhausted(&self) -> LockError {
        LockError::Exhausted { dir: self.contest.dir.clone() }
    }
}

/// We hold the lock, until we release or lose it. See [`Grant`] for what can be done under it. Dropping it releases it
/// in the background, and nobody learns whether it had been lost.
#[derive(Debug)]
#[must_use = "dropped, it is released"]
pub struct LockGuard {
    grant: Grant,
    bid: Bid,
    dir: String,
    /// Keeps the ZooKeeper session open, and the lock with it.
    _session: Session,
}

impl LockGuard {
    /// Releases the lock to the next contender. An error means that it was lost before, or that the outcome is unknown
    /// yet and the release goes on in the background. Lost replies are resolved here.
    pub async fn release(self) -> Result<(), LockError> {
        let Self { bid, dir, .. } = self;
        match bid.withdraw().await {
            Ok(true) => Ok(()),
            Ok(false) => Err(LockError::Lost { dir }),
            Err(source) => Err(LockError::Call { dir, source }),
        }
    }

    /// Releases the lock together with the work done under it: adds the deletion of our ticket to a transaction, as its
    /// last part, because a check of the ticket that came later would fail. Start from
    /// [`transaction`](Grant::transaction): then the commit fails with [`TransactionError::Lost`] if the lock was lost
    /// before, and nothing of it happens. Once it has happened, call [`released`](Self::released).
    ///
    /// After a lost reply the missing ticket proves nothing: the session may have expired instead. So let the transaction
    /// write something that nobody else ever writes, such as our [`fence`](Grant::fence), and look for it in the proof for
    /// [`retry::commit`](crate::retry::commit). The next holder may have overwritten it by then; a proof that took this
    /// for "not happened" would turn a pass that has happened into `Lost`, so it is [`CallError::Unknown`]. If the outcome
    /// stays unknown, drop the guard, which withdraws the ticket if it is still there, and read the state again under
    /// the next lock.
    ///
    /// [`TransactionError::Lost`]: crate::TransactionError::Lost
    ///
    /// ```no_run
    /// # use menagerie_kernel::{CallError, TransactionError, recipes::lock::LockGuard, retry};
    /// # use menagerie_znodes::{Text, Znode};
    /// # async fn pass(held: LockGuard, status: &Znode<Text>, last_pass: &Znode<Text>) -> Result<(), TransactionError> {
    /// let term = &held.term().patient();
    /// let before = &term.read(last_pass).await?.map(|found| found.value);
    /// let ours = &Text(held.fence().to_string());
    /// let work = held.transaction().set(status, &Text("done".to_owned()), None).set(last_pass, ours, None);
    /// let proof = || async move {
    ///     match term.read(last_pass).await?.map(|found| found.value) {
    ///         Some(found) if found == *ours => Ok(Some(Vec::new())),
    ///         found if found == *before => Ok(None),
    ///         _ => Err(CallError::Unknown { path: last_pass.path().to_owned() }),
    ///     }
    /// };
    /// retry::commit(held.release_with(work), proof).await?;
    /// held.released();
    /// # Ok(())
    /// # }
    /// ```
    pub fn release_with(&self, transaction: Transaction) -> Transaction {
        transaction.delete_at(self.grant.ticket(), None)
    }

    /// Notes that a transaction [with our release](Self::release_with) has been committed, so that nothing is left to
    /// withdraw. Only then: otherwise the lock stays held as long as the session lives.
    pub fn released(self) {
        self.bid.spent();
    }

    /// A grant for others that work under this lock. It does not release.
    pub fn grant(&self) -> Grant {
        self.grant.clone()
    }
}

impl Deref for LockGuard {
    type Target = Grant;

    fn deref(&self) -> &Grant {
        &self.grant
    }
}
