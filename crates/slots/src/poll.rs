//! Slots for clients that poll over a protocol of their own (FleetLock), and for scripts: no process of ours stands
//! for the holder, so only an explicit release frees the slot.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use menagerie_kernel::{CallError, Session, Term, retry};
use menagerie_znodes::slots::{self, Holder, Waiter};
use menagerie_znodes::{Kind, Name, Payload};

use crate::acquire::Request;
use crate::admin;
use crate::core::admission::slot_of;
use crate::core::{Contender, Crowded, Decision, Limits, QueuePlace, Source, WaitFor, crowded, decide};
use crate::enter::{Contest, Entered, UnresolvedTickets};
use crate::error::SlotsError;
use crate::hold::HeldSlot;
use crate::mend::Retries;
use crate::snapshot::Snapshot;

/// A client that is silent for this long loses its place in the queue.
pub const LAPSE: Duration = Duration::from_secs(600);

/// The answer to a poll.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PollOutcome {
    /// It has this slot, now or since an earlier poll.
    Holds(u32),
    /// It has to poll again.
    Waits {
        /// Waiters ahead in the queue.
        ahead: usize,
        /// Names of the current holders.
        holders: Vec<String>,
        /// The pool is frozen.
        frozen: bool,
    },
    /// A command running under the same name holds this slot.
    Taken(u32),
    /// It has no place in the queue because too many wait; it may poll again later.
    Crowded(Crowded),
}

