//! Slots for who asks again and again over a protocol of its own (FleetLock), and for scripts: no process of ours stands
//! for the holder, so nothing but the holder's word ends it.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use menagerie_kernel::{CallError, Session, Term, retry};
use menagerie_znodes::slots::{self, Holder, Waiter};
use menagerie_znodes::{Kind, Name, Payload};

use crate::acquire::Request;
use crate::core::admission::slot_of;
use crate::core::{Decision, Me, Place, WaitFor, decide};
use crate::enter::{Contest, Tried};
use crate::error::SlotsError;
use crate::hold::Held;
use crate::snapshot::Snapshot;
use crate::{admin, view};

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
}

/// Asks for a slot. Who does not get one has a place in the queue, as long as it asks again in time. Asking is idempotent by the
/// holder's name: dropped before its end, it may have been admitted, and stays so for whoever asks again in that name.
pub async fn ask(session: &Session, name: &Name, request: &Request) -> Result<Asked, SlotsError> {
    let tried = Tried::default();
    let term = session.term().patient();
    let contest = Contest { session, term: term.clone(), name, request, tried: &tried };
    // Another server may have taken back what this one still shows: nobody shall go by a slot that is gone.
    term.sync("/").await?;
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
            Decision::Enter(number) => {
                if contest.enter(&snapshot, number, place).await?.is_some() {
                    give_up(&term, name, places.get(1..).unwrap_or_default()).await?;
                    return Ok(Asked::Holds(number));
                }
            }
            Decision::Queue => queue_up(&term, name, request).await?,
            Decision::Again => {}
            Decision::Wait(WaitFor::Room | WaitFor::Place(_)) => {
                let Some(place) = place else { continue };
                // Shows that it still asks. The version rises, and that is all that anybody looks at.
                let path = slots::waiter(name, place.name());
                match retry::touch(&term, path.path(), &waiter(request).encode()).await {
                    Ok(_) => {}
                    Err(CallError::NoZnode { .. }) => continue,
                    Err(error) => return Err(error.into()),
                }
                let ahead = snapshot.queue.iter().position(|other| other == place).unwrap_or(0);
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
    let snapshot = Snapshot::read(&term, name).await?;
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
    let prefix = Place::polling_prefix(holder);
    snapshot.queue.iter().filter(|place| place.name().starts_with(&prefix)).cloned().collect()
}

async fn queue_up(term: &Term, name: &Name, request: &Request) -> Result<(), SlotsError> {
    let dir = slots::queue(name);
    let prefix = format!("{}/{}", dir.path(), Place::polling_prefix(&request.holder));
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
    seen: HashMap<String, (i32, Instant)>,
}

impl Sweeper {
    /// Looks at all pools once.
    pub async fn sweep(
        &mut self,
        session: &Session,
        lapse: Duration,
        now: Instant,
    ) -> Result<(), SlotsError> {
        let term = session.term();
        let mut there = HashMap::new();
        for name in admin::list(session).await? {
            let snapshot = match Snapshot::read(&term, &name).await {
                Err(SlotsError::NoPool { .. }) => continue,
                snapshot => snapshot?,
            };
            for place in snapshot.queue.iter().filter(|place| place.polls()) {
                let path = slots::waiter(&name, place.name()).path().to_owned();
                let Some(stat) = term.stat(&path).await? else { continue };
                let since = match self.seen.get(&path) {
                    Some((version, since)) if *version == stat.version => *since,
                    _ => now,
                };
                if now.saturating_duration_since(since) < lapse {
                    there.insert(path, (stat.version, since));
                    continue;
                }
                tracing::info!(pool = %name, %place, "a place in the queue has lapsed");
                match term.delete(&path, Some(stat.version)).await {
                    // Whatever is left is found the next time.
                    Ok(())
                    | Err(
                        CallError::NoZnode { .. } | CallError::BadVersion { .. } | CallError::Unknown { .. },
                    ) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        self.seen = there;
        Ok(())
    }
}

/// What a server tells of all pools, for its metrics.
pub async fn usage(session: &Session, now_ms: u64) -> Result<Vec<view::PoolView>, SlotsError> {
    let mut pools = Vec::new();
    for name in admin::list(session).await? {
        match view::show(session, &name, now_ms).await {
            Err(SlotsError::NoPool { .. }) => {}
            pool => pools.push(pool?),
        }
    }
    Ok(pools)
}
