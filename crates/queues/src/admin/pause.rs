//! Pausing and resuming queues and workers. A pause moves no partition: locks and membership stay.

use menagerie_kernel::{CallError, Session, Term, retry};
use menagerie_znodes::queues::{self, Pause, QueueName};
use menagerie_znodes::{Name, Payload as _, Znode};

use super::require_settings;
use crate::error::QueueError;

/// What to pause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// A queue, for all its workers.
    Queue(QueueName),
    /// A worker, with all its queues. The pause outlives a restart under the same name.
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

/// Pauses it. If it is paused already, replaces the reason, unless the new pause has none.
pub async fn pause(session: &Session, scope: &Scope, pause: &Pause) -> Result<(), QueueError> {
    let term = session.term();
    require_exists(&term, scope).await?;
    let (znode, data) = (scope.znode(), pause.encode());
    retry::ensure(&term, znode.path(), &data).await?;
    if pause.reason.is_none() {
        return Ok(());
    }
    let Some(before) = term.read(&znode.maybe_damaged()).await? else {
        // Somebody has resumed it meanwhile.
        return Ok(());
    };
    let version = before.version();
    if before.value.sound().as_ref() == Some(pause) {
        return Ok(());
    }
    match retry::set(&term, znode.path(), &data, version).await {
        // Somebody else has given another reason, or resumed it.
        Err(CallError::NoZnode { .. } | CallError::BadVersion { .. }) => Ok(()),
        outcome => Ok(outcome.map(|_| ())?),
    }
}

/// Resumes it. `false` if it was not paused. A missing queue or worker is an error only if it was not paused: a paused
/// worker may be down.
pub async fn resume(session: &Session, scope: &Scope) -> Result<bool, QueueError> {
    let term = session.term();
    let resumed = match retry::remove(&term, scope.znode().path()).await {
        Err(CallError::NoZnode { .. }) => false,
        outcome => outcome?,
    };
    if !resumed {
        require_exists(&term, scope).await?;
    }
    Ok(resumed)
}

/// Refuses a queue or worker that does not exist.
async fn require_exists(term: &Term, scope: &Scope) -> Result<(), QueueError> {
    match scope {
        Scope::Queue(queue) => drop(require_settings(term, queue).await?),
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
