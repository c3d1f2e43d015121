//! Holding a slot, and releasing it.

use menagerie_kernel::session::Watch;
use menagerie_kernel::{CallError, Fence, Session, Term, Transaction, retry};
use menagerie_znodes::slots::{self, Event, Holder, Process, What};
use menagerie_znodes::{Name, Payload, Text, Znode};
use tracing::warn;

use crate::core::{Attempts, QueuePlace};
use crate::error::{Commit, SlotsError, committed};
use crate::history;
use crate::mend;
use crate::snapshot::Snapshot;

/// A slot that is ours. Dropping this does not release it: a slot outlives its process unless it is ephemeral.
#[derive(Debug, Clone)]
pub struct HeldSlot {
    session: Session,
    pool: Name,
    number: u32,
    ticket: String,
    holder: Holder,
    fence: Option<Fence>,
    /// The term of an ephemeral slot.
    term: Option<Term>,
    /// An earlier run held it: its work may be half done.
    is_resumed: bool,
    sign: LifeSign,
    /// The place in the queue, if it stays until the release; it lives in the same term as the sign of life.
    place: Option<QueuePlace>,
    /// The slot's version, if we know how often we wrote it: any other version was written by hand.
    version: Option<i32>,
}

/// What we know of the sign of life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LifeSign {
    Unknown,
    /// No process stands for the holder.
    None,
    /// Created in the term of this number, and ends with it.
    In(u64),
}

/// State of a release that is retried until its outcome is known.
struct Releasing {
    may_have_happened: bool,
    sign: LifeSign,
    attempts: Attempts,
}

impl HeldSlot {
    /// A slot that may be ours: a release must read first.
    pub(crate) fn unconfirmed(
        session: Session,
        pool: Name,
        number: u32,
        ticket: String,
        holder: Holder,
    ) -> Self {
        Self {
            session,
            pool,
            number,
            ticket,
            holder,
            fence: None,
            term: None,
            is_resumed: false,
            sign: LifeSign::Unknown,
            place: None,
            version: None,
        }
    }

    /// The slot was given in the term `made_in`, by the transaction `zxid`, as `term` has seen.
    pub(crate) fn confirmed(mut self, made_in: &Term, term: &Term, zxid: i64, snapshot: &Snapshot) -> Self {
        self.fence = Some(term.fence(zxid));
        self.term = self.holder.ephemeral.then(|| term.clone());
        self.is_resumed = snapshot.slots.contains_key(&self.number);
        self.version = Some(snapshot.stats.get(&self.number).map_or(0, |earlier| earlier.version + 1));
        self.sign = self.holder.process.map_or(LifeSign::None, |_| LifeSign::In(made_in.number()));
        self.place = snapshot.place_of(&self.ticket).cloned();
        self
    }

    /// Finds a slot that an earlier process of this holder took: for scripts that acquire and release in separate
    /// commands.
    pub async fn find(session: &Session, pool: &Name, holder: &str) -> Result<Self, SlotsError> {
        let term = session.term();
        // Another server may have served an acquire or release a moment ago.
        term.sync("/").await?;
        let snapshot = Snapshot::read_damaged(&term, pool).await?;
        let not_held = || SlotsError::NotHeld { pool: pool.to_string(), holder: holder.to_owned() };
        let (number, found) =
            snapshot.slots.iter().find(|(_, other)| other.holder == holder).ok_or_else(not_held)?;
        let ticket = found.ticket.clone().ok_or_else(not_held)?;
        let mut held = Self::unconfirmed(session.clone(), pool.clone(), *number, ticket, found.clone());
        let ticket = slots::ticket(pool, &held.ticket);
        let Some(stat) = term.stat(ticket.path()).await? else {
            // Released since the read, or the ticket was deleted by hand.
            let slot = term.stat(slots::slot(pool, *number).path()).await?;
            let is_left = slot.is_some_and(|slot| Some(&slot) == snapshot.stats.get(number));
            return Err(match is_left {
                true => SlotsError::TicketGone {
                    pool: pool.to_string(),
                    slot: *number,
                    holder: holder.to_owned(),
                    path: ticket.path().to_owned(),
                },
                false => not_held(),
            });
        };
        held.fence = Some(term.fence(stat.czxid));
        held.version = snapshot.stats.get(number).map(|stat| stat.version);
        held.sign = if found.process.is_some() { LifeSign::Unknown } else { LifeSign::None };
        Ok(held)
    }

    pub(crate) fn session(&self) -> &Session {
        &self.session
    }

    /// Number of the slot in its pool.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Rises with every holder of this slot.
    pub fn fence(&self) -> Option<Fence> {
        self.fence
    }

    /// Whether an earlier run held it.
    pub fn is_resumed(&self) -> bool {
        self.is_resumed
    }

    /// The ticket that proves possession.
    pub fn ticket(&self) -> &str {
        &self.ticket
    }

    /// What the slot stores of its holder.
    pub fn holder(&self) -> &Holder {
        &self.holder
    }

    /// The term of an ephemeral slot.
    pub fn term(&self) -> Option<&Term> {
        self.term.as_ref()
    }

