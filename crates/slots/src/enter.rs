//! Entering: the one transaction that gives a slot, and what happens when its reply is lost.

use std::sync::{Mutex, PoisonError};

use menagerie_kernel::session::Stat;
use menagerie_kernel::{CallError, Session, Term, Transaction, unique};
use menagerie_znodes::slots::{self, Event, Holder, Pool, What};
use menagerie_znodes::{Name, Text};

use crate::acquire::Request;
use crate::admin::with_lifetime;
use crate::core::QueuePlace;
use crate::core::admission::place_stays;
use crate::error::{Commit, SlotsError, committed};
use crate::history;
use crate::hold::HeldSlot;
use crate::snapshot::Snapshot;

/// One contender's attempts within one term.
pub(crate) struct Contest<'a> {
    pub session: &'a Session,
    pub term: Term,
    pub name: &'a Name,
    pub request: &'a Request,
    pub tried: &'a UnresolvedTickets,
}

/// The result of an admission.
pub(crate) enum Entered {
    In(Box<HeldSlot>),
    /// The facts were stale.
    Refused(CallError),
}

struct Admission {
    what: What,
    number: u32,
    ticket: String,
    ephemeral: bool,
    pool: Pool,
}

/// Tickets of admissions whose outcome is unknown because their session ended first. If one of them happened after
/// all, the slot is ours.
#[derive(Debug, Default)]
pub(crate) struct UnresolvedTickets(Mutex<Vec<String>>);

impl UnresolvedTickets {
    pub fn contains(&self, ticket: &str) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().any(|other| other == ticket)
    }

    fn add(&self, ticket: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(ticket.to_owned());
    }
}

impl Contest<'_> {
    fn holder(&self, ticket: &str, ephemeral: bool) -> Holder {
        let request = self.request;
        Holder {
            holder: request.holder.clone(),
            host: Some(request.local.host.clone()),
            machine_id: request.local.machine_id.clone(),
            boot_id: Some(request.local.boot_id.clone()),
            pid_namespace: Some(request.local.pid_namespace),
            process: request.process,
            guard: request.guard,
            who: request.who.clone(),
            reason: request.reason.clone(),
            command: request.command.clone(),
            since_ms: Some(menagerie_kernel::session::now_ms()),
            ticket: Some(ticket.to_owned()),
            ephemeral,
        }
    }

    /// Takes a free slot.
    pub async fn enter(
        &self,
        snapshot: &Snapshot,
        number: u32,
        place: Option<&QueuePlace>,
    ) -> Result<Entered, SlotsError> {
        let count = u32::try_from(snapshot.slots.len() + 1).unwrap_or(u32::MAX);
        let pool = Pool { count, ..snapshot.pool.clone() };
        let ephemeral = self.request.ephemeral;
        let slot = with_lifetime(slots::slot(self.name, number), ephemeral);
        // Without a process there is no session whose end would delete the place.
        let stays = place_stays(&pool) && self.request.process.is_some();
        let kept = place.filter(|place| stays && !place.is_polling());
        let unique = kept.map_or_else(unique::hex, |place| place.unique().to_owned());
        let ticket = slots::ticket_name(number, &unique);
        let admission = Admission { what: What::Acquired, number, ticket, ephemeral, pool };
        self.admit(admission, snapshot, |transaction, holder| {
            let waiter = place.map(|place| slots::waiter(self.name, place.name()));
            let transaction = match (waiter, kept) {
                (Some(waiter), Some(_)) => transaction.check(&waiter, None),
                (Some(waiter), None) => transaction.delete(&waiter, None),
                (None, _) => transaction,
            };
            transaction.create(&slot, holder)
        })
        .await
    }

    /// Takes over the slot of an earlier run. It keeps its kind: a persistent znode does not become ephemeral.
    pub async fn take_over(&self, snapshot: &Snapshot, number: u32) -> Result<Entered, SlotsError> {
        // The earlier run's ticket is deleted like any left-over one; if somebody deleted it by hand, check the
        // slot's version instead.
        let slot = slots::slot(self.name, number);
        let Some(version) = snapshot.stats.get(&number).map(|stat| stat.version) else {
            return Ok(Entered::Refused(CallError::NoZnode { path: slot.path().to_owned() }));
        };
        let ticket = slots::ticket_name(number, &unique::hex());
        let pool = snapshot.pool.clone();
        let admission = Admission { what: What::Resumed, number, ticket, ephemeral: false, pool };
        self.admit(admission, snapshot, |transaction, holder| transaction.set(&slot, holder, Some(version)))
            .await
    }

    /// One transaction: a new ticket, the only one for this slot, the slot, the sign of life, the event, and the pool
    /// at the version read.
    async fn admit(
        &self,
        admission: Admission,
        snapshot: &Snapshot,
        slot: impl FnOnce(Transaction, &Holder) -> Transaction,
    ) -> Result<Entered, SlotsError> {
        let Admission { what, number, ticket: id, ephemeral, pool } = admission;
        let holder = self.holder(&id, ephemeral);
        let ticket = with_lifetime(slots::ticket(self.name, &id), ephemeral);
        let event = Event {
            what,
            slot: Some(number),
            holder: Some(holder.holder.clone()),
            by: self.request.who.clone().unwrap_or_else(|| self.request.local.host.clone()),
            detail: self.request.reason.clone(),
        };
        let mut transaction = Transaction::new(&self.term);
        if let Some(born) = &snapshot.born {
            // A pool deleted and created again may have the same version and another maximum.
            transaction = transaction.check(&slots::born(self.name, born), None);
        }
        // A holder whose slot was deleted by hand has lost it: with its ticket left, its release would delete our
        // slot. Nobody can have added a ticket since the read, because every admission gives the pool a new version.
        for left in snapshot.tickets.iter().filter(|left| slots::ticket_slot(left) == Some(number)) {
            transaction = transaction.delete(&slots::ticket(self.name, left), None);
            if let Some(place) = snapshot.kept.iter().find(|place| place.stays_with(left)) {
                transaction = transaction.delete(&slots::waiter(self.name, place.name()), None);
            }
        }
        let mut transaction = slot(transaction, &holder).create(&ticket, &u64::from(number));
        if holder.process.is_some() {
            transaction = transaction.create(&slots::alive(self.name, &id), &Text(holder.holder.clone()));
        }
        let transaction = transaction.create(&slots::event(self.name), &event).set(
            &slots::pool(self.name),
            &pool,
            Some(snapshot.version),
        );
        let entering = Entering::new(self.session, self.name, number, &id, &holder);
        let outcome = transaction.commit_numbered().await;
        // The transaction wrote the pool, whose zxid is also the ticket's czxid.
        let zxid = outcome.as_ref().ok().and_then(|done| done.zxid);
        let outcome = outcome.map(|done| done.created);
        history::trim_if_due(&self.term, self.name, &outcome);
        match (committed(outcome)?, zxid) {
            (Commit::Done, Some(zxid)) => {
                Ok(Entered::In(Box::new(entering.confirm(&self.term, &self.term, zxid, snapshot).await?)))
            }
            (Commit::Stale(why), _) => {
                entering.dismiss();
                Ok(Entered::Refused(why))
            }
            (Commit::Unknown | Commit::Done, _) => {
                let found = ticket_stat(self.session, ticket.path()).await?;
                match found {
                    // It belongs to an earlier session and is about to end with it.
                    Some((_, stat)) if ephemeral && stat.ephemeral_owner != self.term.session_id() => {
                        entering.dismiss();
                        Err(CallError::Expired.into())
                    }
                    Some((term, _)) if ephemeral && term.number() != self.term.number() => {
                        entering.dismiss();
                        Err(CallError::Expired.into())
                    }
                    Some((term, stat)) => Ok(Entered::In(Box::new(
                        entering.confirm(&self.term, &term, stat.czxid, snapshot).await?,
                    ))),
                    None => {
                        self.tried.add(&id);
                        entering.dismiss();
                        Ok(Entered::Refused(CallError::Unknown { path: ticket.path().to_owned() }))
                    }
                }
            }
        }
    }
}

