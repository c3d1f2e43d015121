//! Requests follow the state: what it does not want any more is canceled and removed, and a build whose executor is gone is
//! found. It looks at what is there, so it does not matter who left it, or when.

use futures_util::{StreamExt as _, stream};
use menagerie_kernel::recipes::grant::Grant;
use menagerie_kernel::recipes::tree_cache::TreeCache;
use menagerie_kernel::session::now_ms;
use menagerie_kernel::{CallError, Session, Term, TransactionError, Versioned, retry};
use menagerie_znodes::Name;
use menagerie_znodes::pipelines::{
    Id, JobQueue, JobsStep, MergeStep, Outcome, PipelineRef, Request, RequestState,
};
use tracing::debug;

use crate::PipelineError;
use crate::core::State;

/// Requests that are removed concurrently.
const REMOVALS_IN_FLIGHT: usize = 16;

/// The requests of both queues, and who works on them.
#[derive(Clone)]
pub struct Requests {
    executor: TreeCache,
    executor_locks: TreeCache,
    merger: TreeCache,
}

impl Requests {
    /// Follows them.
    pub async fn follow(session: &Session) -> Result<Self, PipelineError> {
        let requests = Self {
            executor: TreeCache::start(session, &JobQueue::Executor.requests()),
            executor_locks: TreeCache::start(session, &JobQueue::Executor.locks()),
            merger: TreeCache::start(session, &JobQueue::Merger.requests()),
        };
        for cache in [&requests.executor, &requests.executor_locks, &requests.merger] {
            cache.ready().await?;
        }
        Ok(requests)
    }

    /// Waits for a change of any of them.
    pub fn changes(&self) -> [tokio::sync::watch::Receiver<u64>; 3] {
        [self.executor.subscribe(), self.executor_locks.subscribe(), self.merger.subscribe()]
    }

    fn of(&self, queue: JobQueue, pipeline: &PipelineRef) -> Vec<(Id, Versioned<Request>)> {
        let cache = match queue {
            JobQueue::Executor => &self.executor,
            JobQueue::Merger => &self.merger,
        };
        let names =
            cache.children(queue.requests().path()).into_iter().filter_map(|name| Name::new(name).ok());
        let read = |id: Id| Some((cache.read(&queue.request(&id)).ok()??, id));
        let ours =
            names.filter_map(read).filter(|(found, _)| found.value.pipeline.as_ref() == Some(pipeline));
        ours.map(|(request, id)| (id, request)).collect()
    }

    /// Removes what the state does not want. What fails is tried again at the next change.
    pub async fn tidy(&self, grant: &Grant, pipeline: &PipelineRef, state: &State) {
        let (builds, merges) = wanted(state);
        let executor =
            self.of(JobQueue::Executor, pipeline).into_iter().filter(|(id, _)| !builds.contains(id));
        let merger = self.of(JobQueue::Merger, pipeline).into_iter().filter(|(id, _)| !merges.contains(id));
        let of_executor = executor.map(|(id, found)| (JobQueue::Executor, id, found));
        let of_merger = merger.map(|(id, found)| (JobQueue::Merger, id, found));
        let work = of_executor.chain(of_merger).map(|(queue, id, found)| async move {
            if let Err(error) = self.dismiss(grant, queue, &id, &found).await {
                debug!(request = %id, %error, "a request cannot be removed yet");
            }
        });
        stream::iter(work).buffer_unordered(REMOVALS_IN_FLIGHT).collect::<()>().await;
    }

    /// Removes a request, or has whoever works on it stop.
    async fn dismiss(
        &self,
        grant: &Grant,
        queue: JobQueue,
        id: &Id,
        found: &Versioned<Request>,
    ) -> Result<(), PipelineError> {
        let is_canceled = self.executor.contains(&queue.cancel(id));
        let is_locked = !self.executor_locks.children(queue.lock(id).path()).is_empty();
        // A merger that finds its request gone drops the result.
        let is_at_work =
            queue == JobQueue::Executor && is_locked && found.value.state != RequestState::Completed;
        match (is_at_work, is_canceled) {
            (true, true) => Ok(()),
            (true, false) => Ok(retry::create_named(grant.term(), queue.cancel(id).path(), b"").await?),
            (false, _) => remove(grant, queue, id, found, is_canceled).await,
        }
    }