    /// Records in the slot which guard runs the command, before the command runs.
    pub(crate) async fn set_guard(&mut self, guard: Process) -> Result<(), SlotsError> {
        self.holder.guard = Some(guard);
        let mut version = self.version.take();
        let mut terms = self.session.term_by_term();
        loop {
            let written = self.write_holder(&terms.term().patient(), &mut version).await;
            if self.holder.ephemeral {
                return written;
            }
            if let Some(written) = terms.finished(written).await {
                return written;
            }
        }
    }

    async fn write_holder(&mut self, term: &Term, version: &mut Option<i32>) -> Result<(), SlotsError> {
        let ticket = slots::ticket(&self.pool, &self.ticket);
        let slot = slots::slot(&self.pool, self.number);
        loop {
            let written = Transaction::fenced(term, ticket.path()).set(&slot, &self.holder, None);
            match committed(written.commit().await)? {
                Commit::Done => {
                    self.version = version.map(|version| version + 1);
                    return Ok(());
                }
                Commit::Stale(_) => {
                    return Err(SlotsError::Lost { pool: self.pool.to_string(), slot: self.number });
                }
                // Writing it twice does no harm.
                Commit::Unknown => *version = None,
            }
        }
    }

    /// Releases the slot. After an error it is still held, except after [`SlotsError::Lost`].
    pub async fn release(&self) -> Result<(), SlotsError> {
        match self.release_if_held().await? {
            true => Ok(()),
            false => Err(SlotsError::Lost { pool: self.pool.to_string(), slot: self.number }),
        }
    }

    /// Releases the slot if the ticket still exists; returns whether it did.
    pub(crate) async fn release_if_held(&self) -> Result<bool, SlotsError> {
        let mut tried =
            Releasing { may_have_happened: false, sign: self.sign, attempts: Attempts::default() };
        let mut terms = self.session.term_by_term();
        loop {
            let released = self.release_in(&terms.term().patient(), &mut tried).await;
            if let Some(released) = terms.finished(released).await {
                return released;
            }
        }
    }

    async fn release_in(&self, term: &Term, tried: &mut Releasing) -> Result<bool, SlotsError> {
        loop {
            // On a retry our knowledge is stale: read again.
            let sign = std::mem::replace(&mut tried.sign, LifeSign::Unknown);
            match self.release_once(term, sign).await {
                Ok(Commit::Done) => return Ok(true),
                Ok(Commit::Stale(why)) => {
                    match mend::refused(term, &self.pool, &mut tried.attempts, why).await {
                        // Then the slot is gone, too, and the next read says so.
                        Ok(()) | Err(SlotsError::NoPool { .. }) => {}
                        Err(error) => return Err(error),
                    }
                }
                Ok(Commit::Unknown) => tried.may_have_happened = true,
                Err(SlotsError::Lost { .. }) => return Ok(tried.may_have_happened),
                Err(error) => return Err(error),
            }
        }
    }

    async fn release_once(&self, term: &Term, sign: LifeSign) -> Result<Commit, SlotsError> {
        match sign {
            LifeSign::None => self.release_under_ticket(term, None, None, self.version).await,
            LifeSign::In(number) if number == term.number() => {
                let alive = slots::alive(&self.pool, &self.ticket);
                self.release_under_ticket(term, Some(alive), self.place.as_ref(), self.version).await
            }
            LifeSign::In(_) | LifeSign::Unknown => self.read_and_release(term).await,
        }
    }

    async fn read_and_release(&self, term: &Term) -> Result<Commit, SlotsError> {
        let lost = || SlotsError::Lost { pool: self.pool.to_string(), slot: self.number };
        // Our own earlier release may have succeeded with its reply lost: read the newest state.
        term.sync("/").await?;
        let snapshot = match Snapshot::read_damaged(term, &self.pool).await {
            Err(SlotsError::NoPool { .. }) => return Err(lost()),
            snapshot => snapshot?,
        };
        if !snapshot.tickets.contains(&self.ticket) {
            return Err(lost());
        }
        let alive = slots::alive(&self.pool, &self.ticket);
        let (holder, place) = (snapshot.slots.get(&self.number), snapshot.place_of(&self.ticket));
        if holder.is_some_and(|holder| holder.ticket.as_ref() == Some(&self.ticket)) {
            let version = snapshot.stats.get(&self.number).map(|stat| stat.version);
            let sign = snapshot.alive.contains(&self.ticket).then_some(alive);
            return self.release_under_ticket(term, sign, place, version).await;
        }
        // Somebody deleted the slot by hand, as the seed's scripts do; its current holder is a successor.
        let ticket = slots::ticket(&self.pool, &self.ticket);
        let transaction = Transaction::fenced(term, ticket.path()).delete(&ticket, None);
        let transaction = self.without_place(transaction, place);
        let (outcome, _) = tokio::join!(transaction.commit(), term.delete(alive.path(), None));
        match committed(outcome)? {
            Commit::Done => Err(lost()),
            commit => Ok(commit),
        }
    }

