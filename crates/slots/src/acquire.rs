//! Getting a slot: ask, queue up, wait, enter.

use std::time::Duration;

use futures_util::FutureExt as _;
use menagerie_kernel::session::Watch;
use menagerie_kernel::{CallError, Session, Term, retry, unique};
use menagerie_znodes::slots::{self, Frozen, Process, Waiter};
use menagerie_znodes::{Kind, Name, Payload};

use crate::core::resume::{Doubt, is_ours};
use crate::core::{Decision, Local, Me, Place, Resume, WaitFor, decide, resume};
use crate::enter::{Contest, Entered, Tried};
use crate::error::SlotsError;
use crate::hold::Held;
use crate::identity;
use crate::mend::Retries;
use crate::poll::{LAPSE, Sweeper};
use crate::snapshot::{Snapshot, taken};

/// How often a process of this host is looked for that no watch can tell of.
const LOOK: Duration = Duration::from_millis(500);

/// Who asks for a slot, and for what.
#[derive(Debug, Clone)]
pub struct Request {
    /// The name to hold by. Nobody holds twice.
    pub holder: String,
    /// Who is more important waits less.
    pub priority: u16,
    /// The slot ends with the session.
    pub ephemeral: bool,
    /// The user.
    pub who: Option<String>,
    /// Why.
    pub reason: Option<String>,
    /// What will run.
    pub command: Vec<String>,
    /// This host.
    pub local: Local,
    /// This process; `None` if nothing of this host stands for the holder.
    pub process: Option<Process>,
    /// The guard that will run the command.
    pub guard: Option<Process>,
}

/// Where somebody stands who waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// How many are before.
    pub ahead: usize,
    /// Who is in.
    pub holders: Vec<String>,
    /// The pool is frozen: by whom, and why.
    pub frozen: Option<Frozen>,
    /// It waits for an earlier run of the same holder, and this is why.
    pub own: Option<(u32, Doubt)>,
}

/// Waits for a slot and takes it. Dropped before its end, the place in the queue is given up, and nothing is held; except for a
/// request without a process that is dropped just while it is admitted. That one may hold the slot: see
/// [`Held::find`](crate::Held::find).
pub async fn acquire(
    session: &Session,
    name: &Name,
    request: &Request,
    mut tell: impl FnMut(Standing),
) -> Result<Held, SlotsError> {
    let tried = Tried::default();
    let mut terms = session.term_by_term();
    loop {
        // A place in the queue goes with its session: at the back again, in the next one.
        let contest = Contest { session, term: terms.term().patient(), name, request, tried: &tried };
        let acquired = contest.run(&mut tell).await;
        if let Some(acquired) = terms.finished(acquired).await {
            return acquired;
        }
    }
}

/// Takes a slot if that is possible at once.
pub async fn try_acquire(
    session: &Session,
    name: &Name,
    request: &Request,
) -> Result<Option<Held>, SlotsError> {
    let tried = Tried::default();
    let contest = Contest { session, term: session.term().patient(), name, request, tried: &tried };
    let mut retries = Retries::new(&contest.term, name);
    loop {
        let snapshot = Snapshot::read(&contest.term, name).await?;
        let entered = match decide(snapshot.facts(), &request.holder, Me::Newcomer) {
            Decision::Enter(number) => contest.enter(&snapshot, number, None).await?,
            Decision::Wait(WaitFor::Own(number)) => match contest.doubt(&snapshot, number) {
                Some(_) => return Ok(None),
                None => contest.take_over(&snapshot, number).await?,
            },
            Decision::Queue | Decision::Wait(_) | Decision::Again => return Ok(None),
        };
        match entered {
            Entered::In(held) => return Ok(Some(*held)),
            Entered::Refused(why) => retries.refused(why).await?,
        }
    }
}

/// A place in the queue. Dropped, it is given up.
struct Queued {
    term: Term,
    dir: String,
    prefix: String,
    /// `None` while nobody knows which it is.
    place: Option<Place>,
    /// The admission has deleted it: there is nothing to give up.
    used: bool,
}

impl Drop for Queued {
    fn drop(&mut self) {
        if self.used {
            return;
        }
        let (term, dir, prefix) =
            (self.term.clone(), std::mem::take(&mut self.dir), std::mem::take(&mut self.prefix));
        self.term.in_background(async move {
            // It fails only when the session is over, and then the place is gone too.
            let _ = retry::withdraw(&term, &dir, &prefix).await;
        });
    }
}

