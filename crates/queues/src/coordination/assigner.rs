//! The elected worker's part: it waits until those who come and go have stopped, and writes who handles what.

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

/// After an assignment that failed.
const FAILED_PAUSE: Duration = Duration::from_secs(5);

/// Stands in the election, and assigns whenever we are elected.
pub struct Assigner {
    session: Session,
    election: Election,
    candidate: Candidate,
    settle: Rule,
    metrics: Metrics,
}

impl Assigner {
    /// Stands under this name.
    pub fn new(session: &Session, worker: &Name, settle: Rule, metrics: Metrics) -> Self {
        let election = Election::new(session, queues::election(), worker.as_str());
        let candidate = election.stand();
        Self { session: session.clone(), election, candidate, settle, metrics }
    }

    /// Until no further campaign is possible. To stop, drop the future and [`withdraw`](Self::withdraw).
    pub async fn run(&mut self) {
        while let Some(grant) = self.candidate.elected().await {
            let failed = tokio::select! {
                loss = grant.lost() => {
                    info!(?loss, "another worker assigns from now on");
                    None
                }
                // At the end of a session the candidate stands again by itself.
                outcome = self.lead(&grant) => outcome.err().filter(|error| !error.ends_term()),
            };
            if let Some(error) = failed {
                error!(error = %whole(&error), "partitions cannot be assigned; others may be able to");
                self.step_back().await;
            }
        }
    }

    /// Resigns, and stands again behind all others: who cannot assign must not keep them from it.
    async fn step_back(&mut self) {
        let before = std::mem::replace(&mut self.candidate, self.election.stand());
        if let Err(error) = before.withdraw().await {
            warn!(error = %whole(&error), "could not resign");
        }
        // Nobody else may stand; then it is tried again, but not all the time.
        tokio::time::sleep(FAILED_PAUSE).await;
    }

    /// Makes place for another.
    pub async fn withdraw(self) -> Result<(), QueueError> {
        Ok(self.candidate.withdraw().await?)
    }

    /// Assigns, and assigns anew after every change, once it has settled. What is not settled does not count yet: so that
    /// ten workers that come one after the other make one change, also while queues change.
    async fn lead(&self, grant: &Grant) -> Result<(), QueueError> {
        let dir = |znode: Znode<()>| -> Znode<Dir> { Znode::foreign(znode.path(), Kind::Persistent) };
        let mut workers = Settling::new(&self.session, dir(queues::workers()), self.settle);
        let mut cursors = Settling::new(&self.session, dir(queues::cursors()), self.settle);
        // Somebody may remove it, or write something else: then nobody would know what to do any more.
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
                if let Some(rebalance) = write(grant, &facts, &mut written).await? {
                    info!(epoch = rebalance.epoch, "assigned anew: {rebalance}");
                    self.metrics.rebalance(&rebalance);
                }
            }
        }
    }
}

/// Writes the assignment that these facts ask for, if it is another one. Where there is none, it follows the last one that we
/// know: what need not move does not.
async fn write(
    grant: &Grant,
    facts: &Facts,
    last: &mut Option<Assignment>,
) -> Result<Option<Rebalance>, QueueError> {
    let znode = queues::assignment();
    let term = grant.term().patient();
    loop {
        let (stored, version) = read(&term).await?;
        let is_missing = stored.is_none();
        let old = stored.or_else(|| last.clone()).unwrap_or_default();
        let new = next(&old, facts);
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
            async move { Ok((read(&term).await?.0.as_ref() == Some(stored)).then(Vec::new)) }
        };
        match retry::commit(transaction, proof).await {
            Ok(_) => {
                let rebalance = Rebalance::between(&old, &new);
                *last = Some(new);
                return Ok(Some(rebalance));
            }
            // Somebody wrote it who was elected after us, or before: the fence decides.
            Err(TransactionError::Part { source: CallError::BadVersion { .. }, .. })
            | Err(TransactionError::Part { source: CallError::Exists { .. }, .. }) => {}
            // Somebody has removed it; then it is made anew.
            Err(TransactionError::Part { source: CallError::NoZnode { .. }, .. }) if version.is_some() => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// What is written, if it can be read, and its version; `None` if nothing is there.
async fn read(term: &Term) -> Result<(Option<Assignment>, Option<i32>), CallError> {
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

/// Whether what we cannot read is of another shape, and not damaged: then it says so.
fn is_newer(data: &[u8]) -> bool {
    #[derive(serde::Deserialize)]
    struct Versioned {
        #[serde(rename = "version")]
        _version: u64,
    }
    serde_json::from_slice::<Versioned>(data).is_ok()
}

/// The assignment that follows.
fn next(old: &Assignment, facts: &Facts) -> Assignment {
    let previous: Owners =
        old.owners().into_iter().map(|(partition, worker)| (partition.clone(), worker.clone())).collect();
    let mut workers: BTreeMap<Name, Vec<_>> =
        facts.workers.keys().map(|worker| (worker.clone(), Vec::new())).collect();
    for (partition, worker) in assign(facts, &previous) {
        workers.entry(worker).or_default().push(partition);
    }
    Assignment { epoch: old.epoch + 1, workers }
}
