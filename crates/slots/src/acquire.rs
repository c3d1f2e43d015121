//! Acquiring a slot: ask, queue, wait, enter.

use std::time::Duration;

use futures_util::FutureExt as _;
use menagerie_kernel::session::Watch;
use menagerie_kernel::{CallError, Session, Term, retry, unique};
use menagerie_znodes::slots::{self, Frozen, Process, Waiter};
use menagerie_znodes::{Kind, Name, Payload};

use crate::core::resume::{Doubt, is_ours};
use crate::core::{Contender, Decision, Local, QueuePlace, Resume, WaitFor, decide, resume};
use crate::enter::{Contest, Entered, UnresolvedTickets};
use crate::error::SlotsError;
use crate::hold::HeldSlot;
use crate::identity;
use crate::mend::Retries;
use crate::poll::{LAPSE, Sweeper};
use crate::snapshot::{Snapshot, taken};

/// How often to check for the process of an earlier run: no watch reports its end.
const PROCESS_POLL: Duration = Duration::from_millis(500);

/// A request for a slot.
#[expect(missing_docs, reason = "fields name themselves")]
#[derive(Debug, Clone)]
pub struct Request {
    /// The name to hold by; a holder has at most one slot of a pool.
    pub holder: String,
    /// Higher priorities are admitted first.
    pub priority: u16,
    /// The slot ends with the session.
    pub ephemeral: bool,
    /// The user.
    pub who: Option<String>,
    pub reason: Option<String>,
    /// What will run.
    pub command: Vec<String>,
    /// This host.
    pub local: Local,
    /// This process; `None` if no process of this host stands for the holder.
    pub process: Option<Process>,
    /// The guard that will run the command.
    pub guard: Option<Process>,
}

/// A waiter's standing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// Waiters ahead in the queue.
    pub ahead: usize,
    /// Names of the current holders.
    pub holders: Vec<String>,
    /// Set while the pool is frozen: by whom, and why.
    pub frozen: Option<Frozen>,
    /// Set while it waits for an earlier run of the same holder: its slot, and why that cannot be taken over yet.
    pub own: Option<(u32, Doubt)>,
}

/// Waits for a slot and takes it. Cancel-safe: dropping the future gives up the place in the queue and holds nothing.
/// One exception: a request without a process, dropped during its admission, may hold the slot; see
/// [`HeldSlot::find`](crate::HeldSlot::find).
pub async fn acquire(
    session: &Session,
    name: &Name,
    request: &Request,
    mut tell: impl FnMut(Standing),
) -> Result<HeldSlot, SlotsError> {
    let tried = UnresolvedTickets::default();
    let mut terms = session.term_by_term();
    loop {
        // A place in the queue ends with its session; in the next session we queue at the back.
        let contest = Contest { session, term: terms.term().patient(), name, request, tried: &tried };
        let acquired = contest.run(&mut tell).await;
        if let Some(acquired) = terms.finished(acquired).await {
            return acquired;
        }
    }
}

