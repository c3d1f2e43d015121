//! Slots for who asks again and again over a protocol of its own (FleetLock), and for scripts: no process of ours stands
//! for the holder, so nothing but the holder's word ends it.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use menagerie_kernel::{CallError, Session, Term, retry};
use menagerie_znodes::slots::{self, Holder, Waiter};
use menagerie_znodes::{Kind, Name, Payload};

use crate::acquire::Request;
use crate::admin;
use crate::core::admission::slot_of;
use crate::core::{Crowded, Decision, Limits, Me, Place, Source, WaitFor, crowded, decide};
use crate::enter::{Contest, Entered, Tried};
use crate::error::SlotsError;
use crate::hold::Held;
use crate::mend::Retries;
use crate::snapshot::Snapshot;

/// How long one may be silent before its place in the queue lapses.
pub const LAPSE: Duration = Duration::from_secs(600);

/// What asking came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asked {
    /// It has this slot, now or since it asked before.
    Holds(u32),
    /// It has to ask again; so many are before it.
    Waits {
        /// How many.
        ahead: usize,
        /// Who is in.
        holders: Vec<String>,
        /// The emergency stop is pulled.
        frozen: bool,
    },
    /// Somebody of that name holds a slot in another way: a command that runs under it.
    Taken(u32),
    /// It has no place in the queue: too many wait. It may ask again later.
    Crowded(Crowded),
}

/// Asks for a slot, for a client that comes from `source`. One that does not get a slot has a place in the queue, as long as it
/// asks again in time and the queue is within its `limits`. Asking is idempotent by the holder's name: dropped before its end, it
/// may have been admitted, and stays so for whoever asks again in that name.
pub async fn ask(
    session: &Session,
    name: &Name,
    request: &Request,
    source: &Source,
    limits: Limits,
) -> Result<Asked, SlotsError> {
    let tried = Tried::default();
    let term = session.term().patient();
    let contest = Contest { session, term: term.clone(), name, request, tried: &tried };
    // Another server may have taken back what this one still shows: nobody shall go by a slot that is gone.
    term.sync("/").await?;
    let mut retries = Retries::new(&term, name);
    let no_queue = || CallError::NoZnode { path: slots::queue(name).path().to_owned() };
    let mut queued = false;
    loop {
        let snapshot = Snapshot::read(&term, name).await?;
        let places = places_of(&snapshot, &request.holder);
        let place = places.first();
        match decide(snapshot.facts(), &request.holder, place.map_or(Me::Newcomer, Me::Waiter)) {
            Decision::Wait(WaitFor::Own(number)) => {
                give_up(&term, name, &places).await?;
                let holder = snapshot.slots.get(&number);
                let own = holder.is_some_and(is_of_nobody_here);
                return Ok(if own { Asked::Holds(number) } else { Asked::Taken(number) });
            }
            Decision::Enter(number) => match contest.enter(&snapshot, number, place).await? {
                Entered::In(_) => {
                    give_up(&term, name, places.get(1..).unwrap_or_default()).await?;
                    return Ok(Asked::Holds(number));
                }
                Entered::Refused(why) => retries.refused(why).await?,
            },
            Decision::Queue => match crowded(&snapshot.queue, source, limits) {
                Some(crowded) => return Ok(Asked::Crowded(crowded)),
                None => {
                    if std::mem::replace(&mut queued, true) {
                        // The place that we have made is not to be seen.
                        retries.refused(no_queue()).await?;
                    }
                    match queue_up(&term, name, request, source).await {
                        Err(SlotsError::Call(error @ CallError::NoZnode { .. })) => {
                            retries.refused(error).await?;
                        }
                        queued => queued?,
                    }
                }
            },
            Decision::Again => retries.refused(no_queue()).await?,
            Decision::Wait(WaitFor::Room | WaitFor::Place(_)) => {
                let Some(place) = place else { continue };
                let ahead = snapshot.queue.iter().position(|other| other == place).unwrap_or(0);
                if let Some(crowded) = crowded(&snapshot.queue[..ahead], source, limits) {
                    give_up(&term, name, &places).await?;
                    return Ok(Asked::Crowded(crowded));
                }
                // Shows that it still asks. The version rises, and that is all that anybody looks at.
                let path = slots::waiter(name, place.name());
                match retry::touch(&term, path.path(), &waiter(request).encode()).await {
                    Ok(_) => {}
                    Err(error @ CallError::NoZnode { .. }) => {
                        retries.refused(error).await?;
                        continue;
                    }
                    Err(error) => return Err(error.into()),
                }
                let holders = snapshot.slots.values().map(|holder| holder.holder.clone()).collect();
                return Ok(Asked::Waits { ahead, holders, frozen: snapshot.pool.frozen.is_some() });
            }
        }
    }
}

