//! A row per queue: how many messages are waiting, and for how long.

use std::collections::BTreeSet;

use menagerie_kernel::{Session, whole};
use menagerie_znodes::queues::{Keep, QueueName};
use schemars::JsonSchema;
use serde::Serialize;
use thiserror::Error;

use super::QueueState;
use crate::admin::show::{self, QueueView, Rate};
use crate::error::QueueError;
use crate::journals::Journals;

/// A queue in the list of all.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct QueueRow {
    /// Its name.
    pub queue: QueueName,
    /// How many partitions it has. This and all up to `keep_ms` is `null` while the queue's journal is away.
    pub partitions: Option<usize>,
    /// How many of them have a worker.
    pub owned: Option<usize>,
    /// Messages waiting.
    pub lag: Option<u64>,
    /// Age of the oldest waiting message.
    pub oldest_ms: Option<u64>,
    /// Since when it waits, in milliseconds since 1970.
    pub oldest_since_ms: Option<u64>,
    /// Delayed messages not due yet.
    pub delayed: Option<u64>,
    /// Failed messages.
    pub failed: Option<u64>,
    /// Messages per second; `null` also if no owner says.
    pub rate: Option<Rate>,
    /// The journal that stores its messages.
    pub journal: Option<String>,
    /// Retention of handled messages.
    #[serde(rename = "keep_ms")]
    pub keep: Option<Keep>,
    /// How it is.
    pub state: QueueState,
    /// Why the others are `null`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Why there is no list.
#[derive(Debug, Error)]
#[error("cannot list queues")]
pub struct ListError {
    /// The queue that was looked at; `None` before any was.
    pub queue: Option<QueueName>,
    /// What went wrong.
    pub source: QueueError,
}

impl From<ListError> for QueueError {
    fn from(error: ListError) -> Self {
        error.source
    }
}

/// All queues by name, each with the error if it could not be looked at. An error that would hide all queues alike, such
/// as a lost session, is one of the list.
pub async fn rows(
    session: &Session,
    journals: &Journals,
) -> Result<Vec<(QueueRow, Option<QueueError>)>, ListError> {
    let queues = show::list(session).await.map_err(|source| ListError { queue: None, source })?;
    rows_of(session, journals, queues).await
}

/// The same of these queues alone.
pub async fn rows_of(
    session: &Session,
    journals: &Journals,
    queues: BTreeSet<QueueName>,
) -> Result<Vec<(QueueRow, Option<QueueError>)>, ListError> {
    let views = show::of(session, journals, queues).await;
    let views = views.map_err(|source| ListError { queue: None, source })?;
    let mut rows = Vec::new();
    for (queue, view) in views {
        match view {
            Ok(view) => rows.push((QueueRow::of(&view), None)),
            // Deleted a moment ago.
            Err(QueueError::NoQueue { .. }) => {}
            Err(source) => match QueueState::unknown(&source) {
                Some(state) => rows.push((QueueRow::unknown(queue, state, &source), Some(source))),
                None => return Err(ListError { queue: Some(queue), source }),
            },
        }
    }
    Ok(rows)
}

impl QueueRow {
    /// The row of a queue.
    pub fn of(view: &QueueView) -> Self {
        Self {
            queue: view.queue.clone(),
            partitions: Some(view.partitions.len()),
            owned: Some(view.partitions.iter().filter(|partition| partition.owner.is_some()).count()),
            lag: Some(view.lag()),
            oldest_ms: view.oldest_ms(),
            oldest_since_ms: view.oldest_since_ms(),
            delayed: Some(view.delayed()),
            failed: Some(view.failed),
            rate: view.rate(),
            journal: Some(view.journal.clone()),
            keep: Some(view.keep),
            state: QueueState::of(view),
            reason: None,
        }
    }

    fn unknown(queue: QueueName, state: QueueState, error: &QueueError) -> Self {
        Self {
            queue,
            partitions: None,
            owned: None,
            lag: None,
            oldest_ms: None,
            oldest_since_ms: None,
            delayed: None,
            failed: None,
            rate: None,
            journal: None,
            keep: None,
            state,
            reason: Some(match error {
                QueueError::Journal(error) => error.to_string(),
                QueueError::Call(error) => error.to_string(),
                error => whole(error).to_string(),
            }),
        }
    }
}
