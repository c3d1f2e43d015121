//! A request that was taken, and its end.

use std::future::pending;
use std::time::Duration;

use menagerie_kernel::recipes::blob::{Blob, BlobError, Expect};
use menagerie_kernel::recipes::grant::Grant;
use menagerie_kernel::recipes::lock::LockGuard;
use menagerie_kernel::recipes::sequence_queue::{LIMIT, QueueError, SequenceQueue};
use menagerie_kernel::recipes::tree_cache::TreeCache;
use menagerie_kernel::{CallError, Session, Transaction, TransactionError, retry, whole};
use menagerie_znodes::Payload as _;
use menagerie_znodes::pipelines::{
    FilesRead, Id, JobQueue, Outcome, PipelineRef, PipelineZnodes, Request, RequestState,
};
use tokio::time::sleep;
use tracing::{debug, info, warn};

use crate::error::PipelineError;

/// The pause before a result that was refused is stored again.
const RETRY_PAUSE: Duration = Duration::from_secs(2);
/// A result that ZooKeeper refuses this often is given up. Lost connections do not count: those are waited for.
const FINISH_ATTEMPTS: u32 = 5;

/// A request that is ours: we hold its lock, and it says so. Dropping it gives it back without a result.
#[derive(Debug)]
pub struct Claim {
    pub(super) id: Id,
    pub(super) session: Session,
    pub(super) queue: JobQueue,
    pub(super) request: Request,
    /// The version of the request as we have written it.
    pub(super) version: i32,
    pub(super) requests: TreeCache,
    pub(super) guard: LockGuard,
}

/// The result of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// For the pipeline that asked.
    Outcome(Outcome),
    /// For the submitter that waits.
    Files(FilesRead),
}

/// What to do about a result that was not stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Obstacle {
    /// Our lock is gone, or the request is: somebody else has it, or nobody wants it.
    Dropped(&'static str),
    /// The submitter does not wait any more.
    NobodyWaits,
    /// It may work the next time.
    Passing,
}

impl Claim {
    /// The request.
    pub fn id(&self) -> &Id {
        &self.id
    }

    /// Our right to work on it.
    pub fn grant(&self) -> Grant {
        self.guard.grant()
    }

    /// Waits until the scheduler does not want the result any more: it has cancelled or deleted the request.
    pub async fn withdrawn(&self) {
        let mut revision = self.requests.subscribe();
        let (request, cancel) = (self.queue.request(&self.id), self.queue.cancel(&self.id));
        loop {
            revision.borrow_and_update();
            if self.requests.contains(&cancel) || !self.requests.contains(&request) {
                return;
            }
            if revision.changed().await.is_err() {
                // The cache has stopped, because the session was closed: then the lock is lost.
                return pending().await;
            }
        }
    }

    /// Puts the result where it is waited for, completes the request and releases its lock, all in one transaction.
    /// Waits for ZooKeeper while it is away. If the lock or the request is gone the result is dropped: somebody else has
    /// the request, or nobody wants it.
    pub async fn finish(self, answer: Answer) {
        for attempt in 1.. {
            let Err(error) = self.complete(&answer).await else {
                debug!(request = %self.id, "request completed");
                self.guard.released();
                return;
            };
            match self.obstacle(&error) {
                Obstacle::Dropped(why) => {
                    info!(request = %self.id, why, "result dropped");
                    return self.tidy_up_if_gone().await;
                }
                Obstacle::NobodyWaits => {
                    info!(request = %self.id, why = "its submitter is gone", "result dropped");
                    return self.discard().await;
                }
                Obstacle::Passing if attempt < FINISH_ATTEMPTS => {
                    warn!(request = %self.id, error = %whole(&error), "result not stored; trying again");
                    sleep(RETRY_PAUSE).await;
                }
                Obstacle::Passing => {
                    warn!(request = %self.id, error = %whole(&error), "result not stored; given up");
                    return;
                }
            }
        }
    }

    /// Gives the request back without a result. A merge is free for others at once; about a build its scheduler decides.
    pub async fn give_back(self) {
        // Dropping the lock releases it.
        self.tidy_up_if_gone().await;
    }

    /// One attempt.
    async fn complete(&self, answer: &Answer) -> Result<(), PipelineError> {
        let term = &self.guard.term().patient();
        let znode = &self.queue.request(&self.id);
        let transaction = self.with_answer(self.patient_transaction(), answer).await?;
        let completed = Request { state: RequestState::Completed, ..self.request.clone() };
        let transaction = transaction.set(znode, &completed, Some(self.version));
        let proof = || async move {
            match term.read(znode).await? {
                Some(found) if found.value.state == RequestState::Completed => Ok(Some(Vec::new())),
                Some(_) => Ok(None),
                // The scheduler may have used our result already, or may have dropped the request before.
                None => Err(CallError::Unknown { path: znode.path().to_owned() }),
            }
        };
        retry::commit(self.guard.release_with(transaction), proof).await?;
        Ok(())
    }

