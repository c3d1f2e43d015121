//! The leader's part: once joining and leaving workers have settled, it writes the assignment.

use std::collections::BTreeMap;
use std::time::Duration;

use menagerie_kernel::recipes::election::{Candidate, Election};
use menagerie_kernel::recipes::grant::Grant;
use menagerie_kernel::recipes::settle::{Rule, Settling};
use menagerie_kernel::recipes::tree_cache::TreeCache;
use menagerie_kernel::{CallError, Session, Term, TransactionError, retry, whole};
use menagerie_znodes::queues::{self, Assignment};
use menagerie_znodes::{Dir, Kind, MaybeDamaged, Name, Znode};
use tracing::{error, info, warn};

use super::catalogue;
use crate::core::assignment::{Facts, Owners, assign};
use crate::core::rebalance::Rebalance;
use crate::error::QueueError;
use crate::metrics::Metrics;

/// Pause before standing again after a failed assignment.
const RETRY_DELAY: Duration = Duration::from_secs(5);

/// Stands for election, and assigns partitions while elected.
pub struct Assigner {
    session: Session,
    election: Election,
    candidate: Candidate,
    settle: Rule,
    metrics: Metrics,
}

impl Assigner {
    /// Stands for election under this name.
    pub fn new(session: &Session, worker: &Name, settle: Rule, metrics: Metrics) -> Self {
        let election = Election::new(session, queues::election(), worker.as_str());
        let candidate = election.stand();
        Self { session: session.clone(), election, candidate, settle, metrics }
    }

    /// Runs until the session is over for good. To stop, drop the future and [`withdraw`](Self::withdraw).
    pub async fn run(&mut self) {
        while let Some(grant) = self.candidate.elected().await {
            let error = tokio::select! {
                loss = grant.lost() => {
                    info!(?loss, "another worker leads from now on");
                    None
                }
                // When the session ends, the candidate stands again by itself.
                outcome = self.lead(&grant) => outcome.err().filter(|error| !error.ends_term()),
            };
            if let Some(error) = error {
                error!(error = %whole(&error), "partitions cannot be assigned; others may be able to");
                self.step_back().await;
            }
        }
    }

    /// Resigns, and stands again behind all others: a leader that cannot assign must not block those that can.
    async fn step_back(&mut self) {
        let before = std::mem::replace(&mut self.candidate, self.election.stand());
        if let Err(error) = before.withdraw().await {
            warn!(error = %whole(&error), "could not resign");
        }
        // We may be the only candidate; then try again, but do not spin.
        tokio::time::sleep(RETRY_DELAY).await;
    }

    /// Withdraws from the election.
    pub async fn withdraw(self) -> Result<(), QueueError> {
        Ok(self.candidate.withdraw().await?)
    }

    /// Assigns, and reassigns after every change that has settled. Unsettled changes do not count, so that ten workers
    /// joining one after the other cause one rebalance, even while queues change.
    async fn lead(&self, grant: &Grant) -> Result<(), QueueError> {
        let dir = |znode: Znode<()>| -> Znode<Dir> { Znode::foreign(znode.path(), Kind::Persistent) };
        let mut workers = Settling::new(&self.session, dir(queues::workers()), self.settle);
        let mut cursors = Settling::new(&self.session, dir(queues::cursors()), self.settle);
        // Watch the assignment itself: if somebody removes or overwrites it, the workers have none until we write it
        // again.
        let seen = TreeCache::start(&self.session, &queues::assignment());
        let mut changed = seen.subscribe();
        let (mut listed, mut partitions, mut written) = (None, None, None);
        loop {
            tokio::select! {
                settled = workers.next() => listed = Some(settled?.names),
                settled = cursors.next() => partitions = Some(settled?.names),
                Ok(()) = changed.changed() => {
                    let found = seen.read(&queues::assignment().maybe_damaged())?;
                    if found.and_then(|found| found.value.sound()) == written {
                        continue;
                    }
                }
            }
            if let (Some(listed), Some(partitions)) = (&listed, &partitions) {
                let facts = catalogue::facts(&grant.term().patient(), listed, partitions).await?;
                if let Some(rebalance) = write_assignment(grant, &facts, &mut written).await? {
                    info!(epoch = rebalance.epoch, "assigned anew: {rebalance}");
                    self.metrics.rebalance(&rebalance);
                }
            }
        }
    }
}

