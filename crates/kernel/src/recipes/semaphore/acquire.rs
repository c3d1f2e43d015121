//! The way in: join the queue, be first, find room, enter. What is decided on the way stands in `decide`.

use futures_util::future::{try_join, try_join3};
use menagerie_znodes::quote::Quoted;
use menagerie_znodes::{Kind, Name, Raw, Znode};

use super::decide::{Decision, Limit, NoLimit, decide, parse};
use super::error::SemaphoreError;
use super::mark::{is_marked, marked};
use super::permit::{Claim, Held};
use super::{Semaphore, TryAcquire};
use crate::error::CallError;
use crate::recipes::bid::{Bid, Contest, FirstLook, Place, Seen};
use crate::recipes::contest::{Dialect, Mode};
use crate::retry;
use crate::session::{Stat, Term};
use crate::transaction::{Transaction, TransactionError};
use crate::unique;

/// Whether to wait for room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Patience {
    Waits,
    None,
}

/// The znode that will say that we are in. One for each place in the queue: the server may keep the session before for a
/// while, and with it a znode that we must not take for ours.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    /// Its name in the directory.
    pub name: String,
    pub kind: Kind,
    /// Tells one that stays from others of its name.
    pub mark: String,
}

impl Entry {
    /// Of a ticket of this name; without one, of a permit.
    fn new(ticket: Option<&Name>) -> Self {
        match ticket {
            Some(name) => Self::persistent(name),
            None => Self { name: unique::hex(), kind: Kind::Ephemeral, mark: String::new() },
        }
    }

    pub fn persistent(name: &Name) -> Self {
        Self { name: Quoted(name.as_str()).to_string(), kind: Kind::Persistent, mark: unique::hex() }
    }

    fn stays(&self) -> bool {
        self.kind == Kind::Persistent
    }

    fn data(&self, identifier: &str) -> Vec<u8> {
        if self.stays() { marked(identifier, &self.mark) } else { identifier.as_bytes().to_vec() }
    }

    /// Whether it is this one that was found, and not one that somebody else has put there.
    fn is_this(&self, term: &Term, data: &[u8], stat: &Stat) -> bool {
        if self.stays() { is_marked(data, &self.mark) } else { self.may_be_taken(term, stat) }
    }

    /// Whether we are in with what was found. A ticket is whoever's takes up its name; a permit goes with its session.
    fn may_be_taken(&self, term: &Term, stat: &Stat) -> bool {
        self.stays() || stat.ephemeral_owner == term.session_id()
    }
}

/// What came of the transaction that enters.
enum Entered {
    Yes(Stat),
    /// A ticket of this name is there already, and so is our place in the queue: nothing of the transaction has happened.
    Already(Stat),
    /// The limit or the directory has changed: look again.
    LookAgain,
    /// Our place in the queue is gone: begin again.
    PlaceLost,
}

impl Semaphore {
    /// Gets in, in whichever term it takes.
    pub(super) async fn enter(
        &self,
        ticket: Option<&Name>,
        patience: Patience,
    ) -> Result<TryAcquire<Held>, SemaphoreError> {
        self.session
            .across_terms(|term| async move { self.enter_in(&term.patient(), ticket, patience).await })
            .await
    }