/// Takes a slot if one is free now.
pub async fn try_acquire(
    session: &Session,
    name: &Name,
    request: &Request,
) -> Result<Option<HeldSlot>, SlotsError> {
    let tried = UnresolvedTickets::default();
    let contest = Contest { session, term: session.term().patient(), name, request, tried: &tried };
    let mut retries = Retries::new(&contest.term, name);
    loop {
        let snapshot = Snapshot::read(&contest.term, name).await?;
        let entered = match decide(snapshot.facts(), &request.holder, Contender::Newcomer) {
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

/// A place in the queue; dropping it gives it up.
struct Queued {
    term: Term,
    dir: String,
    prefix: String,
    /// `None` while its name is unknown.
    place: Option<QueuePlace>,
    /// The admission has deleted the place: there is nothing to give up.
    is_used: bool,
}

impl Drop for Queued {
    fn drop(&mut self) {
        if self.is_used {
            return;
        }
        let (term, dir, prefix) =
            (self.term.clone(), std::mem::take(&mut self.dir), std::mem::take(&mut self.prefix));
        self.term.in_background(async move {
            // This fails only when the session is over, and then the place is gone, too.
            let _ = retry::withdraw(&term, &dir, &prefix).await;
        });
    }
}

impl Contest<'_> {
    async fn run(&self, tell: &mut impl FnMut(Standing)) -> Result<HeldSlot, SlotsError> {
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
            let me = place.map_or(Contender::Newcomer, Contender::Waiter);
            match decide(snapshot.facts(), &self.request.holder, me) {
                Decision::Enter(number) => {
                    let place = place.cloned();
                    match self.enter(&snapshot, number, place.as_ref()).await? {
                        Entered::In(held) => {
                            if let Some(queued) = &mut queued {
                                queued.is_used = true;
                            }
                            return Ok(*held);
                        }
                        Entered::Refused(why) => retries.refused(why).await?,
                    }
                    // Another contender was faster. Queue now: it keeps later ones behind us, and without a queue all
                    // contenders would retry against each other.
                    if queued.is_none() {
                        (queued, seen) = self.queue_up(&mut retries).await?;
                    }
                }
                Decision::Queue => (queued, seen) = self.queue_up(&mut retries).await?,
                Decision::Again => {
                    let place = place.map_or("", QueuePlace::name);
                    let gone = slots::waiter(self.name, place).path().to_owned();
                    queued = None;
                    retries.refused(CallError::NoZnode { path: gone }).await?;
                }
                Decision::Wait(on) => {
                    if let WaitFor::Own(number) = on {
                        // Leave the queue, so as not to block others.
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

    fn standing(
        &self,
        snapshot: &Snapshot,
        place: Option<&QueuePlace>,
        own: Option<(u32, Doubt)>,
    ) -> Standing {
        let ahead = snapshot.queue.iter().position(|other| Some(other) == place);
        Standing {
            ahead: ahead.unwrap_or(snapshot.queue.len()),
            holders: snapshot.slots.values().map(|holder| holder.holder.clone()).collect(),
            frozen: snapshot.pool.frozen.clone(),
            own,
        }
    }

    /// Takes a place in the queue and reads the pool; no place if the queue does not exist, no snapshot if the read
    /// came before the create.
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
        let prefix = QueuePlace::prefix(self.request.priority, &unique::hex());
        // Constructed before the znode exists, so that dropping it cleans up however this ends.
        let mut queued = Queued { term: self.term.clone(), dir, prefix, place: None, is_used: false };
        let data = waiter.encode();
        let kind = Kind::EphemeralSequence;
        let creating = retry::create_unique(&self.term, &queued.dir, &queued.prefix, &data, kind);
        // The server keeps the order of requests, so the read needs no second round trip.
        let (created, snapshot) = tokio::join!(creating, Snapshot::read(&self.term, self.name));
        let created = match created {
            Err(error @ CallError::NoZnode { .. }) => {
                queued.is_used = true;
                retries.refused(error).await?;
                return Ok((None, None));
            }
            created => created?,
        };
        queued.place = created.path.rsplit('/').next().and_then(QueuePlace::parse);
        // After a reconnect the read may have overtaken the create.
        let is_seen =
            |snapshot: &Snapshot| queued.place.as_ref().is_some_and(|place| snapshot.queue.contains(place));
        let snapshot = Some(snapshot?).filter(is_seen);
        Ok((Some(queued), snapshot))
    }

    /// Why the slot of an earlier run cannot be taken over yet.
    fn doubt(&self, snapshot: &Snapshot, number: u32) -> Option<Doubt> {
        let holder = snapshot.slots.get(&number)?;
        if is_ours(holder, |ticket| self.tried.contains(ticket)) {
            return None;
        }
        if snapshot.pool.frozen.is_some() {
            return Some(Doubt::Frozen);
        }
        match resume(holder, snapshot.is_alive(holder), &self.request.local, identity::is_running) {
            Resume::Take => None,
            Resume::Wait(doubt) => Some(doubt),
        }
    }

    /// Watches what blocks us. `None` if it is no longer what the snapshot shows: then read again, because a watch
    /// reports only later changes.
    async fn watch(&self, snapshot: &Snapshot, on: &WaitFor) -> Result<Option<Vec<Watch>>, SlotsError> {
        let watched = match on {
            WaitFor::Room => self.watch_room(snapshot).await,
            WaitFor::Predecessor(place) => {
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

    /// Watches for room. An ephemeral slot ends without a write to the pool, so this watches the pool's children,
    /// too.
    async fn watch_room(&self, snapshot: &Snapshot) -> Result<Option<Vec<Watch>>, CallError> {
        let pool = slots::pool(self.name);
        let (data, children) =
            tokio::join!(self.term.get_watched(pool.path()), self.term.children_watched(pool.path()));
        let ((_, stat, changed), (children, _, left)) = (data?, children?);
        // Every admission gives the pool a new version, so with the same version there are the same slots or fewer.
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
        // No watch reports the end of a process or a client that has gone silent: poll.
        let poll = async {
            match on {
                WaitFor::Own(_) => tokio::time::sleep(PROCESS_POLL).await,
                WaitFor::Predecessor(place) if place.is_polling() => tokio::time::sleep(LAPSE).await,
                WaitFor::Room | WaitFor::Predecessor(_) => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = &mut any => {}
            () = poll => if let WaitFor::Predecessor(place) = on {
                // Each poll of the client changes its znode and fires the watch. After the sync, all earlier events
                // are here, even if we were suspended meanwhile.
                self.term.sync("/").await?;
                if any.now_or_never().is_none() {
                    retry::delete(&self.term, slots::waiter(self.name, place.name()).path()).await?;
                    // Without a FleetLock server nobody else sweeps, and more clients ahead of us may be silent:
                    // sweep them all at once.
                    let now = std::time::Instant::now();
                    sweeper.sweep_pool(&self.term, self.name, &snapshot.queue, LAPSE, now).await?;
                }
            },
            () = self.term.lost() => return Err(CallError::Expired.into()),
        }
        Ok(())
    }
}
