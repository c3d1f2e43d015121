//! What operators do with queues, and programs that put messages.
//!
//! - `create`, `change`, `delete`: queues. `handling`: how their messages are handled. `purge`: dropping their messages.
//!   `keys`: access over HTTP. `put`: putting messages, `stamp` and `duplicates` for it. `browse`: looking at them.
//!   `pause`: pausing queues and workers. `show`: lag, owners and rates.
//!   `delayed`: listing and cancelling delayed messages. `failed`: listing and retrying messages that were given up.
//!   `import`: qdo's cursors. `schedule`: messages that are put periodically. `past`: what workers are done with.
//!   `retries`: which messages were put back.

pub mod browse;
mod change;
mod create;
pub mod delayed;
mod delete;
pub mod duplicates;
pub mod failed;
mod handling;
pub mod import;
pub mod keys;
pub(crate) mod past;
mod pause;
mod purge;
mod put;
pub mod retries;
pub mod schedule;
pub mod show;
mod stamp;

use std::sync::Arc;

use menagerie_journal::Journal;
use menagerie_kernel::{Session, Term};
use menagerie_znodes::queues::{self, Keep, QueueName, Settings};

use crate::error::QueueError;
use crate::journals::{self, Journals};

pub use change::{Change, Changed, change};
pub use create::{Created, create, create_with, default_settings};
pub use delete::{abandon, delete, skip};
pub use handling::{HandlingChange, OrDefault, Unhandled, unhandled};
pub use past::Past;
pub use pause::{Scope, pause, resume};
pub use purge::{Purged, purge, purge_handled};
pub use put::{Destination, Put, Putter, ToPut};
pub use stamp::Stamped;

pub(crate) use create::FAILED_DEDUP_WINDOW;

/// Settings of a queue.
pub async fn settings(session: &Session, queue: &QueueName) -> Result<Settings, QueueError> {
    require_settings(&session.term(), queue).await
}

/// Settings of a queue, or [`QueueError::NoQueue`].
pub(crate) async fn require_settings(term: &Term, queue: &QueueName) -> Result<Settings, QueueError> {
    let settings = term.read(&queues::settings(queue)).await?;
    settings.map(|found| found.value).ok_or_else(|| QueueError::NoQueue { queue: queue.clone() })
}

/// Settings for reading only: failed messages can be read like a queue with one partition and unlimited retention.
pub(crate) async fn readable_settings(term: &Term, queue: &QueueName) -> Result<Settings, QueueError> {
    match queue.failures_of() {
        Some(of) => Ok(Settings { partitions: 1, keep: Keep::Forever, ..require_settings(term, &of).await? }),
        None => require_settings(term, queue).await,
    }
}

/// The journal that stores a queue's messages.
pub fn journal_of(
    journals: &Journals,
    queue: &QueueName,
    settings: &Settings,
) -> Result<Arc<dyn Journal>, QueueError> {
    let target = journals::journal_ref(settings);
    journals
        .get(&target)
        .ok_or_else(|| QueueError::NoJournal { queue: queue.clone(), journal: target.journal })
}