impl Contest<'_> {
    async fn run(&self, tell: &mut impl FnMut(Standing)) -> Result<Held, SlotsError> {
        let mut queued: Option<Queued> = None;
        let mut seen: Option<Snapshot> = None;
        let mut sweeper = Sweeper::default();
        let mut retries = Retries::new(&self.term, self.name);
        loop {
            let snapshot = match seen.take() {
                Some(snapshot) => snapshot,
                None => Snapshot::read(&self.term, self.name).await?,
            };
            let place = queued.as_ref().and_then(|queued| queued.place.as_ref());
            let me = place.map_or(Me::Newcomer, Me::Waiter);
            match decide(snapshot.facts(), &self.request.holder, me) {
                Decision::Enter(number) => {
                    let place = place.cloned();
                    match self.enter(&snapshot, number, place.as_ref()).await? {
                        Entered::In(held) => {
                            if let Some(queued) = &mut queued {
                                queued.used = true;
                            }
                            return Ok(*held);
                        }
                        Entered::Refused(why) => retries.refused(why).await?,
                    }
                    // Somebody else was faster. Who comes after us shall not be: and all who try at once would be in each
                    // other's way, again and again.
                    if queued.is_none() {
                        (queued, seen) = self.queue_up(&mut retries).await?;
                    }
                }
                Decision::Queue => (queued, seen) = self.queue_up(&mut retries).await?,
                Decision::Again => {
                    let place = place.map_or("", Place::name);
                    let gone = slots::waiter(self.name, place).path().to_owned();
                    queued = None;
                    retries.refused(CallError::NoZnode { path: gone }).await?;
                }
                Decision::Wait(on) => {
                    if let WaitFor::Own(number) = on {
                        // Not to stand in the way of others.
                        queued = None;
                        let Some(doubt) = self.doubt(&snapshot, number) else {
                            match self.take_over(&snapshot, number).await? {
                                Entered::In(held) => return Ok(*held),
                                Entered::Refused(why) => retries.refused(why).await?,
                            }
                            continue;
                        };
                        tell(self.standing(&snapshot, None, Some((number, doubt))));
                    } else {
                        tell(self.standing(&snapshot, place, None));
                    }
                    if let Some(watches) = self.watch(&snapshot, &on).await? {
                        self.wait(watches, &on, &snapshot, &mut sweeper).await?;
                        retries.reset();
                    }
                }
            }
        }
    }

    fn standing(&self, snapshot: &Snapshot, place: Option<&Place>, own: Option<(u32, Doubt)>) -> Standing {
        let ahead = snapshot.queue.iter().position(|other| Some(other) == place);
        Standing {
            ahead: ahead.unwrap_or(snapshot.queue.len()),
            holders: snapshot.slots.values().map(|holder| holder.holder.clone()).collect(),
            frozen: snapshot.pool.frozen.clone(),
            own,
        }
    }

    /// Takes a place in the queue, and tells how things stand then; no place if there was no queue, and nothing if the look came
    /// too early.
    async fn queue_up(
        &self,
        retries: &mut Retries<'_>,
    ) -> Result<(Option<Queued>, Option<Snapshot>), SlotsError> {
        let waiter = Waiter {
            holder: self.request.holder.clone(),
            host: self.request.local.host.clone(),
            pid: self.request.process.map_or(0, |process| process.pid),
            who: self.request.who.clone(),
            reason: self.request.reason.clone(),
            polling: false,
        };
        let dir = slots::queue(self.name).path().to_owned();
        let prefix = Place::prefix(self.request.priority, &unique::hex());
        // Before it exists, so that it is given up however this ends.
        let mut queued = Queued { term: self.term.clone(), dir, prefix, place: None, used: false };
        let data = waiter.encode();
        let kind = Kind::EphemeralSequence;
        let creating = retry::create_unique(&self.term, &queued.dir, &queued.prefix, &data, kind);
        // The server does one after the other, so the look costs no second round trip.
        let (created, snapshot) = tokio::join!(creating, Snapshot::read(&self.term, self.name));
        let created = match created {
            Err(error @ CallError::NoZnode { .. }) => {
                queued.used = true;
                retries.refused(error).await?;
                return Ok((None, None));
            }
            created => created?,
        };
        queued.place = created.path.rsplit('/').next().and_then(Place::parse);
        // Around a lost connection the look may have come first.
        let is_seen =
            |snapshot: &Snapshot| queued.place.as_ref().is_some_and(|place| snapshot.queue.contains(place));
        let snapshot = Some(snapshot?).filter(is_seen);
        Ok((Some(queued), snapshot))
    }

    /// Why the slot of the same holder cannot be taken over yet.
    fn doubt(&self, snapshot: &Snapshot, number: u32) -> Option<Doubt> {
        let holder = snapshot.slots.get(&number)?;
        if is_ours(holder, |ticket| self.tried.contains(ticket)) {
            return None;
        }
        if snapshot.pool.frozen.is_some() {
            return Some(Doubt::Frozen);
        }
        match resume(holder, snapshot.is_alive(holder), &self.request.local, identity::runs) {
            Resume::Take => None,
            Resume::Wait(doubt) => Some(doubt),
        }
    }

    /// Watches what is in the way. A watch tells of what comes after it: `None` if that is not what was seen any more, and
    /// one has to look again.
    async fn watch(&self, snapshot: &Snapshot, on: &WaitFor) -> Result<Option<Vec<Watch>>, SlotsError> {
        let watched = match on {
            WaitFor::Room => self.watch_room(snapshot).await,
            WaitFor::Place(place) => {
                let watched = self.term.get_watched(slots::waiter(self.name, place.name()).path()).await;
                watched.map(|(_, _, watch)| Some(vec![watch]))
            }
            WaitFor::Own(number) => self.watch_own(snapshot, *number).await,
        };
        match watched {
            Err(CallError::NoZnode { .. }) => Ok(None),
            watched => Ok(watched?),
        }
    }

    /// Slots that end with their session leave without a word to the pool, so its children are watched, too.
    async fn watch_room(&self, snapshot: &Snapshot) -> Result<Option<Vec<Watch>>, CallError> {
        let pool = slots::pool(self.name);
        let (data, children) =
            tokio::join!(self.term.get_watched(pool.path()), self.term.children_watched(pool.path()));
        let ((_, stat, changed), (children, _, left)) = (data?, children?);
        // Whoever enters gives the pool a new version, so with the same one it is the same slots, or fewer.
        let same = stat.version == snapshot.version && taken(&children) == snapshot.taken;
        Ok(same.then(|| vec![changed, left]))
    }

    async fn watch_own(&self, snapshot: &Snapshot, number: u32) -> Result<Option<Vec<Watch>>, CallError> {
        let (_, stat, changed) = self.term.get_watched(slots::slot(self.name, number).path()).await?;
        let mut same = snapshot.stats.get(&number).is_some_and(|seen| seen.mzxid == stat.mzxid);
        let mut watches = vec![changed];
        if let Some(holder) = snapshot.slots.get(&number)
            && let Some(ticket) = &holder.ticket
        {
            let (alive, gone) = self.term.stat_watched(slots::alive(self.name, ticket).path()).await?;
            same &= alive.is_some() == snapshot.is_alive(holder);
            watches.push(gone);
        }
        Ok(same.then_some(watches))
    }

    async fn wait(
        &self,
        watches: Vec<Watch>,
        on: &WaitFor,
        snapshot: &Snapshot,
        sweeper: &mut Sweeper,
    ) -> Result<(), SlotsError> {
        let changes = watches.into_iter().map(|watch| Box::pin(watch.changed()));
        let mut any = futures_util::future::select_all(changes);
        // No watch tells when a process ends, or that somebody has been silent for long.
        let look = async {
            match on {
                WaitFor::Own(_) => tokio::time::sleep(LOOK).await,
                WaitFor::Place(place) if place.polls() => tokio::time::sleep(LAPSE).await,
                WaitFor::Room | WaitFor::Place(_) => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = &mut any => {}
            () = look => if let WaitFor::Place(place) = on {
                // Each time it asks, the znode changes, and the watch tells; what it told before the server's answer is
                // here, also if we were stopped meanwhile.
                self.term.sync("/").await?;
                if any.now_or_never().is_none() {
                    retry::delete(&self.term, slots::waiter(self.name, place.name()).path()).await?;
                    // If no server is there to do it, others before us may have gone silent too: one look for all of them.
                    let now = std::time::Instant::now();
                    sweeper.sweep_pool(&self.term, self.name, &snapshot.queue, LAPSE, now).await?;
                }
            },
            () = self.term.lost() => return Err(CallError::Expired.into()),
        }
        Ok(())
    }
}
