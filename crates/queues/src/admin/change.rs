//! Changing a queue that is there.

use menagerie_kernel::{CallError, Session, retry};
use menagerie_znodes::Payload as _;
use menagerie_znodes::queues::{self, Consistency, Keep, QueueName, Settings, Visibility};

use super::create::{create_cursors, create_topic};
use super::home;
use crate::error::QueueError;
use crate::journals::Journals;

/// What is to be different; what is not said stays.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Change {
    /// How many partitions; never fewer than there are.
    pub partitions: Option<u16>,
    /// Who may read.
    pub visibility: Option<Visibility>,
    /// Kept for whoever asks.
    pub consistency: Option<Consistency>,
    /// Who may read and delete.
    pub principles: Option<Vec<String>>,
    /// For how long messages stay that were handled. Workers hear of it at once.
    pub keep: Option<Keep>,
}

/// Whoever is overtaken so often is told.
const ATTEMPTS_MAX: u32 = 50;

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Changed {
    /// It is like this now.
    To(Settings),
    /// It has more partitions than that, and keeps them: messages are in them.
    Fewer(Settings),
    /// There is no such queue.
    Missing,
}

impl Change {
    fn apply(&self, settings: &Settings) -> Settings {
        let mut next = settings.clone();
        next.partitions = self.partitions.unwrap_or(next.partitions);
        next.visibility = self.visibility.unwrap_or(next.visibility);
        next.consistency = self.consistency.unwrap_or(next.consistency);
        next.keep = self.keep.unwrap_or(next.keep);
        if let Some(principles) = &self.principles {
            next.principles = principles.clone();
        }
        next
    }
}

/// Changes a queue. What a crash had left half done is completed by doing it again.
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
        if change.partitions.is_some() {
            let store = home(journals, queue, &settings)?;
            create_topic(&*store, queue, next.partitions).await?;
        }
        if next != settings {
            match retry::set(&term, znode.path(), &next.encode(), version).await {
                // Somebody else was faster: what counts is what they have made of it. Ours may be in it.
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
