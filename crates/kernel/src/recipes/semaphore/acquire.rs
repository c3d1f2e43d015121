//! Acquiring: join the queue, become first, find room, enter. `decide` makes the decisions.

use futures_util::future::{try_join, try_join3};
use menagerie_znodes::quote::Quoted;
use menagerie_znodes::{Kind, Name, Raw, Znode};

use super::decide::{Decision, Limit, NoLimit, decide, parse};
use super::error::SemaphoreError;
use super::mark::{is_marked, marked};
use super::permit::{Admission, Claim};
use super::{Semaphore, TryAcquire};
use crate::error::CallError;
use crate::recipes::bid::{Bid, Contest, FirstRead, OwnedStanding, SeenNames};
use crate::recipes::contest::{Dialect, Mode};
use crate::retry;
use crate::session::{Stat, Term};
use crate::transaction::{Transaction, TransactionError};
use crate::unique;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Patience {
    Waits,
    None,
}

/// The znode that makes us a holder. Each place in the queue gets a new one: the server may keep our previous session
/// for a while, and with it a znode that we must not mistake for the new one.
#[derive(Debug, Clone)]
pub(super) struct HolderZnode {
    /// Its name in the directory.
    pub name: String,
    pub kind: Kind,
    /// Tells a persistent znode from others of its name.
    pub mark: String,
}

impl HolderZnode {
    /// For a ticket of this name; without a name, for a permit.
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

    /// Whether the znode with this data and stat is this one, and not somebody else's.
    fn is_this(&self, term: &Term, data: &[u8], stat: &Stat) -> bool {
        if self.stays() { is_marked(data, &self.mark) } else { self.may_be_taken(term, stat) }
    }

    /// Whether an existing znode makes us a holder. Whoever takes up a ticket's name has the ticket; a permit belongs
    /// to its session.
    fn may_be_taken(&self, term: &Term, stat: &Stat) -> bool {
        self.stays() || stat.ephemeral_owner == term.session_id()
    }
}

/// Outcome of the transaction that enters.
enum Entered {
    Yes(Stat),
    /// A ticket of this name exists already, and we are still in the queue: nothing of the transaction has happened.
    Already(Stat),
    /// The limit or the directory has changed: decide again.
    LookAgain,
    /// Our place in the queue is gone: queue up again.
    PlaceLost,
}

impl Semaphore {
    /// Enters, through as many terms as it takes.
    pub(super) async fn enter(
        &self,
        ticket: Option<&Name>,
        patience: Patience,
    ) -> Result<TryAcquire<Admission>, SemaphoreError> {
        self.session
            .across_terms(|term| async move { self.enter_in(&term.patient(), ticket, patience).await })
            .await
    }