/// Writes the assignment for these facts, if it differs. If the znode is missing, continues from the last assignment we
/// know, so that partitions do not move without need.
async fn write_assignment(
    grant: &Grant,
    facts: &Facts,
    last: &mut Option<Assignment>,
) -> Result<Option<Rebalance>, QueueError> {
    let znode = queues::assignment();
    let term = grant.term().patient();
    loop {
        let (stored, version) = read_assignment(&term).await?;
        let is_missing = stored.is_none();
        let old = stored.or_else(|| last.clone()).unwrap_or_default();
        let new = next_assignment(&old, facts);
        if new.workers == old.workers && !is_missing {
            *last = Some(old);
            return Ok(None);
        }
        let transaction = match version {
            Some(version) => grant.transaction().set(&znode, &new, Some(version)),
            None => grant.transaction().create(&znode, &new),
        };
        let stored = &new;
        let proof = || {
            let term = term.clone();
            async move { Ok((read_assignment(&term).await?.0.as_ref() == Some(stored)).then(Vec::new)) }
        };
        match retry::commit(transaction, proof).await {
            Ok(_) => {
                let rebalance = Rebalance::between(&old, &new);
                *last = Some(new);
                return Ok(Some(rebalance));
            }
            // Another leader, earlier or later, wrote it: read again, and let the fence decide.
            Err(TransactionError::Part { source: CallError::BadVersion { .. }, .. })
            | Err(TransactionError::Part { source: CallError::Exists { .. }, .. }) => {}
            // Somebody removed it: create it again.
            Err(TransactionError::Part { source: CallError::NoZnode { .. }, .. }) if version.is_some() => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// The stored assignment, `None` if it is missing or damaged, and the znode's version, `None` if it is missing.
async fn read_assignment(term: &Term) -> Result<(Option<Assignment>, Option<i32>), CallError> {
    let znode = queues::assignment();
    term.sync(znode.path()).await?;
    let Some(found) = term.read(&znode.maybe_damaged()).await? else { return Ok((None, None)) };
    let version = Some(found.version());
    match found.value {
        MaybeDamaged::Sound(assignment) => Ok((Some(assignment), version)),
        MaybeDamaged::Damaged { data, .. } if is_newer(&data) => Err(CallError::payload(
            &znode,
            "a newer version of menagerie has written it, and has to be elected; it is left alone",
        )),
        MaybeDamaged::Damaged { why, .. } => {
            warn!(path = znode.path(), error = why, "the assignment cannot be read, and is written again");
            Ok((None, version))
        }
    }
}

/// Whether data that we cannot decode carries a version, and so comes from a newer release.
fn is_newer(data: &[u8]) -> bool {
    #[derive(serde::Deserialize)]
    struct Versioned {
        #[serde(rename = "version")]
        _version: u64,
    }
    serde_json::from_slice::<Versioned>(data).is_ok()
}

/// The assignment that follows `old`.
fn next_assignment(old: &Assignment, facts: &Facts) -> Assignment {
    let previous: Owners =
        old.owners().into_iter().map(|(partition, worker)| (partition.clone(), worker.clone())).collect();
    let mut workers: BTreeMap<Name, Vec<_>> =
        facts.workers.keys().map(|worker| (worker.clone(), Vec::new())).collect();
    for (partition, worker) in assign(facts, &previous) {
        workers.entry(worker).or_default().push(partition);
    }
    Assignment { epoch: old.epoch + 1, workers }
}