    /// Builds that nobody works on any more, as results.
    pub async fn lost(
        &self,
        grant: &Grant,
        pipeline: &PipelineRef,
        state: &State,
    ) -> Result<Vec<Outcome>, PipelineError> {
        let mut lost = Vec::new();
        let (builds, _) = wanted(state);
        for (id, request) in self.of(JobQueue::Executor, pipeline) {
            let is_locked = !self.executor_locks.children(JobQueue::Executor.lock(&id).path()).is_empty();
            if request.value.state != RequestState::Running || is_locked || !builds.contains(&id) {
                continue;
            }
            // The cache may be behind. The lock first: whoever completes a request lets go of it in the same transaction.
            let term = grant.term().patient();
            if !has_holder(&term, &id).await?
                && let Some(found) = term.read(&JobQueue::Executor.request(&id)).await?
                && found.value.state == RequestState::Running
            {
                lost.extend(aborted(state, &id, found.value));
            }
        }
        Ok(lost)
    }
}

async fn has_holder(term: &Term, id: &Id) -> Result<bool, CallError> {
    match term.children(JobQueue::Executor.lock(id).path()).await {
        Ok(names) => Ok(!names.is_empty()),
        Err(CallError::NoZnode { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

fn aborted(state: &State, id: &Id, request: Request) -> Option<Outcome> {
    let has_build = |item: &crate::core::Item| {
        item.buildset.jobs.iter().any(|job| job.builds.iter().any(|build| build.id == *id))
    };
    let item = state.items.values().find(|item| has_build(item))?;
    let worker = request.worker;
    Some(Outcome::Build {
        build: id.clone(),
        buildset: item.record.buildset.clone(),
        result: "ABORTED".to_owned(),
        start_ms: worker.as_ref().map_or(0, |worker| worker.since_ms),
        end_ms: now_ms() as i64,
        executor: worker.map(|worker| worker.name).unwrap_or_default(),
        detail: Some("its executor is gone".to_owned()),
    })
}

/// The builds and the merger's requests that the state waits for.
fn wanted(state: &State) -> (Vec<Id>, Vec<Id>) {
    let (mut builds, mut merges) = (Vec::new(), Vec::new());
    for item in state.items.values() {
        builds.extend(
            item.buildset.jobs.iter().filter_map(|job| job.in_flight()).map(|build| build.id.clone()),
        );
        if let MergeStep::Pending { request } = &item.buildset.record.merge {
            merges.push(request.clone());
        }
        if let JobsStep::Tips { request, .. } = &item.buildset.record.jobs {
            merges.push(request.clone());
        }
    }
    (builds, merges)
}

/// Removes a request that nobody works on, or that is completed. Refused if somebody has taken it meanwhile.
async fn remove(
    grant: &Grant,
    queue: JobQueue,
    id: &Id,
    found: &Versioned<Request>,
    is_canceled: bool,
) -> Result<(), PipelineError> {
    let mut transaction = grant.transaction();
    if is_canceled {
        transaction = transaction.delete(&queue.cancel(id), None);
    }
    let transaction =
        transaction.delete(&queue.request(id), Some(found.version())).delete(&queue.param(id), None);
    match transaction.commit().await {
        // The cache was behind: it is gone already.
        Err(TransactionError::Part { source: CallError::NoZnode { .. }, .. }) => return Ok(()),
        removed => drop(removed?),
    }
    match grant.term().delete(queue.lock(id).path(), None).await {
        // Somebody looks at the lock of a request that is gone: that takes a moment.
        Ok(()) | Err(CallError::NoZnode { .. } | CallError::NotEmpty { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