    async fn enter_in(
        &self,
        term: &Term,
        ticket: Option<&Name>,
        patience: Patience,
    ) -> Result<TryAcquire<Admission>, SemaphoreError> {
        if !self.agreed() {
            self.agree(term).await?;
        }
        if let Some(name) = ticket
            && let Some(held) = self.taken_before(term, &HolderZnode::persistent(name)).await?
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
            let holder = &HolderZnode::new(ticket);
            // Before anything is created: dropped from here on, nothing is left behind.
            let mut claim = Claim::new(self, term, holder);
            let placed = Bid::place(term, &queue, FirstRead::Pipelined).await;
            let (bid, seen) = placed.map_err(|error| self.call_error(error))?;
            match self.queue_up(&bid, seen, term, holder, patience, &mut claim).await? {
                Some(Entered::Yes(stat)) => {
                    bid.spent();
                    // A ticket outlives its session, so it needs no lease.
                    if !holder.stays() {
                        term.trusted().await.map_err(|error| self.call_error(error))?;
                    }
                    return Ok(TryAcquire::Acquired(claim.admit(stat)));
                }
                Some(Entered::Already(stat)) => {
                    // Otherwise our place would block all others as long as our session lives.
                    bid.withdraw().await.map_err(|error| self.call_error(error))?;
                    return Ok(TryAcquire::Acquired(claim.admit(stat)));
                }
                Some(Entered::LookAgain | Entered::PlaceLost) => {}
                None => {
                    bid.withdraw().await.map_err(|error| self.call_error(error))?;
                    let (holders, waiters) = (self.holders_in(term).await?, self.waiters_in(term).await?);
                    return Ok(TryAcquire::Busy { holders, waiters });
                }
            }
        }
    }

    /// From a place in the queue to a holder. `None`: there is no room, and we do not wait.
    async fn queue_up(
        &self,
        bid: &Bid,
        mut seen: Option<SeenNames>,
        term: &Term,
        holder: &HolderZnode,
        patience: Patience,
        claim: &mut Claim,
    ) -> Result<Option<Entered>, SemaphoreError> {
        loop {
            match bid.read_standing(seen.take()).await.map_err(|error| self.call_error(error))? {
                OwnedStanding::Gone => return Ok(Some(Entered::PlaceLost)),
                OwnedStanding::Exhausted => {
                    return Err(SemaphoreError::Exhausted { path: self.dir.clone() });
                }
                OwnedStanding::Waits { .. } if patience == Patience::None => return Ok(None),
                OwnedStanding::Waits { nearest, .. } => {
                    bid.wait_for(&nearest).await.map_err(|error| self.call_error(error))?;
                    continue;
                }
                OwnedStanding::Holds => {}
            }
            let (holders, limit) = self.read_holders_and_limit(term).await?;
            match decide(&holder.name, &holders, limit) {
                Decision::Wait if patience == Patience::None => return Ok(None),
                Decision::Wait => self.wait_for_room(term, bid, holder).await?,
                Decision::Inside => match self.already(term, holder).await? {
                    Entered::LookAgain => {}
                    entered => return Ok(Some(entered)),
                },
                Decision::Enter => {
                    claim.arm();
                    let entered = self.cross(term, bid, holder, limit).await?;
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

    /// Must be read after the queue: `decide` says why.
    async fn read_holders_and_limit(&self, term: &Term) -> Result<(Vec<String>, Limit), SemaphoreError> {
        loop {
            match try_join(term.children(&self.dir), term.get(&self.dir)).await {
                Ok((holders, (data, stat))) => match parse(&data) {
                    Ok(permits) => return Ok((holders, Limit { permits, version: stat.version })),
                    Err(NoLimit::Unreadable(stored)) => return Err(self.unreadable(stored)),
                    Err(NoLimit::Nothing) => self.agree(term).await?,
                },
                // Somebody removed the directory meanwhile.
                Err(CallError::NoZnode { .. }) => self.agree(term).await?,
                Err(error) => return Err(self.call_error(error)),
            }
        }
    }

    /// Waits for a change that may let us in, or for the loss of our own place: without it we must not believe that we
    /// are still first. Only waiting sets watches, so that a contender that finds room leaves none with the server.
    async fn wait_for_room(
        &self,
        term: &Term,
        bid: &Bid,
        holder: &HolderZnode,
    ) -> Result<(), SemaphoreError> {
        let path = bid.path();
        let watched =
            try_join3(term.children_watched(&self.dir), term.get_watched(&self.dir), term.get_watched(&path));
        let (holders, limit, place) = match watched.await {
            Ok(((names, _, holders), (data, stat, limit), (_, _, place))) => match parse(&data) {
                Ok(permits) => {
                    let now = Limit { permits, version: stat.version };
                    if decide(&holder.name, &names, now) != Decision::Wait {
                        return Ok(());
                    }
                    (holders, limit, place)
                }
                Err(_) => return Ok(()),
            },
            Err(CallError::NoZnode { .. }) => return Ok(()),
            Err(error) => return Err(self.call_error(error)),
        };
        tokio::select! {
            _ = holders.changed() => {}
            _ = limit.changed() => {}
            _ = place.changed() => {}
        }
        Ok(())
    }

    /// Enters in one transaction that checks that we are still in the queue and that the limit is the one we know.
    async fn cross(
        &self,
        term: &Term,
        bid: &Bid,
        holder: &HolderZnode,
        limit: Limit,
    ) -> Result<Entered, SemaphoreError> {
        let path = self.path_of(&holder.name);
        let dir: Znode<Raw> = Znode::foreign(self.dir.as_str(), Kind::Persistent);
        let znode: Znode<Raw> = Znode::foreign(path.as_str(), holder.kind);
        let place: Znode<Raw> = Znode::foreign(bid.path(), Kind::EphemeralSequence);
        let data = Raw(holder.data(&self.identifier));
        let entering = Transaction::fenced(term, place.path())
            .check(&dir, Some(limit.version))
            .create(&znode, &data)
            .delete(&place, None);
        let inside = || async {
            match term.get(&path).await {
                Ok((data, stat)) => Ok(holder.is_this(term, &data, &stat).then(Vec::new)),
                Err(CallError::NoZnode { .. }) => Ok(None),
                Err(error) => Err(error),
            }
        };
        match retry::commit_ephemeral(entering, inside).await {
            Ok(_) => {}
            Err(TransactionError::Lost { .. }) => return Ok(Entered::PlaceLost),
            Err(TransactionError::Part { source, .. }) => match source {
                // Somebody changed the limit, or removed the directory.
                CallError::BadVersion { .. } | CallError::NoZnode { .. } => return Ok(Entered::LookAgain),
                // A ticket of this name exists by now; the next pass finds it, and the claim stays disarmed until then.
                CallError::Exists { .. } => return Ok(Entered::LookAgain),
                error => return Err(self.call_error(error)),
            },
            Err(TransactionError::Call(error)) => return Err(self.call_error(error)),
        }
        // Not from the transaction's result: Apache ZooKeeper fills in nonsense there. Somebody may have revoked us
        // already.
        let stat = term.stat(&path).await.map_err(|error| self.call_error(error))?;
        let stat = stat.filter(|stat| holder.may_be_taken(term, stat));
        Ok(stat.map_or(Entered::PlaceLost, Entered::Yes))
    }

    /// Takes up the existing znode of our name. If it is somebody else's, we need another name.
    async fn already(&self, term: &Term, holder: &HolderZnode) -> Result<Entered, SemaphoreError> {
        if holder.stays() {
            let taken_up = self.take_up(term, holder).await.map_err(|error| self.call_error(error))?;
            return Ok(taken_up.map_or(Entered::LookAgain, Entered::Already));
        }
        let stat = term.stat(&self.path_of(&holder.name)).await.map_err(|error| self.call_error(error))?;
        Ok(match stat {
            Some(stat) if holder.may_be_taken(term, &stat) => Entered::Already(stat),
            Some(_) => Entered::PlaceLost,
            None => Entered::LookAgain,
        })
    }

    pub(super) fn path_of(&self, name: &str) -> String {
        format!("{}/{name}", self.dir)
    }
}
