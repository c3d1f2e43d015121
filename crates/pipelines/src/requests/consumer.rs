//! Finds requests and takes them.

use std::future::{Future, pending};
use std::pin::pin;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use menagerie_kernel::recipes::lock::{Lock, LockError, TryAcquire};
use menagerie_kernel::recipes::tree_cache::TreeCache;
use menagerie_kernel::{CallError, Session, Term, TransactionError, retry, whole};
use menagerie_znodes::pipelines::{Id, JobQueue, Params, Request, RequestState, Worker};
use menagerie_znodes::{MaybeDamaged, Name};
use tokio::time::{Instant, sleep_until};
use tracing::{debug, warn};

use super::aside::Aside;
use super::claim::{Claim, remove_lock};
use super::{now_ms, unreadable};
use crate::error::PipelineError;

/// What became of a request that was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Handling {
    /// It is answered, or nobody wants the answer.
    Done,
    /// It was given back, because this process cannot do it; it is not taken again for a while.
    GivenBack {
        /// The fault, for the log.
        why: String,
    },
}

/// A request that is ours, and its parameters.
type Taken = (Claim, MaybeDamaged<Params>);

/// Takes requests from a queue. Follows the queue in memory, so that waiting costs no calls.
#[derive(Debug)]
pub struct Consumer {
    session: Session,
    queue: JobQueue,
    name: String,
    requests: TreeCache,
    /// Shows which requests somebody holds, so that nobody contends in vain.
    locks: TreeCache,
}

impl Consumer {
    /// Begins to follow a queue, whose directories are created if need be. `name` is shown to others as the worker.
    /// Waits until ZooKeeper answers.
    ///
    /// # Errors
    /// If the session is closed, or ZooKeeper refuses.
    pub async fn start(session: &Session, queue: JobQueue, name: &str) -> Result<Self, PipelineError> {
        let ensure = |term: Term| async move {
            for directory in queue.directories() {
                retry::ensure(&term, directory.path(), b"").await?;
            }
            Ok::<_, CallError>(())
        };
        session.across_terms(ensure).await?;
        let requests = TreeCache::start(session, &queue.requests());
        let locks = TreeCache::start(session, &queue.locks());
        requests.ready().await?;
        locks.ready().await?;
        Ok(Self { session: session.clone(), queue, name: name.to_owned(), requests, locks })
    }

    /// Takes requests and works on up to `room_max` of them at a time, until `stop`; then waits for those in flight.
    /// `work` gets each one, and calls [`Claim::finish`] when it has the result, or [`Claim::give_back`]. One whose
    /// parameters do not decode fails without `work`.
    ///
    /// # Errors
    /// If the session is closed.
    pub async fn run(
        &self,
        room_max: usize,
        stop: impl Future<Output = ()>,
        work: impl AsyncFn(Claim, Params) -> Handling,
    ) -> Result<(), PipelineError> {
        let mut stop = pin!(stop);
        let mut in_flight = FuturesUnordered::new();
        let mut aside = Aside::default();
        let (mut requests, mut locks) = (self.requests.subscribe(), self.locks.subscribe());
        let ended = loop {
            requests.borrow_and_update();
            locks.borrow_and_update();
            let now = Instant::now();
            aside.tidy(now, |id| self.requests.contains(&self.queue.request(id)));
            let room = room_max.saturating_sub(in_flight.len());
            for id in self.candidates(&aside, now, room) {
                aside.begin(id.clone());
                in_flight.push(self.take_and_work(id, &work));
            }
            tokio::select! {
                biased;
                () = &mut stop => break Ok(()),
                Some((id, fault)) = in_flight.next() => {
                    let pause = aside.end(id.clone(), fault.is_some(), Instant::now());
                    if let Some(error) = fault {
                        warn!(request = %id, error, ?pause, "request not done here; left alone for a while");
                    }
                }
                changed = requests.changed() => if changed.is_err() {
                    break self.requests.ready().await.map_err(PipelineError::from);
                },
                changed = locks.changed() => if changed.is_err() {
                    break self.locks.ready().await.map_err(PipelineError::from);
                },
                () = wait_until(aside.next(now)) => {}
            }
        };
        while in_flight.next().await.is_some() {}
        ended
    }

    /// The requests to take next, at most `room`.
    fn candidates(&self, aside: &Aside, now: Instant, room: usize) -> Vec<Id> {
        if room == 0 {
            return Vec::new();
        }
        let names = self.requests.children(self.queue.requests().path());
        let mut found: Vec<(u32, i64, Id)> = names
            .into_iter()
            .filter_map(|name| Name::new(name).ok())
            .filter(|id| aside.is_free(id, now))
            .filter_map(|id| {
                // A damaged one is reported by the scheduler; it must not hide the others.
                let request = self.requests.read(&self.queue.request(&id)).ok().flatten()?;
                let is_free = self.locks.children(self.queue.lock(&id).path()).is_empty();
                let can_take = is_free && is_takeable(self.queue, request.value.state);
                can_take.then_some((request.value.precedence, request.stat.czxid, id))
            })
            .collect();
        found.sort_unstable();
        found.into_iter().take(room).map(|(_, _, id)| id).collect()
    }

