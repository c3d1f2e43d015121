//! Operators' changes to a pool. Each is bound to the version of the pool that it was decided on, and recorded.

use menagerie_kernel::{CallError, Session, Term, Transaction, retry, unique};
use menagerie_znodes::slots::{self, Event, Frozen, Pool, What};
use menagerie_znodes::{Kind, Name, Znode};
use tracing::warn;

use crate::core::admission::place_stays;
use crate::error::{Commit, SlotsError, committed};
use crate::mend::{Retries, mend};
use crate::snapshot::Snapshot;

/// Creates a pool. Idempotent for the same maximum.
pub async fn create(session: &Session, name: &Name, max: u32, by: &str) -> Result<(), SlotsError> {
    if max == 0 {
        return Err(SlotsError::NoRoomAtAll);
    }
    let term = session.term();
    retry::ensure(&term, slots::pools().path(), b"").await?;
    let mut transaction =
        Transaction::new(&term.patient()).create(&slots::pool(name), &Pool { max, count: 0, frozen: None });
    transaction = transaction.create(&slots::born(name, &unique::hex()), &());
    for folder in slots::folders(name) {
        transaction = transaction.create(&folder, &());
    }
    let created = Event {
        what: What::Created,
        slot: None,
        holder: None,
        by: by.to_owned(),
        detail: Some(max.to_string()),
    };
    match committed(transaction.create(&slots::event(name), &created).commit().await)? {
        Commit::Done => Ok(()),
        // It exists already, or our reply was lost: compare with what exists.
        Commit::Stale(_) | Commit::Unknown => {
            let stored = Snapshot::read(&term, name).await?.pool.max;
            if stored == max {
                Ok(())
            } else {
                Err(SlotsError::OtherMaximum { pool: name.to_string(), stored, wanted: max })
            }
        }
    }
}

/// Changes the maximum, conditional on `from` if given. Lowering it evicts nobody; it admits nobody until enough have
/// left.
pub async fn set_max(
    session: &Session,
    name: &Name,
    max: u32,
    from: Option<u32>,
    by: &str,
) -> Result<(), SlotsError> {
    if max == 0 {
        return Err(SlotsError::NoRoomAtAll);
    }
    change(session, name, |pool| {
        if let Some(expected) = from.filter(|expected| *expected != pool.max) {
            return Err(SlotsError::NotAsExpected { pool: name.to_string(), stored: pool.max, expected });
        }
        pool.max = max;
        Ok(Event {
            what: What::SetMax,
            slot: None,
            holder: None,
            by: by.to_owned(),
            detail: Some(max.to_string()),
        })
    })
    .await
}

/// Emergency stop: admits nobody from now on. It takes effect whatever other operators do at the same time and
/// whatever is damaged: if it cannot be recorded in the same transaction, it is made first.
pub async fn freeze(session: &Session, name: &Name, frozen: Frozen) -> Result<(), SlotsError> {
    let term = session.term().patient();
    let mut retries = Retries::new(&term, name);
    let (by, detail) = (frozen.by.clone(), frozen.reason.clone());
    let event = Event { what: What::Frozen, slot: None, holder: None, by, detail };
    loop {
        let snapshot = Snapshot::read(&term, name).await?;
        let pool = Pool { frozen: Some(frozen.clone()), ..snapshot.pool };
        let stop = Transaction::new(&term).set(&slots::pool(name), &pool, Some(snapshot.version));
        let recorded = committed(stop.clone().create(&slots::event(name), &event).commit().await);
        let stopped = match recorded {
            Ok(Commit::Stale(CallError::NoZnode { .. } | CallError::Exists { .. })) | Err(_) => {
                let stopped = committed(stop.commit().await)?;
                if stopped == Commit::Done {
                    record(&term, name, &event).await;
                }
                stopped
            }
            Ok(recorded) => recorded,
        };
        match stopped {
            Commit::Done => return Ok(()),
            Commit::Stale(why) => retries.refused(why).await?,
            Commit::Unknown => {
                if Snapshot::read(&term, name).await?.pool.frozen.as_ref() == Some(&frozen) {
                    return Ok(());
                }
            }
        }
    }
}

/// Records an event after the fact, as best it can.
async fn record(term: &Term, name: &Name, event: &Event) {
    let recorded = async {
        mend(term, name).await?;
        committed(Transaction::new(term).create(&slots::event(name), event).commit().await)
            .map_err(SlotsError::from)
    };
    match recorded.await {
        Ok(Commit::Done) => {}
        refused => warn!(pool = %name, ?refused, "an emergency stop stands in no history"),
    }
}

/// Ends the emergency stop.
pub async fn thaw(session: &Session, name: &Name, by: &str) -> Result<(), SlotsError> {
    change(session, name, |pool| {
        pool.frozen = None;
        Ok(Event { what: What::Thawed, slot: None, holder: None, by: by.to_owned(), detail: None })
    })
    .await
}