    async fn enter_in(
        &self,
        term: &Term,
        ticket: Option<&Name>,
        patience: Patience,
    ) -> Result<TryAcquire<Held>, SemaphoreError> {
        if !self.agreed() {
            self.agree(term).await?;
        }
        if let Some(name) = ticket
            && let Some(held) = self.taken_before(term, &Entry::persistent(name)).await?
        {
            return Ok(TryAcquire::Acquired(held));
        }
        let queue = Contest {
            dir: self.queue.clone(),
            dialect: Dialect::Kazoo,
            mode: Mode::Exclusive,
            identifier: self.identifier.clone().into_bytes(),
        };
        loop {
            let entry = &Entry::new(ticket);
            // Before anything is created: dropped from here on, nothing is left behind.
            let mut claim = Claim::new(self, term, entry);
            let placed = Bid::place(term, &queue, FirstLook::Along).await;
            let (bid, seen) = placed.map_err(|error| self.failed(error))?;
            match self.queue_up(&bid, seen, term, entry, patience, &mut claim).await? {
                Some(Entered::Yes(stat)) => {
                    bid.spent();
                    // A ticket outlives its session, so no lease stands behind it.
                    if !entry.stays() {
                        term.trusted().await.map_err(|error| self.failed(error))?;
                    }
                    return Ok(TryAcquire::Acquired(claim.held(stat)));
                }
                Some(Entered::Already(stat)) => {
                    // Else it would stay in the way of all others for as long as our session lives.
                    bid.withdraw().await.map_err(|error| self.failed(error))?;
                    return Ok(TryAcquire::Acquired(claim.held(stat)));
                }
                Some(Entered::LookAgain | Entered::PlaceLost) => {}
                None => {
                    bid.withdraw().await.map_err(|error| self.failed(error))?;
                    let (holders, waiters) = (self.holders_in(term).await?, self.waiters_in(term).await?);
                    return Ok(TryAcquire::Busy { holders, waiters });
                }
            }
        }
    }

    /// From a place in the queue to the inside. `None`: it takes longer than we wait.
    async fn queue_up(
        &self,
        bid: &Bid,
        mut seen: Option<Seen>,
        term: &Term,
        entry: &Entry,
        patience: Patience,
        claim: &mut Claim,
    ) -> Result<Option<Entered>, SemaphoreError> {
        loop {
            match bid.look(seen.take()).await.map_err(|error| self.failed(error))? {
                Place::Gone => return Ok(Some(Entered::PlaceLost)),
                Place::Exhausted => {
                    return Err(SemaphoreError::Exhausted { path: self.dir.clone() });
                }
                Place::Waits { .. } if patience == Patience::None => return Ok(None),
                Place::Waits { nearest, .. } => {
                    bid.wait_for(&nearest).await.map_err(|error| self.failed(error))?;
                    continue;
                }
                Place::Holds => {}
            }
            let (holders, limit) = self.look(term).await?;
            match decide(&entry.name, &holders, limit) {
                Decision::Wait if patience == Patience::None => return Ok(None),
                Decision::Wait => self.wait_for_room(term, bid, entry).await?,
                Decision::Inside => match self.already(term, entry).await? {
                    Entered::LookAgain => {}
                    entered => return Ok(Some(entered)),
                },
                Decision::Enter => {
                    claim.arm();
                    let entered = self.cross(term, bid, entry, limit).await?;
                    if !matches!(entered, Entered::Yes(_)) {
                        claim.disarm();
                    }
                    match entered {
                        Entered::LookAgain => {}
                        entered => return Ok(Some(entered)),
                    }
                }
            }
        }
    }

    /// The holders and the limit. Looked at after the queue: `decide` says why.
    async fn look(&self, term: &Term) -> Result<(Vec<String>, Limit), SemaphoreError> {
        loop {
            match try_join(term.children(&self.dir), term.get(&self.dir)).await {
                Ok((holders, (data, stat))) => match parse(&data) {
                    Ok(permits) => return Ok((holders, Limit { permits, version: stat.version })),
                    Err(NoLimit::Unreadable(stored)) => return Err(self.unreadable(stored)),
                    Err(NoLimit::Nothing) => self.agree(term).await?,
                },
                // Somebody removed it under us.
                Err(CallError::NoZnode { .. }) => self.agree(term).await?,
                Err(error) => return Err(self.failed(error)),
            }
        }
    }

