//! Changing an existing queue.

use menagerie_kernel::{CallError, Session, retry};
use menagerie_znodes::Payload as _;
use menagerie_znodes::queues::{self, Consistency, Keep, QueueName, Settings, Visibility};

use super::create::{create_cursors, create_topic};
use super::handling::{HandlingChange, unhandled_with};
use super::journal_of;
use crate::error::QueueError;
use crate::journals::Journals;
use crate::story;

/// Settings to change; `None` keeps what is there.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Change {
    /// Number of partitions; can only grow.
    pub partitions: Option<u16>,
    /// Who may read over HTTP.
    pub visibility: Option<Visibility>,
    /// Stored for Queuey's clients, without effect.
    pub consistency: Option<Consistency>,
    /// Who may read and delete over HTTP.
    pub principles: Option<Vec<String>>,
    /// Retention of handled messages; takes effect at once.
    pub keep: Option<Keep>,
    /// How messages are handled; another order only while none wait.
    pub handling: HandlingChange,
}

/// How often to retry when others change the queue at the same time.
const ATTEMPTS_MAX: u32 = 50;

/// The outcome of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Changed {
    /// The new settings.
    To(Settings),
    /// Refused: the queue has more partitions, with messages in them.
    Fewer(Settings),
    /// No queue of this name.
    Missing,
}

impl Change {
    fn apply(&self, settings: &Settings) -> Settings {
        let mut next = settings.clone();
        next.partitions = self.partitions.unwrap_or(next.partitions);
        next.visibility = self.visibility.unwrap_or(next.visibility);
        next.consistency = self.consistency.unwrap_or(next.consistency);
        next.keep = self.keep.unwrap_or(next.keep);
        next.handling = self.handling.apply(next.handling);
        if let Some(principles) = &self.principles {
            next.principles = principles.clone();
        }
        next
    }
}

/// Changes a queue. Idempotent: repeating it completes what a crash left half done.
pub async fn change(
    session: &Session,
    journals: &Journals,
    queue: &QueueName,
    change: &Change,
) -> Result<Changed, QueueError> {
    let (term, znode) = (session.term(), queues::settings(queue));
    let mut attempts = 0;
    loop {
        attempts += 1;
        term.sync(znode.path()).await?;
        let Some(found) = term.read(&znode).await? else { return Ok(Changed::Missing) };
        let (settings, version) = (found.value, found.stat.version);
        let next = change.apply(&settings);
        if next.partitions < settings.partitions {
            return Ok(Changed::Fewer(settings));
        }
        if next.handling.order != settings.handling.order {
            let unhandled = unhandled_with(session, journals, queue, &settings).await?;
            if unhandled.waiting > 0 {
                return Err(QueueError::Waiting { queue: queue.clone(), waiting: unhandled.waiting });
            }
        }
        if change.partitions.is_some() {
            let store = journal_of(journals, queue, &settings)?;
            create_topic(&*store, queue, next.partitions).await?;
        }
        if (next.keep, next.partitions) != (settings.keep, settings.partitions) {
            story::prepare(&*journal_of(journals, queue, &settings)?, queue, &next).await?;
        }
        if next != settings {
            match retry::set(&term, znode.path(), &next.encode(), version).await {
                // Somebody else changed the queue first, or our own change got through: read again and decide.
                Err(CallError::BadVersion { .. } | CallError::Unknown { .. }) if attempts < ATTEMPTS_MAX => {
                    continue;
                }
                Err(CallError::NoZnode { .. }) => return Ok(Changed::Missing),
                outcome => outcome?,
            };
        }
        if change.partitions.is_some() {
            create_cursors(&term, queue, next.partitions).await?;
        }
        return Ok(Changed::To(next));
    }
}
