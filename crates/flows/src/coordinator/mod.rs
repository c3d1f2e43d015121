//! The coordinator: stands for election, and while it leads, handles one event after the other.
//!
//! - this file: the loop. `tree.rs`: from the tree to a state and to facts. `write.rs`: from effects to a transaction.
//!   `planner.rs`: what a new job needs in the journal, and how that is cleared away.
//!
//! # Promises
//! - An event is one transaction, fenced by the leader's ticket, and with the version of the number of events: nothing is
//!   ever half done, and a deposed leader changes nothing.
//! - A new leader reads the tree and goes on where the last one stopped.

mod planner;
mod tree;
mod write;

use std::collections::HashSet;
use std::time::Duration;

use menagerie_journal_directory::Journals;
use menagerie_kernel::recipes::election::{Candidate, Election};
use menagerie_kernel::recipes::grant::Grant;
use menagerie_kernel::recipes::tree_cache::TreeCache;
use menagerie_kernel::session::now_ms;
use menagerie_kernel::{CallError, Session, TransactionError, retry, whole};
use menagerie_znodes::flows::{Deployment, JobState};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tracing::{debug, info, warn};

use self::planner::Planner;
use crate::core::{Event, Facts, JobId, PeerId, State, next_event, step};
use crate::{FlowError, layout};

/// Before a leader that could not go on reads the tree again; doubled each time, up to the maximum.
const LEAD_PAUSE: Duration = Duration::from_millis(100);
const LEAD_PAUSE_MAX: Duration = Duration::from_secs(30);
/// After it was told to stop, a leader has this long for the event that it is handling.
const LAST_EVENT: Duration = Duration::from_secs(1);
/// Between two attempts to prepare a job, if the journal is away.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// Between two attempts to delete its links: nobody waits for that.
const CLEAR_PAUSE: Duration = Duration::from_secs(30);

/// A coordinator of one deployment.
#[derive(Clone)]
pub struct Coordinator {
    /// Its session.
    pub session: Session,
    /// Where links may be.
    pub journals: Journals,
    /// What it coordinates.
    pub deployment: Deployment,
}

/// Why a leader cannot go on.
enum Over {
    /// It was told to stop.
    Stopped,
    /// It was deposed.
    Deposed,
    /// ZooKeeper refused a write, for this reason: its picture of the tree was wrong.
    Stale(String),
}

impl Coordinator {
    /// Leads whenever it is elected, until `stop`. `stands` is called once it stands for election; `identifier` is what
    /// others read about it.
    pub async fn run(
        &self,
        identifier: &str,
        stands: impl AsyncFnOnce(),
        stop: impl Future<Output = ()>,
    ) -> Result<(), FlowError> {
        let (session, mut stop) = (&self.session, std::pin::pin!(stop));
        let ensure =
            session.across_terms(|term| async move { layout::ensure(&term, &self.deployment).await });
        tokio::select! {
            ensured = ensure => ensured?,
            () = &mut stop => return Ok(()),
        }
        let mut candidate = Election::new(session, self.deployment.election(), identifier).stand();
        stands().await;
        let (tell, stopping) = watch::channel(false);
        let stopped = async {
            stop.await;
            tell.send_replace(true);
            tokio::time::sleep(LAST_EVENT).await;
        };
        tokio::select! {
            () = self.serve(&mut candidate, stopping) => {}
            () = stopped => {}
        }
        // Whoever stands by leads at once.
        Ok(candidate.withdraw().await?)
    }

    /// Leads whenever elected; ends when it is stopped, or with the session.
    async fn serve(&self, candidate: &mut Candidate, mut stopping: watch::Receiver<bool>) {
        loop {
            let grant = tokio::select! {
                Some(grant) = candidate.elected() => grant,
                () = stop_requested(&mut stopping) => return,
                else => return,
            };
            info!(deployment = %self.deployment.name(), fence = %grant.fence(), "leading");
            tokio::select! {
                () = self.lead(&grant, &stopping) => {}
                loss = grant.lost() => info!(?loss, "leadership lost"),
            }
        }
    }