    /// Waits until something has changed that may let us in; or our own place has gone: who has lost it must not think that
    /// it is still first. Watches are asked for only here, so that who finds room does not leave any with the server.
    async fn wait_for_room(&self, term: &Term, bid: &Bid, entry: &Entry) -> Result<(), SemaphoreError> {
        let path = bid.path();
        let watched =
            try_join3(term.children_watched(&self.dir), term.get_watched(&self.dir), term.get_watched(&path));
        let (holders, limit, place) = match watched.await {
            Ok(((names, _, holders), (data, stat, limit), (_, _, place))) => match parse(&data) {
                Ok(permits) => {
                    let now = Limit { permits, version: stat.version };
                    if decide(&entry.name, &names, now) != Decision::Wait {
                        return Ok(());
                    }
                    (holders, limit, place)
                }
                Err(_) => return Ok(()),
            },
            Err(CallError::NoZnode { .. }) => return Ok(()),
            Err(error) => return Err(self.failed(error)),
        };
        tokio::select! {
            _ = holders.changed() => {}
            _ = limit.changed() => {}
            _ = place.changed() => {}
        }
        Ok(())
    }

    /// Enters, in one transaction: if we are still in the queue, and the limit is still the one that we know.
    async fn cross(
        &self,
        term: &Term,
        bid: &Bid,
        entry: &Entry,
        limit: Limit,
    ) -> Result<Entered, SemaphoreError> {
        let path = self.path_of(&entry.name);
        let dir: Znode<Raw> = Znode::foreign(self.dir.as_str(), Kind::Persistent);
        let holder: Znode<Raw> = Znode::foreign(path.as_str(), entry.kind);
        let place: Znode<Raw> = Znode::foreign(bid.path(), Kind::EphemeralSequence);
        let data = Raw(entry.data(&self.identifier));
        let entering = Transaction::fenced(term, place.path())
            .check(&dir, Some(limit.version))
            .create(&holder, &data)
            .delete(&place, None);
        let inside = || async {
            match term.get(&path).await {
                Ok((data, stat)) => Ok(entry.is_this(term, &data, &stat).then(Vec::new)),
                Err(CallError::NoZnode { .. }) => Ok(None),
                Err(error) => Err(error),
            }
        };
        match retry::commit_ephemeral(entering, inside).await {
            Ok(_) => {}
            Err(TransactionError::Lost { .. }) => return Ok(Entered::PlaceLost),
            Err(TransactionError::Part { source, .. }) => match source {
                // The limit was changed, or the directory removed.
                CallError::BadVersion { .. } | CallError::NoZnode { .. } => return Ok(Entered::LookAgain),
                // A ticket of this name is there by now; another look finds it, and leaves the claim unarmed meanwhile.
                CallError::Exists { .. } => return Ok(Entered::LookAgain),
                error => return Err(self.failed(error)),
            },
            Err(TransactionError::Call(error)) => return Err(self.failed(error)),
        }
        // Not from the transaction: Apache ZooKeeper fills in nonsense there. Somebody may have thrown us out already.
        let stat = term.stat(&path).await.map_err(|error| self.failed(error))?;
        let stat = stat.filter(|stat| entry.may_be_taken(term, stat));
        Ok(stat.map_or(Entered::PlaceLost, Entered::Yes))
    }

    /// Takes up what is there under our name. If it is somebody else's, it takes another name to get in.
    async fn already(&self, term: &Term, entry: &Entry) -> Result<Entered, SemaphoreError> {
        if entry.stays() {
            let taken_up = self.take_up(term, entry).await.map_err(|error| self.failed(error))?;
            return Ok(taken_up.map_or(Entered::LookAgain, Entered::Already));
        }
        let stat = term.stat(&self.path_of(&entry.name)).await.map_err(|error| self.failed(error))?;
        Ok(match stat {
            Some(stat) if entry.may_be_taken(term, &stat) => Entered::Already(stat),
            Some(_) => Entered::PlaceLost,
            None => Entered::LookAgain,
        })
    }

    pub(super) fn path_of(&self, name: &str) -> String {
        format!("{}/{name}", self.dir)
    }
}
