//! Writes in flight. A write that was handed to the client may happen long after its caller has given up, so it is kept
//! here until its outcome is known.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, broadcast, watch};
use tracing::warn;

use crate::error::CallError;

/// Reports that a slow listener may lag behind before it misses some.
const REPORTS_MAX: usize = 64;

/// The outcome of a write whose caller had given up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LateOutcome {
    /// The path of the write.
    pub path: String,
    /// Whether it happened; `None` when even the client cannot tell.
    pub happened: Option<bool>,
}

/// Background work of a session.
#[derive(Debug)]
pub struct Background {
    /// The session's runtime: guards may be dropped on threads outside of it.
    runtime: Handle,
    /// Tasks that are still running.
    left: watch::Sender<usize>,
    reports: broadcast::Sender<LateOutcome>,
}

/// Counts a task as done when dropped, however the task ends.
struct Done(Arc<Background>);

impl Drop for Done {
    fn drop(&mut self) {
        self.0.left.send_modify(|left| *left -= 1);
    }
}

impl Background {
    /// Must be called within the runtime that will run the tasks.
    pub fn new() -> Arc<Self> {
        let (left, reports) = (watch::channel(0).0, broadcast::channel(REPORTS_MAX).0);
        Arc::new(Self { runtime: Handle::current(), left, reports })
    }

    /// Runs a task to its end, or to the end of the runtime.
    pub fn run(self: &Arc<Self>, task: impl Future<Output = ()> + Send + 'static) {
        self.left.send_modify(|left| *left += 1);
        let done = Done(self.clone());
        self.runtime.spawn(async move {
            let _done = done;
            task.await;
        });
    }

    /// Waits until no task is left. Dropping the future stops none of them.
    pub async fn settle(&self) {
        // The sender is ours, so it is not dropped meanwhile.
        let _ = self.left.subscribe().wait_for(|left| *left == 0).await;
    }

    /// Outcomes of writes whose callers have given up, from now on.
    pub fn reports(&self) -> broadcast::Receiver<LateOutcome> {
        self.reports.subscribe()
    }

    fn report(&self, outcome: LateOutcome) {
        match outcome.happened {
            Some(true) => warn!(path = outcome.path, "a write happened after its caller had given up"),
            Some(false) => {}
            None => warn!(path = outcome.path, "the outcome of a write whose caller gave up is unknown"),
        }
        // Nobody may be listening.
        let _ = self.reports.send(outcome);
    }
}

type Reply<T> = Result<T, zookeeper_client::Error>;

/// A write in flight. If it is dropped before its reply, it goes on in the background.
pub struct Flight<T: Send + 'static> {
    reply: Option<Pin<Box<dyn Future<Output = Reply<T>> + Send>>>,
    permit: Option<OwnedSemaphorePermit>,
    path: String,
    background: Arc<Background>,
    undo: Option<Undo<T>>,
}

/// Undoes a write that happened too late.
pub type Undo<T> = Box<dyn FnOnce(T) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send>;

impl<T: Send + 'static> Flight<T> {
    pub fn new(
        path: &str,
        reply: impl Future<Output = Reply<T>> + Send + 'static,
        permit: OwnedSemaphorePermit,
        background: Arc<Background>,
        undo: Option<Undo<T>>,
    ) -> Self {
        Self { reply: Some(Box::pin(reply)), permit: Some(permit), path: path.to_owned(), background, undo }
    }
}

impl<T: Send + 'static> Future for Flight<T> {
    type Output = Reply<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Reply<T>> {
        let reply = self.reply.as_mut().expect("a flight is not polled after its end");
        let polled = reply.as_mut().poll(context);
        if polled.is_ready() {
            self.reply = None;
            self.permit = None;
        }
        polled
    }
}

impl<T: Send + 'static> Unpin for Flight<T> {}

impl<T: Send + 'static> Drop for Flight<T> {
    fn drop(&mut self) {
        let Some(reply) = self.reply.take() else { return };
        let (permit, undo) = (self.permit.take(), self.undo.take());
        let (path, background) = (std::mem::take(&mut self.path), self.background.clone());
        self.background.run(async move {
            let outcome = reply.await;
            drop(permit);
            let happened = match &outcome {
                Ok(_) => Some(true),
                Err(error) => match CallError::from_client(error.clone(), &path) {
                    CallError::Unknown { .. } => None,
                    _ => Some(false),
                },
            };
            match (outcome, undo) {
                (Ok(value), Some(undo)) => undo(value).await,
                _ => background.report(LateOutcome { path, happened }),
            }
        });
    }
}