    /// A fenced transaction whose preparation waits through lost connections, too.
    fn patient_transaction(&self) -> Transaction {
        Transaction::fenced(&self.guard.term().patient(), self.guard.ticket())
    }

    async fn with_answer(
        &self,
        transaction: Transaction,
        answer: &Answer,
    ) -> Result<Transaction, PipelineError> {
        match (answer, &self.request.pipeline) {
            (Answer::Outcome(outcome), Some(PipelineRef { tenant, pipeline })) => {
                let pipeline = PipelineZnodes { tenant: tenant.clone(), pipeline: pipeline.clone() };
                let results = SequenceQueue::new(&self.session, pipeline.results(), LIMIT);
                Ok(results.put_with(transaction, &outcome.encode()).await?)
            }
            (Answer::Files(files), None) => {
                let (waiter, result) = (self.queue.waiter(&self.id), self.queue.result(&self.id));
                let data = self.result_data();
                // An earlier attempt, ours or of a merger that died, may have written it.
                data.write_fenced(self.patient_transaction(), &files.encode(), Expect::Anything).await?;
                Ok(transaction.check(&waiter, None).create(&result, &()))
            }
            // Whoever asked does not expect this kind of answer; completing it at least ends the matter.
            (Answer::Outcome(_), None) | (Answer::Files(_), Some(_)) => {
                warn!(request = %self.id, "request does not say where its result goes");
                Ok(transaction)
            }
        }
    }

    fn result_data(&self) -> Blob {
        Blob::new(&self.session, self.queue.result_data(&self.id))
    }

    fn obstacle(&self, error: &PipelineError) -> Obstacle {
        const LOST: Obstacle = Obstacle::Dropped("its lock is lost");
        let (request, waiter) = (self.queue.request(&self.id), self.queue.waiter(&self.id));
        let refused_part = |source: &CallError| match source {
            CallError::NoZnode { path } if path == request.path() => Obstacle::Dropped("the request is gone"),
            CallError::BadVersion { path } if path == request.path() => LOST,
            CallError::NoZnode { path } if path == waiter.path() => Obstacle::NobodyWaits,
            _ => Obstacle::Passing,
        };
        let call = match error {
            PipelineError::Transaction(TransactionError::Lost { .. })
            | PipelineError::Queue(QueueError::Lost { .. } | QueueError::Side(BlobError::Lost { .. }))
            | PipelineError::Blob(BlobError::Lost { .. }) => return LOST,
            PipelineError::Transaction(TransactionError::Part { source, .. }) => return refused_part(source),
            PipelineError::Transaction(TransactionError::Call(CallError::Unknown { .. })) => {
                return Obstacle::Dropped("the request is gone, or the session is");
            }
            PipelineError::Transaction(TransactionError::Call(call))
            | PipelineError::Queue(QueueError::Call(call) | QueueError::Side(BlobError::Call(call)))
            | PipelineError::Blob(BlobError::Call(call)) => call,
            _ => return Obstacle::Passing,
        };
        if call.ends_term() { LOST } else { Obstacle::Passing }
    }

    /// Removes a request that nobody waits for. Its submitter would have removed it.
    async fn discard(self) {
        let (request, param) = (self.queue.request(&self.id), self.queue.param(&self.id));
        if let Err(error) = self.result_data().delete(Expect::Anything).await {
            debug!(request = %self.id, error = %whole(&error), "result data not removed");
        }
        let transaction = self.guard.transaction().delete(&param, None).delete(&request, Some(self.version));
        match transaction.commit().await {
            Ok(_) => remove_lock(self.guard, self.queue, &self.id).await,
            // Left as it is: the next one to take it comes to the same end.
            Err(error) => debug!(request = %self.id, error = %whole(&error), "request not removed"),
        }
    }

    /// If the request is gone, removes what we have made since for it.
    async fn tidy_up_if_gone(self) {
        let found = self.guard.term().stat(self.queue.request(&self.id).path()).await;
        if !matches!(found, Ok(None)) {
            return;
        }
        if self.request.pipeline.is_none() {
            // Best effort: the submitter has cleaned up before us, and looks no more.
            let _ = self.result_data().delete(Expect::Anything).await;
        }
        remove_lock(self.guard, self.queue, &self.id).await;
    }
}

/// Releases the lock of a request that is gone, and removes the directory that contending for it has made anew.
pub(super) async fn remove_lock(guard: LockGuard, queue: JobQueue, id: &Id) {
    let term = guard.term().clone();
    // Somebody else may contend at this moment, and finds out the same.
    if guard.release().await.is_ok() {
        let _ = retry::delete(&term, queue.lock(id).path()).await;
    }
}
