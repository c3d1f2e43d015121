//! What operators do with queues, and programs that put messages.
//!
//! - `create`, `change`, `delete`: queues. `purge`: what is in them. `keys`: who may use them over HTTP. `put`: messages; `browse`:
//!   looking at them. `pause`: nobody takes messages for a while. `show`: how queues are doing. `delayed`: messages that are not due yet, and how they are taken back. `failed`: messages that were given up, and how they come back. `import`: how far qdo had come.

pub mod browse;
mod change;
mod create;
pub mod delayed;
mod delete;
pub mod failed;
pub mod import;
pub mod keys;
mod pause;
mod purge;
mod put;
pub mod show;

use std::sync::Arc;

use menagerie_journal::Journal;
use menagerie_kernel::{Session, Term};
use menagerie_znodes::queues::{self, Keep, QueueName, Settings};

use crate::error::QueueError;
use crate::journals::{self, Journals};

pub use change::{Change, Changed, change};
pub use create::{Created, create, create_as, plain};
pub use delete::{abandon, delete, skip};
pub use pause::{Scope, pause, resume};
pub use purge::{Purged, purge, purge_handled};
pub use put::{Place, Putter};

pub(crate) use create::FAILED_DEDUP_WINDOW;

/// What a queue is like.
pub async fn settings(session: &Session, queue: &QueueName) -> Result<Settings, QueueError> {
    found(&session.term(), queue).await
}

/// What a queue is that has to be there.
pub(crate) async fn found(term: &Term, queue: &QueueName) -> Result<Settings, QueueError> {
    let settings = term.read(&queues::settings(queue)).await?;
    settings.map(|found| found.value).ok_or_else(|| QueueError::NoQueue { queue: queue.clone() })
}

/// The same for who only looks: failed messages are in one partition, beside their queue, until somebody decides about them.
pub(crate) async fn readable(term: &Term, queue: &QueueName) -> Result<Settings, QueueError> {
    match queue.failures_of() {
        Some(of) => Ok(Settings { partitions: 1, keep: Keep::Forever, ..found(term, &of).await? }),
        None => found(term, queue).await,
    }
}

/// The journal that has a queue's messages.
pub fn home(
    journals: &Journals,
    queue: &QueueName,
    settings: &Settings,
) -> Result<Arc<dyn Journal>, QueueError> {
    let home = journals::home(settings);
    journals.get(&home).ok_or_else(|| QueueError::NoJournal { queue: queue.clone(), journal: home.journal })
}