    /// Releases in one transaction that checks the ticket and nothing else, so that concurrent admissions and
    /// releases are no conflict. While the ticket exists, the slot of its number is ours, or was deleted by hand and
    /// is free: an admission deletes any ticket left for its slot.
    async fn release_under_ticket(
        &self,
        term: &Term,
        sign: Option<Znode<Text>>,
        place: Option<&QueuePlace>,
        version: Option<i32>,
    ) -> Result<Commit, SlotsError> {
        let event = Event {
            what: What::Released,
            slot: Some(self.number),
            holder: Some(self.holder.holder.clone()),
            by: self.holder.who.clone().or_else(|| self.holder.host.clone()).unwrap_or_default(),
            detail: None,
        };
        let ticket = slots::ticket(&self.pool, &self.ticket);
        let mut transaction = Transaction::fenced(term, ticket.path())
            .delete(&ticket, None)
            .delete(&slots::slot(&self.pool, self.number), version)
            .create(&slots::event(&self.pool), &event);
        if let Some(sign) = sign {
            transaction = transaction.delete(&sign, None);
        }
        let outcome = self.without_place(transaction, place).commit().await;
        history::trim_if_due(term, &self.pool, &outcome);
        Ok(committed(outcome)?)
    }

    fn without_place(&self, transaction: Transaction, place: Option<&QueuePlace>) -> Transaction {
        match place {
            Some(place) => transaction.delete(&slots::waiter(&self.pool, place.name()), None),
            None => transaction,
        }
    }

    /// Waits until the slot is no longer ours: released by force, or its session has ended. Meanwhile it renews the
    /// sign of life in every session.
    pub async fn lost(&self) {
        let watch = |term: Term| async move {
            let term = term.patient();
            self.watch_once(&term).await.map(|()| term)
        };
        let lost = match self.holder.ephemeral {
            true => watch(self.session.term()).await,
            false => self.session.across_terms(watch).await,
        };
        match lost {
            Ok(term) => self.delete_place_in(&term),
            // It ended with its session, or the session is closed and nothing can be watched.
            Err(error) if error.ends_term() => {}
            Err(error) => warn!(%error, pool = %self.pool, slot = self.number, "cannot watch the slot"),
        }
    }

    /// Deletes our place after the slot was deleted by hand: the next waiter watches that place.
    fn delete_place_in(&self, term: &Term) {
        let Some(place) = &self.place else { return };
        let (term, path) = (term.clone(), slots::waiter(&self.pool, place.name()).path().to_owned());
        term.clone().in_background(async move {
            // This fails only when the session is over, and then the place is gone, too.
            let _ = retry::delete(&term, &path).await;
        });
    }

    /// Waits until the ticket is gone.
    async fn watch_once(&self, term: &Term) -> Result<(), CallError> {
        let ticket = slots::ticket(&self.pool, &self.ticket);
        loop {
            let (found, gone) = term.stat_watched(ticket.path()).await?;
            // A slot deleted by hand may have another holder at any moment.
            let (is_there, deleted) = self.watch_slot(term).await?;
            if found.is_none() || !is_there {
                return Ok(());
            }
            if self.holder.process.is_none() {
                tokio::select! {
                    _ = gone.changed() => {}
                    _ = deleted.changed() => {}
                }
                continue;
            }
            let alive = slots::alive(&self.pool, &self.ticket);
            let (sign, changed) = term.stat_watched(alive.path()).await?;
            if sign.is_none() {
                match retry::create(term, alive.path(), &Text(self.holder.holder.clone()).encode()).await {
                    Ok(_) | Err(CallError::Exists { .. }) => continue,
                    // The ticket exists: a folder deleted by hand is no reason to end the command.
                    Err(CallError::NoZnode { .. }) => match mend::mend(term, &self.pool).await {
                        Ok(()) => continue,
                        Err(SlotsError::Call(error)) => return Err(error),
                        Err(_) => return Ok(()),
                    },
                    Err(error) => return Err(error),
                }
            }
            // The sign may belong to the previous session, which the server has not expired yet: wait for its end and
            // create it again.
            tokio::select! {
                _ = gone.changed() => {}
                _ = deleted.changed() => {}
                _ = changed.changed() => {}
            }
        }
    }

    /// Whether the slot exists and is ours, and a watch for the end of that.
    async fn watch_slot(&self, term: &Term) -> Result<(bool, Watch), CallError> {
        let slot = slots::slot(&self.pool, self.number);
        loop {
            if let Some((found, watch)) = term.read_watched(&slot.maybe_damaged()).await? {
                let ticket = found.value.sound().and_then(|holder| holder.ticket);
                return Ok((ticket.as_ref() == Some(&self.ticket), watch));
            }
            if let (None, watch) = term.stat_watched(slot.path()).await? {
                return Ok((false, watch));
            }
        }
    }

    /// Waits until the lease clock covers an ephemeral slot.
    pub(crate) async fn wait_until_leased(&self) -> Result<(), CallError> {
        match &self.term {
            Some(term) => term.trusted().await,
            None => Ok(()),
        }
    }
}