    /// Leads until deposed. A leader that cannot go on, because a znode is damaged say, tries again and again, and says
    /// why: whoever stands by could not either, and other roles of the process are not to blame.
    async fn lead(&self, grant: &Grant, stopping: &watch::Receiver<bool>) {
        let mut pause = LEAD_PAUSE;
        loop {
            let mut handled = 0;
            let why = match self.lead_once(grant, stopping.clone(), &mut handled).await {
                Ok(Over::Stopped) => return,
                Ok(Over::Deposed) => break,
                Ok(Over::Stale(why)) => why,
                Err(error) if error.ends_term() => break,
                Err(error) => whole(&error).to_string(),
            };
            if handled > 0 {
                pause = LEAD_PAUSE;
            }
            warn!(deployment = %self.deployment.name(), why, ?pause, "cannot go on; reading the tree again");
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LEAD_PAUSE_MAX);
        }
        // The loss of the grant follows at once.
        grant.lost().await;
    }

    /// Reads the tree, and goes on from there; counts the events that it handles.
    async fn lead_once(
        &self,
        grant: &Grant,
        stopping: watch::Receiver<bool>,
        handled: &mut u64,
    ) -> Result<Over, FlowError> {
        // Read by the session that was elected, so it shows all that earlier leaders wrote.
        let cache = TreeCache::start(&self.session, &self.deployment.root());
        cache.ready().await?;
        let (state, events) = tree::state(&cache, &self.deployment)?;
        debug!(jobs = state.jobs.len(), peers = state.peers.len(), "the tree is read");
        let mut leader = Leader {
            deployment: self.deployment.clone(),
            grant: grant.clone(),
            stopping,
            cache,
            state,
            events,
            planner: Planner::new(self.journals.clone(), grant.fence()),
            journal_work: JoinSet::new(),
            in_work: HashSet::new(),
            deleted_peers: HashSet::new(),
        };
        let over = leader.run().await;
        *handled = leader.events.count - events.count;
        over
    }
}

async fn stop_requested(stopping: &mut watch::Receiver<bool>) {
    // An error: nobody is left who could ask, which is the same.
    let _ = stopping.wait_for(|stop| *stop).await;
}

/// The event counter as it was written last: its value, and its version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventCount {
    /// Events so far.
    pub count: u64,
    /// The znode's version.
    pub version: i32,
}

/// A coordinator that leads.
struct Leader {
    deployment: Deployment,
    grant: Grant,
    /// Becomes true when it is to stop, between two events.
    stopping: watch::Receiver<bool>,
    cache: TreeCache,
    state: State,
    events: EventCount,
    planner: Planner,
    /// Work in the journal, whose outcome is an event.
    journal_work: JoinSet<(JobId, Option<Event>)>,
    /// Jobs with such work.
    in_work: HashSet<JobId>,
    /// Dead peers that the cache may still show.
    deleted_peers: HashSet<PeerId>,
}

impl Leader {
    async fn run(&mut self) -> Result<Over, FlowError> {
        let (mut revision, mut stopping) = (self.cache.subscribe(), self.stopping.clone());
        loop {
            revision.borrow_and_update();
            while let Some(event) = self.next_event().await? {
                if let Some(over) = self.handle(event).await? {
                    return Ok(over);
                }
                if *self.stopping.borrow() {
                    return Ok(Over::Stopped);
                }
            }
            self.begin_work();
            tokio::select! {
                () = stop_requested(&mut stopping) => return Ok(Over::Stopped),
                changed = revision.changed() => if changed.is_err() {
                    self.cache.ready().await?;
                },
                Some(done) = self.journal_work.join_next(), if !self.journal_work.is_empty() => {
                    // Whoever reads the tree again begins this work again.
                    let Ok((job, event)) = done else { return Ok(Over::Stale("work in the journal panicked".to_owned())) };
                    // A job that was refused stays so, also while the cache does not show the answer yet.
                    if !matches!(event, Some(Event::Refuse { .. })) {
                        self.in_work.remove(&job);
                    }
                    if let Some(event) = event && let Some(over) = self.handle(event).await? {
                        return Ok(over);
                    }
                }
            }
        }
    }

