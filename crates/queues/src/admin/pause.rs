//! Nobody takes messages of a queue, or a worker none, until somebody says so. Nothing moves: locks and membership stay.

use menagerie_kernel::{CallError, Session, Term, retry};
use menagerie_znodes::queues::{self, Pause, QueueName};
use menagerie_znodes::{Name, Payload as _, Znode};

use super::found;
use crate::error::QueueError;

/// What is paused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// A queue, for all its workers.
    Queue(QueueName),
    /// A worker, with all its queues. It stays paused when it goes and comes back under the same name.
    Worker(Name),
}

impl Scope {
    fn znode(&self) -> Znode<Pause> {
        match self {
            Self::Queue(queue) => queues::pause_of_queue(queue),
            Self::Worker(worker) => queues::pause_of_worker(worker),
        }
    }
}

/// Pauses it. What is paused already stays so, with what was said then, unless there is something new to say.
pub async fn pause(session: &Session, scope: &Scope, pause: &Pause) -> Result<(), QueueError> {
    let term = session.term();
    require(&term, scope).await?;
    let (znode, data) = (scope.znode(), pause.encode());
    retry::ensure(&term, znode.path(), &data).await?;
    if pause.reason.is_none() {
        return Ok(());
    }
    let Some(before) = term.read(&znode.maybe_damaged()).await? else {
        // Resumed meanwhile.
        return Ok(());
    };
    let version = before.version();
    if before.value.sound().as_ref() == Some(pause) {
        return Ok(());
    }
    match retry::set(&term, znode.path(), &data, version).await {
        // Somebody else had something to say, or has resumed it.
        Err(CallError::NoZnode { .. } | CallError::BadVersion { .. }) => Ok(()),
        outcome => Ok(outcome.map(|_| ())?),
    }
}

/// Lets it go on. False if it was not paused; what is not there is an error, unless it was paused: a worker may be away.
pub async fn resume(session: &Session, scope: &Scope) -> Result<bool, QueueError> {
    let term = session.term();
    let resumed = match retry::remove(&term, scope.znode().path()).await {
        Err(CallError::NoZnode { .. }) => false,
        outcome => outcome?,
    };
    if !resumed {
        require(&term, scope).await?;
    }
    Ok(resumed)
}

/// Whether it is there.
async fn require(term: &Term, scope: &Scope) -> Result<(), QueueError> {
    match scope {
        Scope::Queue(queue) => drop(found(term, queue).await?),
        Scope::Worker(worker) => {
            let listed = queues::worker(worker);
            term.sync(listed.path()).await?;
            if term.stat(listed.path()).await?.is_none() {
                return Err(QueueError::NoWorker { worker: worker.clone() });
            }
        }
    }
    Ok(())
}