    /// The request, and why this process could not do it.
    async fn take_and_work(
        &self,
        id: Id,
        work: &impl AsyncFn(Claim, Params) -> Handling,
    ) -> (Id, Option<String>) {
        let handling = match self.take(&id).await {
            Ok(Some((claim, MaybeDamaged::Sound(params)))) => work(claim, params).await,
            Ok(Some((claim, MaybeDamaged::Damaged { data, why }))) => self.refuse(claim, &data, &why).await,
            Ok(None) => Handling::Done,
            Err(error) if is_outage(&error) => {
                debug!(request = %id, error = %whole(&error), "request not taken; ZooKeeper is away");
                Handling::Done
            }
            Err(error) => Handling::GivenBack { why: whole(&error).to_string() },
        };
        match handling {
            Handling::Done => (id, None),
            Handling::GivenBack { why } => (id, Some(why)),
        }
    }

    /// Fails a request whose parameters do not decode.
    async fn refuse(&self, claim: Claim, params: &[u8], why: &str) -> Handling {
        let answer = unreadable::refusal(self.queue, claim.id(), &claim.request, params, why, &self.name);
        match answer {
            Some(answer) => {
                warn!(request = %claim.id(), why, "the parameters of a request do not decode; it fails");
                claim.finish(answer).await;
                Handling::Done
            }
            None => {
                claim.give_back().await;
                Handling::GivenBack { why: format!("its parameters do not decode: {why}") }
            }
        }
    }

    /// Takes a request, unless somebody else has it or it needs nobody any more.
    async fn take(&self, id: &Id) -> Result<Option<Taken>, PipelineError> {
        let lock = Lock::new(&self.session, self.queue.lock(id)).identified_by(&self.name);
        let guard = match lock.try_acquire().await? {
            TryAcquire::Acquired(guard) => guard,
            TryAcquire::HeldBy(other) => {
                debug!(request = %id, holder = other.identifier, "request is held by somebody else");
                return Ok(None);
            }
        };
        let term = &guard.term().patient();
        let (znode, param) = (self.queue.request(id), self.queue.param(id));
        let tolerant = param.maybe_damaged();
        let (found, params) = tokio::try_join!(term.read(&znode), term.read(&tolerant))?;
        let Some(found) = found else {
            remove_lock(guard, self.queue, id).await;
            return Ok(None);
        };
        if !is_takeable(self.queue, found.value.state) {
            guard.release().await?;
            return Ok(None);
        }
        let params = params.ok_or_else(|| CallError::no_znode(&param))?.value;
        let version = found.version();
        let worker = Worker { name: self.name.clone(), since_ms: now_ms() };
        let request = Request { state: RequestState::Running, worker: Some(worker), ..found.value };
        let ours = &request;
        let proof = || async {
            let now = term.read(&znode).await?;
            Ok(now.is_some_and(|now| now.value == *ours).then(Vec::new))
        };
        retry::commit(guard.transaction().set(&znode, ours, Some(version)), proof).await?;
        let (session, requests) = (self.session.clone(), self.requests.clone());
        let (id, queue, version) = (id.clone(), self.queue, version + 1);
        Ok(Some((Claim { id, session, queue, request, version, requests, guard }, params)))
    }
}

/// Whether a request in this state may be taken, if nobody holds it.
fn is_takeable(queue: JobQueue, state: RequestState) -> bool {
    match (queue, state) {
        (_, RequestState::Requested) | (JobQueue::Merger, RequestState::Running) => true,
        (JobQueue::Executor, RequestState::Running) | (_, RequestState::Completed) => false,
    }
}

fn is_outage(error: &PipelineError) -> bool {
    let call = match error {
        PipelineError::Call(call)
        | PipelineError::Lock(LockError::Call { source: call, .. })
        | PipelineError::Transaction(TransactionError::Call(call)) => call,
        _ => return false,
    };
    matches!(call, CallError::Suspended | CallError::Unknown { .. }) || call.ends_term()
}

async fn wait_until(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_merges_are_taken_over() {
        use RequestState::{Completed, Requested, Running};
        let taken = |queue| [Requested, Running, Completed].map(|state| is_takeable(queue, state));
        assert_eq!(taken(JobQueue::Merger), [true, true, false]);
        assert_eq!(taken(JobQueue::Executor), [true, false, false]);
    }
}