/// Asks for a slot for a client from `source`. A client that does not get one has a place in the queue, as long as it
/// polls in time and the queue is within its `limits`. Idempotent by the holder's name: if the future is dropped, the
/// client may have been admitted, and a later poll in that name finds the slot.
pub async fn ask(
    session: &Session,
    name: &Name,
    request: &Request,
    source: &Source,
    limits: Limits,
) -> Result<PollOutcome, SlotsError> {
    let tried = UnresolvedTickets::default();
    let term = session.term().patient();
    let contest = Contest { session, term: term.clone(), name, request, tried: &tried };
    // Another server may have served a release that ours does not show yet: a client must not rely on a slot that is
    // gone.
    term.sync("/").await?;
    let mut retries = Retries::new(&term, name);
    let no_queue = || CallError::NoZnode { path: slots::queue(name).path().to_owned() };
    let mut queued = false;
    loop {
        let snapshot = Snapshot::read(&term, name).await?;
        let places = places_of(&snapshot, &request.holder);
        let place = places.first();
        match decide(snapshot.facts(), &request.holder, place.map_or(Contender::Newcomer, Contender::Waiter))
        {
            Decision::Wait(WaitFor::Own(number)) => {
                give_up(&term, name, &places).await?;
                let holder = snapshot.slots.get(&number);
                let own = holder.is_some_and(has_no_process);
                return Ok(if own { PollOutcome::Holds(number) } else { PollOutcome::Taken(number) });
            }
            Decision::Enter(number) => match contest.enter(&snapshot, number, place).await? {
                Entered::In(_) => {
                    give_up(&term, name, places.get(1..).unwrap_or_default()).await?;
                    return Ok(PollOutcome::Holds(number));
                }
                Entered::Refused(why) => retries.refused(why).await?,
            },
            Decision::Queue => match crowded(&snapshot.queue, source, limits) {
                Some(crowded) => return Ok(PollOutcome::Crowded(crowded)),
                None => {
                    if std::mem::replace(&mut queued, true) {
                        // The place that we created is missing in the snapshot.
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
            Decision::Wait(WaitFor::Room | WaitFor::Predecessor(_)) => {
                let Some(place) = place else { continue };
                let ahead = snapshot.queue.iter().position(|other| other == place).unwrap_or(0);
                if let Some(crowded) = crowded(&snapshot.queue[..ahead], source, limits) {
                    give_up(&term, name, &places).await?;
                    return Ok(PollOutcome::Crowded(crowded));
                }
                // Record that the client still polls: the version rises, and that is all that sweepers compare.
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
                return Ok(PollOutcome::Waits { ahead, holders, frozen: snapshot.pool.frozen.is_some() });
            }
        }
    }
}

/// Releases this holder's slot, or gives up its place in the queue; with a ticket, only the slot taken with it.
/// Returns whether it had a slot.
pub async fn release(
    session: &Session,
    name: &Name,
    holder: &str,
    ticket: Option<&str>,
) -> Result<bool, SlotsError> {
    let term = session.term().patient();
    // Another server may have served the acquire a moment ago.
    term.sync("/").await?;
    let snapshot = Snapshot::read_damaged(&term, name).await?;
    if ticket.is_none() {
        give_up(&term, name, &places_of(&snapshot, holder)).await?;
    }
    let running = |slot| SlotsError::Running { pool: name.to_string(), slot, holder: holder.to_owned() };
    // Decide on what this read finds: a moment later a command may run under the same name.
    match HeldSlot::find(session, name, holder).await {
        Ok(held) if ticket.is_some_and(|ticket| ticket != held.ticket()) => {
            Err(SlotsError::Lost { pool: name.to_string(), slot: held.number() })
        }
        Ok(held) if !has_no_process(held.holder()) => Err(running(held.number())),
        Ok(held) => match held.release().await {
            Ok(()) | Err(SlotsError::Lost { .. }) => Ok(true),
            Err(error) => Err(error),
        },
        Err(SlotsError::NotHeld { .. }) => match slot_of(&snapshot.slots, holder) {
            Some(slot) if snapshot.slots[&slot].ticket.is_none() => Err(running(slot)),
            Some(_) | None => Ok(false),
        },
        // Only the holder's word frees such a slot, and here it is; otherwise the slot would be held for ever.
        Err(SlotsError::TicketGone { slot, .. })
            if ticket.is_none() && snapshot.slots.get(&slot).is_some_and(has_no_process) =>
        {
            admin::force_release(session, name, holder, holder).await.map(|_| true)
        }
        Err(error) => Err(error),
    }
}

/// Whether no process stands for it. Slots written by the seed's scripts are not ours and stay.
fn has_no_process(holder: &Holder) -> bool {
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

fn places_of(snapshot: &Snapshot, holder: &str) -> Vec<QueuePlace> {
    let prefix = QueuePlace::polling_holder_prefix(holder);
    snapshot.queue.iter().filter(|place| place.name().starts_with(&prefix)).cloned().collect()
}

async fn queue_up(term: &Term, name: &Name, request: &Request, source: &Source) -> Result<(), SlotsError> {
    let dir = slots::queue(name);
    let prefix = format!("{}/{}", dir.path(), QueuePlace::polling_prefix(&request.holder, source));
    let data = waiter(request).encode();
    match term
        .create(&prefix, &data, Kind::PersistentSequence, menagerie_kernel::session::IfLate::Report)
        .await
    {
        // Two places do no harm: the first counts, and the other is deleted with it or lapses.
        Ok(_) | Err(CallError::Unknown { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

async fn give_up(term: &Term, name: &Name, places: &[QueuePlace]) -> Result<(), SlotsError> {
    for place in places {
        retry::delete(term, slots::waiter(name, place.name()).path()).await?;
    }
    Ok(())
}

/// Sweeps the places of clients that stopped polling. It measures with its own monotonic clock, from when it first
/// saw a place: other clocks may be wrong.
#[derive(Debug, Default)]
pub struct Sweeper {
    seen: HashMap<Name, Seen>,
}

/// By place name: the version of its znode, and since when it has that.
type Seen = HashMap<String, (i32, Instant)>;

impl Sweeper {
    /// Sweeps all pools once. A pool that cannot be read does not keep it from the others.
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

    /// Sweeps one pool.
    pub(crate) async fn sweep_pool(
        &mut self,
        term: &Term,
        name: &Name,
        queue: &[QueuePlace],
        lapse: Duration,
        now: Instant,
    ) -> Result<(), SlotsError> {
        let polling: Vec<&QueuePlace> = queue.iter().filter(|place| place.is_polling()).collect();
        let path = |place: &QueuePlace| slots::waiter(name, place.name()).path().to_owned();
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
        // Concurrently: the server syncs them together.
        let deletions = lapsed.iter().map(|(path, version)| term.delete(path, Some(*version)));
        for deleted in futures_util::future::join_all(deletions).await {
            match deleted {
                // The next sweep finds what is left.
                Ok(())
                | Err(CallError::NoZnode { .. } | CallError::BadVersion { .. } | CallError::Unknown { .. }) =>
                    {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}