/// Gives back what this holder has, or its place in the queue; if a ticket is given, only the slot that was taken with
/// it. Tells whether it had a slot.
pub async fn give_back(
    session: &Session,
    name: &Name,
    holder: &str,
    ticket: Option<&str>,
) -> Result<bool, SlotsError> {
    let term = session.term().patient();
    // What was taken a moment ago, by another server, is to be found.
    term.sync("/").await?;
    let snapshot = Snapshot::read_damaged(&term, name).await?;
    if ticket.is_none() {
        give_up(&term, name, &places_of(&snapshot, holder)).await?;
    }
    let running = |slot| SlotsError::Running { pool: name.to_string(), slot, holder: holder.to_owned() };
    // All is decided by what is found here: the next moment a command may run in the same name.
    match Held::find(session, name, holder).await {
        Ok(held) if ticket.is_some_and(|ticket| ticket != held.ticket()) => {
            Err(SlotsError::Lost { pool: name.to_string(), slot: held.number() })
        }
        Ok(held) if !is_of_nobody_here(held.holder()) => Err(running(held.number())),
        Ok(held) => match held.release().await {
            Ok(()) | Err(SlotsError::Lost { .. }) => Ok(true),
            Err(error) => Err(error),
        },
        Err(SlotsError::NotHeld { .. }) => match slot_of(&snapshot.slots, holder) {
            Some(slot) if snapshot.slots[&slot].ticket.is_none() => Err(running(slot)),
            Some(_) | None => Ok(false),
        },
        // Nobody but the holder's word ends it, and here it is; the slot would be held for ever otherwise.
        Err(SlotsError::TicketGone { slot, .. })
            if ticket.is_none() && snapshot.slots.get(&slot).is_some_and(is_of_nobody_here) =>
        {
            admin::force_release(session, name, holder, holder).await.map(|_| true)
        }
        Err(error) => Err(error),
    }
}

/// Whether no process stands for it: what a seed's script wrote is none of ours and stays.
fn is_of_nobody_here(holder: &Holder) -> bool {
    holder.process.is_none() && holder.ticket.is_some()
}

fn waiter(request: &Request) -> Waiter {
    Waiter {
        holder: request.holder.clone(),
        host: request.local.host.clone(),
        pid: 0,
        who: request.who.clone(),
        reason: request.reason.clone(),
        polling: true,
    }
}

fn places_of(snapshot: &Snapshot, holder: &str) -> Vec<Place> {
    let prefix = Place::polling_holder(holder);
    snapshot.queue.iter().filter(|place| place.name().starts_with(&prefix)).cloned().collect()
}

async fn queue_up(term: &Term, name: &Name, request: &Request, source: &Source) -> Result<(), SlotsError> {
    let dir = slots::queue(name);
    let prefix = format!("{}/{}", dir.path(), Place::polling_prefix(&request.holder, source));
    let data = waiter(request).encode();
    match term
        .create(&prefix, &data, Kind::PersistentSequence, menagerie_kernel::session::IfLate::Report)
        .await
    {
        // Twice is no harm: the first counts, and the other goes with it or lapses.
        Ok(_) | Err(CallError::Unknown { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

async fn give_up(term: &Term, name: &Name, places: &[Place]) -> Result<(), SlotsError> {
    for place in places {
        retry::delete(term, slots::waiter(name, place.name()).path()).await?;
    }
    Ok(())
}

/// Remembers who has asked when, and ends the places of those who have not for too long. It counts from when it has first
/// seen them, by its own clock: other clocks may be wrong.
#[derive(Debug, Default)]
pub struct Sweeper {
    seen: HashMap<Name, Seen>,
}

/// By the name of each place, the version of its znode, and since when it has that.
type Seen = HashMap<String, (i32, Instant)>;

impl Sweeper {
    /// Looks at all pools once. One that cannot be read does not keep it from the others.
    pub async fn sweep(
        &mut self,
        session: &Session,
        lapse: Duration,
        now: Instant,
    ) -> Result<(), SlotsError> {
        let term = session.term();
        let pools = admin::list(session).await?;
        self.seen.retain(|pool, _| pools.contains(pool));
        let mut first_error = Ok(());
        for name in &pools {
            let swept = async {
                let snapshot = Snapshot::read(&term, name).await?;
                self.sweep_pool(&term, name, &snapshot.queue, lapse, now).await
            };
            match swept.await {
                Ok(()) | Err(SlotsError::NoPool { .. }) => {}
                failed => first_error = first_error.and(failed),
            }
        }
        first_error
    }

    /// Looks at the places of one pool.
    pub(crate) async fn sweep_pool(
        &mut self,
        term: &Term,
        name: &Name,
        queue: &[Place],
        lapse: Duration,
        now: Instant,
    ) -> Result<(), SlotsError> {
        let polling: Vec<&Place> = queue.iter().filter(|place| place.polls()).collect();
        let path = |place: &Place| slots::waiter(name, place.name()).path().to_owned();
        let paths: Vec<String> = polling.iter().map(|place| path(place)).collect();
        let found = term.get_many(&paths).await?;
        let before = self.seen.remove(name).unwrap_or_default();
        let (mut seen, mut lapsed) = (Seen::new(), Vec::new());
        for ((place, path), found) in polling.into_iter().zip(paths).zip(found) {
            let Some((_, stat)) = found else { continue };
            let since = match before.get(place.name()) {
                Some((version, since)) if *version == stat.version => *since,
                _ => now,
            };
            if now.saturating_duration_since(since) < lapse {
                seen.insert(place.name().to_owned(), (stat.version, since));
            } else {
                tracing::info!(pool = %name, %place, "a place in the queue has lapsed");
                lapsed.push((path, stat.version));
            }
        }
        self.seen.insert(name.clone(), seen);
        // Beside each other: the server makes them durable together.
        let deletions = lapsed.iter().map(|(path, version)| term.delete(path, Some(*version)));
        for deleted in futures_util::future::join_all(deletions).await {
            match deleted {
                // Whatever is left is found the next time.
                Ok(())
                | Err(CallError::NoZnode { .. } | CallError::BadVersion { .. } | CallError::Unknown { .. }) =>
                    {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}