/// Reads a ticket's stat, retrying across sessions until a server answers: a persistent slot may have been given
/// although the session that asked for it is over.
async fn ticket_stat(session: &Session, path: &str) -> Result<Option<(Term, Stat)>, CallError> {
    let read = |term: Term| async move {
        let term = term.patient();
        term.sync("/").await?;
        Ok(term.stat(path).await?.map(|stat| (term, stat)))
    };
    session.across_terms(read).await
}

/// An admission whose outcome is unknown, or whose lease does not count yet. Dropping it then releases the slot in
/// the background if it was for a process: nobody but that process can know that it holds the slot.
///
/// Without a process, a later request in the same name finds the ticket and is told that it holds the slot: a
/// FleetLock client that retries, a script that runs again. A release in the background would take the slot from
/// them, so the admission stays, as if its reply had arrived. Asking again picks it up; only an explicit release
/// frees it.
struct Entering {
    held: Option<HeldSlot>,
    undone_by_drop: bool,
}

impl Entering {
    fn new(session: &Session, name: &Name, number: u32, ticket: &str, holder: &Holder) -> Self {
        let (session, name, ticket) = (session.clone(), name.clone(), ticket.to_owned());
        let held = HeldSlot::unconfirmed(session, name, number, ticket, holder.clone());
        Self { held: Some(held), undone_by_drop: holder.process.is_some() }
    }

    /// The slot was given in the term `made_in`, as `term` has seen. It counts once the lease clock covers it.
    async fn confirm(
        mut self,
        made_in: &Term,
        term: &Term,
        zxid: i64,
        snapshot: &Snapshot,
    ) -> Result<HeldSlot, CallError> {
        let held = self.held.take().expect("it is taken once").confirmed(made_in, term, zxid, snapshot);
        self.held = Some(held.clone());
        held.wait_until_leased().await?;
        self.dismiss();
        Ok(held)
    }

    /// There is nothing to release.
    fn dismiss(mut self) {
        self.held = None;
    }
}

impl Drop for Entering {
    fn drop(&mut self) {
        let Some(held) = self.held.take().filter(|_| self.undone_by_drop) else { return };
        let session = held.session().clone();
        session.term().in_background(async move {
            // Nobody waits for an error here; what cannot be released now is released by the holder's next run, or by
            // force.
            let _ = held.release_if_held().await;
        });
    }
}
