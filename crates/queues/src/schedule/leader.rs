//! The election: one process puts all periodic messages.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use menagerie_journal::store::Clock;
use menagerie_kernel::recipes::election::{Candidate, Election};
use menagerie_kernel::recipes::grant::Grant;
use menagerie_kernel::recipes::tree_cache::TreeCache;
use menagerie_kernel::{Session, whole};
use menagerie_znodes::queues;
use tokio::task::JoinSet;
use tracing::{error, warn};

use super::host_clock::HostClock;
use super::patience::{PATIENCE, Patience};
use super::queue_loop::{self, Ended};
use crate::error::QueueError;
use crate::journals::Journals;

/// Pause before standing again after an error, and before the loop of a queue begins anew after a panic.
const RETRY_DELAY: Duration = Duration::from_secs(5);

/// Stands for election under this name, and puts periodic messages while elected, until `shutdown` or the end of the
/// session. A candidate that is not elected, or finds no schedules, only waits for a change.
pub async fn run(session: &Session, journals: &Journals, name: &str, shutdown: impl Future<Output = ()>) {
    run_by(session, journals, name, Clock::default(), shutdown).await;
}

/// [`run`] by this wall clock.
pub async fn run_by(
    session: &Session,
    journals: &Journals,
    name: &str,
    clock: Clock,
    shutdown: impl Future<Output = ()>,
) {
    let election = Election::new(session, queues::schedule_election(), name);
    let mut candidate = election.stand();
    let scheduler = Scheduler { session, journals, name, clock: HostClock::new(clock) };
    tokio::select! {
        () = scheduler.stand(&election, &mut candidate) => {}
        never = scheduler.clock.observe() => match never {},
        () = shutdown => {}
    }
    if let Err(error) = candidate.withdraw().await {
        warn!(error = %whole(&error), "could not resign from putting periodic messages");
    }
}

/// One that stands for election, and what it needs when it is elected.
struct Scheduler<'a> {
    session: &'a Session,
    journals: &'a Journals,
    /// What others read about us.
    name: &'a str,
    clock: HostClock,
}

impl Scheduler<'_> {
    async fn stand(&self, election: &Election, candidate: &mut Candidate) {
        let mut patience = PATIENCE;
        while let Some(grant) = candidate.elected().await {
            let resigned = tokio::select! {
                // The candidate stands again by itself.
                _ = grant.lost() => continue,
                resigned = self.lead(&grant, patience) => resigned,
            };
            let pause = match resigned {
                // No pause: the other queues' messages go on being put, by the next candidate or by us. A growing patience
                // keeps candidates from taking turns too quickly.
                Ok(longer) => {
                    patience = longer;
                    Duration::ZERO
                }
                Err(error) if error.ends_term() => continue,
                Err(error) => {
                    error!(error = %whole(&error), "periodic messages cannot be put here; others may be able to");
                    RETRY_DELAY
                }
            };
            // At the end of the line.
            let before = std::mem::replace(candidate, election.stand());
            let _ = before.withdraw().await;
            // We may be the only candidate; then try again, but do not spin.
            tokio::time::sleep(pause).await;
        }
    }

    /// Keeps a loop running for each queue that has schedules. They are apart, so that a journal that is down holds up only
    /// its own queues: for as long as `patience`, then another candidate has to try. Returns the patience of the next
    /// leadership.
    async fn lead(&self, grant: &Grant, patience: Duration) -> Result<Duration, QueueError> {
        // A new cache for each leadership: what was added before is known before anything is put.
        let cache = TreeCache::start(self.session, &queues::schedules());
        let mut changed = cache.subscribe();
        cache.ready().await?;
        self.clock.compare(grant, self.name).await?;
        let (mut loops, mut running, mut told) = (JoinSet::new(), HashMap::new(), BTreeMap::new());
        loop {
            changed.borrow_and_update();
            let complaints = queue_loop::complaints(&cache);
            if complaints != told {
                for (schedule, why) in &complaints {
                    warn!(schedule, why, "this schedule is left out; remove it and add it again");
                }
                told = complaints;
            }
            for queue in queue_loop::schedules(&cache).into_values().map(|schedule| schedule.queue) {
                if !running.values().any(|other| *other == queue) {
                    let (session, journals) = (self.session.clone(), self.journals.clone());
                    let (clock, cache) = (self.clock.clone(), cache.clone());
                    let (fence, patience) = (grant.fence(), Patience::new(patience));
                    let run =
                        queue_loop::run(session, journals, clock, cache, queue.clone(), fence, patience);
                    running.insert(loops.spawn(run).id(), queue);
                }
            }
            tokio::select! {
                seen = changed.changed() => if seen.is_err() {
                    cache.ready().await?;
                    return Ok(patience);
                },
                Some(ended) = loops.join_next_with_id() => match ended {
                    Ok((id, Ended::Idle)) => drop(running.remove(&id)),
                    Ok((id, Ended::GaveUp { error, patience })) => {
                        let queue = running.remove(&id).map(|queue| queue.to_string());
                        warn!(queue, error, "resigned: its periodic messages cannot be put here; others may be able to");
                        return Ok(patience);
                    }
                    // A bug; the others go on, and this one begins anew after a pause, which takes its place until then.
                    Err(panicked) => {
                        error!(error = %panicked, "the loop of a queue's schedules has ended; starting it again");
                        let pause = loops.spawn(async {
                            tokio::time::sleep(RETRY_DELAY).await;
                            Ended::Idle
                        });
                        let queue = running.remove(&panicked.id());
                        running.extend(queue.map(|queue| (pause.id(), queue)));
                    }
                },
            }
        }
    }
}
