//! Having a slot, and giving it back.

use menagerie_kernel::session::Watch;
use menagerie_kernel::{CallError, Fence, Session, Term, Transaction, retry};
use menagerie_znodes::slots::{self, Event, Holder, Process, What};
use menagerie_znodes::{Name, Payload, Text, Znode};
use tracing::warn;

use crate::core::{Attempts, Place};
use crate::error::{Commit, SlotsError, committed};
use crate::history;
use crate::mend;
use crate::snapshot::Snapshot;

/// A slot that is ours. Dropping it keeps it: a slot outlives the process that has it unless it was asked to be ephemeral.
#[derive(Debug, Clone)]
pub struct Held {
    session: Session,
    pool: Name,
    number: u32,
    ticket: String,
    holder: Holder,
    fence: Option<Fence>,
    /// The term of an ephemeral slot.
    term: Option<Term>,
    /// An earlier run has had it: what it has begun may be half done.
    resumed: bool,
    sign: Sign,
    /// The place in the queue, if it stays until the release; it is in the same term as the sign of life.
    place: Option<Place>,
    /// The version of the slot, as far as we know how often we have written it: another one is somebody else's, made by hand.
    version: Option<i32>,
}

/// What is known of the sign of life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sign {
    /// It may be there or not.
    Unknown,
    /// No process stands for the holder.
    None,
    /// It was made in the term of this number, and goes with it.
    In(u64),
}

/// A release that goes on until it is known.
struct Releasing {
    may_have_happened: bool,
    sign: Sign,
    attempts: Attempts,
}

impl Held {
    /// One that may be ours: whoever gives it back must look first.
    pub(crate) fn unsure(session: Session, pool: Name, number: u32, ticket: String, holder: Holder) -> Self {
        Self {
            session,
            pool,
            number,
            ticket,
            holder,
            fence: None,
            term: None,
            resumed: false,
            sign: Sign::Unknown,
            place: None,
            version: None,
        }
    }

    /// It was given in the term `made_in`, by the transaction `zxid`, as `term` has seen.
    pub(crate) fn confirmed(mut self, made_in: &Term, term: &Term, zxid: i64, snapshot: &Snapshot) -> Self {
        self.fence = Some(term.fence(zxid));
        self.term = self.holder.ephemeral.then(|| term.clone());
        self.resumed = snapshot.slots.contains_key(&self.number);
        self.version = Some(snapshot.stats.get(&self.number).map_or(0, |earlier| earlier.version + 1));
        self.sign = self.holder.process.map_or(Sign::None, |_| Sign::In(made_in.number()));
        self.place = snapshot.place_of(&self.ticket).cloned();
        self
    }