    /// The next event, if the tree shows one. The cache may be behind: before a peer is buried, the server is asked.
    async fn next_event(&mut self) -> Result<Option<Event>, FlowError> {
        let mut facts = tree::facts(&self.cache, &self.deployment, &self.state);
        let shown: HashSet<PeerId> = facts.registered.keys().cloned().collect();
        self.deleted_peers.retain(|peer| shown.contains(peer));
        facts.registered.retain(|peer, _| !self.deleted_peers.contains(peer));
        loop {
            let event = next_event(&self.state, &facts);
            let Some(Event::Dead(peer)) = &event else { return Ok(event) };
            if self.is_dead(peer, &mut facts).await? {
                // Its last word may have been newer than the cache.
                return Ok(next_event(&self.state, &facts));
            }
            facts.alive.insert(peer.clone());
        }
    }

    /// Whether a peer's pulse is gone. If so, reads what it said last.
    async fn is_dead(&self, peer: &PeerId, facts: &mut Facts) -> Result<bool, FlowError> {
        let term = self.grant.term().patient();
        if term.stat(self.deployment.pulse(peer).path()).await?.is_some() {
            return Ok(false);
        }
        let completion = term.read(&self.deployment.completion(peer)).await?;
        if let (Some(signals), Some(completion)) = (facts.registered.get_mut(peer), completion) {
            signals.completion = completion.value;
        }
        Ok(true)
    }

    /// Decides an event, and writes its effects. `Some` if that was refused.
    async fn handle(&mut self, event: Event) -> Result<Option<Over>, FlowError> {
        debug!(?event, "event");
        let dead = if let Event::Dead(peer) = &event { Some(peer.clone()) } else { None };
        let state = std::mem::take(&mut self.state);
        let (state, effects) = step(state, event, now_ms() as u64);
        self.state = state;
        if effects.is_empty() {
            return Ok(None);
        }
        let term = self.grant.term().patient();
        let (events, next) = (self.deployment.events(), self.events.count + 1);
        let transaction = write::transaction(&self.grant, &self.deployment, &self.cache, effects).set(
            &events,
            &next,
            Some(self.events.version),
        );
        // Only a leader writes the counter, and each only once with this number.
        let proof = || async {
            Ok(term.read(&events).await?.filter(|found| found.value == next).map(|_| Vec::new()))
        };
        match retry::commit(transaction, proof).await {
            Ok(_) => {
                self.events = EventCount { count: next, version: self.events.version + 1 };
                self.deleted_peers.extend(dead);
                Ok(None)
            }
            Err(TransactionError::Lost { .. }) => Ok(Some(Over::Deposed)),
            Err(TransactionError::Part { index, source }) => {
                Ok(Some(Over::Stale(format!("part {index} of an event was refused: {}", whole(&source)))))
            }
            Err(TransactionError::Call(error)) if error.ends_term() => Ok(Some(Over::Deposed)),
            Err(TransactionError::Call(CallError::Unknown { .. })) => Ok(Some(Over::Deposed)),
            Err(error) => Err(error.into()),
        }
    }

    /// Begins what is to be done in the journal: for jobs that are submitted, and for jobs that have ended.
    fn begin_work(&mut self) {
        let is_known = |job: &JobId| self.state.jobs.contains_key(job) || self.in_work.contains(job);
        for (job, plan) in tree::open_plans(&self.cache, &self.deployment, is_known) {
            let (planner, id) = (self.planner.clone(), job.clone());
            self.work(job, RETRY_PAUSE, async move { planner.prepare(&id, &plan).await });
        }
        let ended = self.state.jobs.iter().filter(|(id, job)| {
            job.record.state != JobState::Running && !job.record.is_cleared && !self.in_work.contains(*id)
        });
        let ended: Vec<_> = ended.map(|(id, job)| (id.clone(), job.record.clone())).collect();
        for (job, record) in ended {
            let (planner, id) = (self.planner.clone(), job.clone());
            self.work(job, CLEAR_PAUSE, async move {
                planner.clear(&id, &record).await.map(|()| Event::Cleared(id))
            });
        }
    }

    /// Begins work for a job. If it cannot be done yet, it is begun again after a pause.
    fn work(
        &mut self,
        job: JobId,
        pause: Duration,
        work: impl Future<Output = Result<Event, String>> + Send + 'static,
    ) {
        self.in_work.insert(job.clone());
        self.journal_work.spawn(async move {
            match work.await {
                Ok(event) => (job, Some(event)),
                Err(why) => {
                    warn!(%job, why, ?pause, "cannot work on a job in the journal yet; trying again");
                    tokio::time::sleep(pause).await;
                    (job, None)
                }
            }
        });
    }
}