/// Applies an operator's change to the current pool. Admissions and releases in between are no conflict, because they
/// do not touch operators' settings: the change is made again on top of them. Another operator's change is a
/// conflict.
async fn change(
    session: &Session,
    name: &Name,
    mut change: impl FnMut(&mut Pool) -> Result<Event, SlotsError>,
) -> Result<(), SlotsError> {
    let term = session.term().patient();
    let mut retries = Retries::new(&term, name);
    let mut seen: Option<Pool> = None;
    loop {
        let snapshot = Snapshot::read(&term, name).await?;
        let mut pool = snapshot.pool.clone();
        let chosen = |pool: &Pool| (pool.max, pool.frozen.clone());
        if seen.as_ref().is_some_and(|seen| chosen(seen) != chosen(&pool)) {
            return Err(SlotsError::Conflict { pool: name.to_string() });
        }
        seen = Some(pool.clone());
        let event = change(&mut pool)?;
        let mut transaction = Transaction::new(&term)
            .set(&slots::pool(name), &pool, Some(snapshot.version))
            .create(&slots::event(name), &event);
        if !place_stays(&pool) {
            // Waiters behind a kept place may now be admitted before its slot is free: delete those places to wake
            // them.
            for place in &snapshot.kept {
                transaction = transaction.delete(&slots::waiter(name, place.name()), None);
            }
        }
        match committed(transaction.commit().await)? {
            Commit::Done => return Ok(()),
            Commit::Stale(why) => retries.refused(why).await?,
            Commit::Unknown => {
                let now = Snapshot::read(&term, name).await?;
                if chosen(&now.pool) == chosen(&pool) {
                    return Ok(());
                }
            }
        }
    }
}

/// Releases whatever this holder has, and records who did it.
pub async fn force_release(
    session: &Session,
    name: &Name,
    holder: &str,
    by: &str,
) -> Result<u32, SlotsError> {
    let term = session.term().patient();
    let mut retries = Retries::new(&term, name);
    loop {
        let snapshot = Snapshot::read_damaged(&term, name).await?;
        let Some((number, found)) = snapshot.slots.iter().find(|(_, other)| other.holder == holder) else {
            return Err(SlotsError::NotHeld { pool: name.to_string(), holder: holder.to_owned() });
        };
        let event = Event {
            what: What::Forced,
            slot: Some(*number),
            holder: Some(holder.to_owned()),
            by: by.to_owned(),
            detail: None,
        };
        let version = snapshot.stats.get(number).map(|stat| stat.version);
        let ticket = found.ticket.as_ref().map(|ticket| slots::ticket(name, ticket));
        let mut transaction = match ticket {
            Some(ticket) if term.stat(ticket.path()).await?.is_some() => {
                Transaction::fenced(&term, ticket.path()).delete(&ticket, None)
            }
            // A seed script's slot has no ticket, or somebody deleted it by hand: check the slot's version instead.
            Some(_) | None => Transaction::new(&term),
        };
        // Its number and version do not identify a slot without a ticket: somebody may have deleted it by hand and
        // another holder taken it. So check the pool's version, too.
        transaction = transaction
            .delete(&slots::slot(name, *number), version)
            .check(&slots::pool(name), Some(snapshot.version))
            .create(&slots::event(name), &event);
        if let Some(place) = found.ticket.as_ref().and_then(|ticket| snapshot.place_of(ticket)) {
            transaction = transaction.delete(&slots::waiter(name, place.name()), None);
        }
        match committed(transaction.commit().await)? {
            Commit::Done => return Ok(*number),
            Commit::Stale(why) => retries.refused(why).await?,
            // If it happened, reading again finds nothing to release: report success.
            Commit::Unknown => {
                let now = Snapshot::read_damaged(&term, name).await?;
                if now.slots.get(number).is_none_or(|now| now.ticket != found.ticket) {
                    return Ok(*number);
                }
            }
        }
    }
}

/// Deletes an unused pool in one transaction. Returns the holders whose watchdogs were out of service.
pub async fn delete(session: &Session, name: &Name) -> Result<Vec<String>, SlotsError> {
    let term = session.term().patient();
    term.sync("/").await?;
    let snapshot = Snapshot::read_damaged(&term, name).await?;
    let users = snapshot.slots.len() + snapshot.queue.len();
    if users > 0 {
        return Err(SlotsError::InUse { pool: name.to_string(), users });
    }
    // Remains of a release may exist for a moment; znodes that are not ours stay.
    let pool = slots::pool(name);
    let mut transaction = Transaction::new(&term).check(&pool, Some(snapshot.version));
    let mut disarmed = Vec::new();
    for folder in slots::folders(name) {
        let children = match term.children(folder.path()).await {
            // Another caller deleted it first.
            Err(CallError::NoZnode { .. }) => continue,
            children => children?,
        };
        for child in children {
            if folder.path() == slots::disarmed_dir(name).path() {
                disarmed.extend(menagerie_znodes::quote::unquote(&child));
            }
            transaction = transaction.delete(&folder.child::<()>(&child, Kind::Persistent), None);
        }
        transaction = transaction.delete(&folder, None);
    }
    if let Some(born) = &snapshot.born {
        transaction = transaction.delete(&slots::born(name, born), None);
    }
    match committed(transaction.delete(&pool, None).commit().await)? {
        Commit::Done => Ok(disarmed),
        Commit::Stale(_) => Err(SlotsError::Conflict { pool: name.to_string() }),
        Commit::Unknown => match term.stat(pool.path()).await? {
            None => Ok(disarmed),
            Some(_) => Err(CallError::Unknown { path: pool.path().to_owned() }.into()),
        },
    }
}

async fn children(term: &Term, path: &str) -> Result<Vec<String>, CallError> {
    match term.children(path).await {
        Err(CallError::NoZnode { .. }) => Ok(Vec::new()),
        found => found,
    }
}

/// Names of all pools.
pub async fn list(session: &Session) -> Result<Vec<Name>, SlotsError> {
    let names = children(&session.term(), slots::pools().path()).await?;
    let mut names: Vec<Name> = names
        .iter()
        .filter_map(|name| menagerie_znodes::quote::unquote(name).and_then(|name| Name::new(name).ok()))
        .collect();
    names.sort();
    Ok(names)
}

/// Makes a znode ephemeral if its slot is.
pub(crate) fn with_lifetime<T>(znode: Znode<T>, ephemeral: bool) -> Znode<T> {
    if ephemeral { znode.with_kind(Kind::Ephemeral) } else { znode }
}