    /// Finds a slot again that an earlier process of this holder has taken: for scripts that acquire and release in
    /// separate commands.
    pub async fn find(session: &Session, pool: &Name, holder: &str) -> Result<Self, SlotsError> {
        let term = session.term();
        // What was taken or given back a moment ago, by another server, counts.
        term.sync("/").await?;
        let snapshot = Snapshot::read_damaged(&term, pool).await?;
        let not_held = || SlotsError::NotHeld { pool: pool.to_string(), holder: holder.to_owned() };
        let (number, found) =
            snapshot.slots.iter().find(|(_, other)| other.holder == holder).ok_or_else(not_held)?;
        let ticket = found.ticket.clone().ok_or_else(not_held)?;
        let mut held = Self::unsure(session.clone(), pool.clone(), *number, ticket, found.clone());
        let ticket = slots::ticket(pool, &held.ticket);
        let Some(stat) = term.stat(ticket.path()).await? else {
            // Released since the look, or deleted by hand.
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
        held.sign = if found.process.is_some() { Sign::Unknown } else { Sign::None };
        Ok(held)
    }

    pub(crate) fn session(&self) -> &Session {
        &self.session
    }

    /// The number of the slot.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The number that rises with every holder of this slot.
    pub fn fence(&self) -> Option<Fence> {
        self.fence
    }

    /// Whether an earlier run has had it.
    pub fn is_resumed(&self) -> bool {
        self.resumed
    }

    /// What it is held by.
    pub fn ticket(&self) -> &str {
        &self.ticket
    }

    /// Who we said that we are.
    pub fn holder(&self) -> &Holder {
        &self.holder
    }

    /// The session that an ephemeral slot ends with.
    pub fn term(&self) -> Option<&Term> {
        self.term.as_ref()
    }

    /// Writes down which guard runs the command, before the command runs.
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

    /// Gives it back. An error leaves it held, unless it says that it was lost.
    pub async fn release(&self) -> Result<(), SlotsError> {
        match self.release_if_held().await? {
            true => Ok(()),
            false => Err(SlotsError::Lost { pool: self.pool.to_string(), slot: self.number }),
        }
    }

    /// Gives it back if the ticket is still there; tells whether it was.
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
            // If it is tried again, something is not as we thought.
            let sign = std::mem::replace(&mut tried.sign, Sign::Unknown);
            match self.release_once(term, sign).await {
                Ok(Commit::Done) => return Ok(true),
                Ok(Commit::Stale(why)) => {
                    match mend::refused(term, &self.pool, &mut tried.attempts, why).await {
                        // Then the slot is gone, too, and another look says so.
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

    async fn release_once(&self, term: &Term, sign: Sign) -> Result<Commit, SlotsError> {
        match sign {
            Sign::None => self.leave(term, None, None, self.version).await,
            Sign::In(number) if number == term.number() => {
                let alive = slots::alive(&self.pool, &self.ticket);
                self.leave(term, Some(alive), self.place.as_ref(), self.version).await
            }
            Sign::In(_) | Sign::Unknown => self.look_and_leave(term).await,
        }
    }

    async fn look_and_leave(&self, term: &Term) -> Result<Commit, SlotsError> {
        let lost = || SlotsError::Lost { pool: self.pool.to_string(), slot: self.number };
        // A lost reply may have been that of our own release; the newest state tells.
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
            return self.leave(term, sign, place, version).await;
        }
        // Somebody has deleted the slot by hand, as the seed's scripts do; whoever is there now is a successor.
        let ticket = slots::ticket(&self.pool, &self.ticket);
        let transaction = Transaction::fenced(term, ticket.path()).delete(&ticket, None);
        let transaction = self.without_place(transaction, place);
        let (outcome, _) = tokio::join!(transaction.commit(), term.delete(alive.path(), None));
        match committed(outcome)? {
            Commit::Done => Err(lost()),
            commit => Ok(commit),
        }
    }

    /// One transaction under the ticket. As long as that is there, the slot of its number is ours, or was deleted by hand and
    /// is nobody's: who is admitted to a slot takes away whatever ticket is left for it. So nothing but the ticket is checked,
    /// and whoever enters or leaves at the same time is not in the way.
    async fn leave(
        &self,
        term: &Term,
        sign: Option<Znode<Text>>,
        place: Option<&Place>,
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

    fn without_place(&self, transaction: Transaction, place: Option<&Place>) -> Transaction {
        match place {
            Some(place) => transaction.delete(&slots::waiter(&self.pool, place.name()), None),
            None => transaction,
        }
    }

    /// Waits until the slot is not ours any more: an operator released it by force, or its session has ended. Meanwhile it
    /// keeps the sign of life up in every session.
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
            Ok(term) => self.lost_in(&term),
            // It went with its session, or there is none any more to watch it in.
            Err(error) if error.ends_term() => {}
            Err(error) => warn!(%error, pool = %self.pool, slot = self.number, "cannot watch the slot"),
        }
    }

    /// Whoever deleted the slot by hand has left the place: the next in the queue waits for its end.
    fn lost_in(&self, term: &Term) {
        let Some(place) = &self.place else { return };
        let (term, path) = (term.clone(), slots::waiter(&self.pool, place.name()).path().to_owned());
        term.clone().in_background(async move {
            // It fails only when the session is over, and then the place is gone too.
            let _ = retry::delete(&term, &path).await;
        });
    }

    /// Until the ticket is gone.
    async fn watch_once(&self, term: &Term) -> Result<(), CallError> {
        let ticket = slots::ticket(&self.pool, &self.ticket);
        loop {
            let (found, gone) = term.stat_watched(ticket.path()).await?;
            // A slot that was deleted by hand may be another's at any moment.
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
                    // The ticket is there: nobody shall end what runs only because somebody has deleted the folder.
                    Err(CallError::NoZnode { .. }) => match mend::mend(term, &self.pool).await {
                        Ok(()) => continue,
                        Err(SlotsError::Call(error)) => return Err(error),
                        Err(_) => return Ok(()),
                    },
                    Err(error) => return Err(error),
                }
            }
            // The sign may be that of the session before, which the server has not ended yet: it goes, and is made anew.
            tokio::select! {
                _ = gone.changed() => {}
                _ = deleted.changed() => {}
                _ = changed.changed() => {}
            }
        }
    }

    /// Whether the slot is there and ours, and what tells when that changes.
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

    /// Waits until the lease clock stands behind it, if it ends with its session.
    pub(crate) async fn trusted(&self) -> Result<(), CallError> {
        match &self.term {
            Some(term) => term.trusted().await,
            None => Ok(()),
        }
    }
}
