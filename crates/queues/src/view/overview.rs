//! One queue: is it behind, and do we need more workers?

use menagerie_kernel::Session;
use menagerie_znodes::queues::{Handling, Keep, Pause, QueueName};
use schemars::JsonSchema;
use serde::Serialize;

use super::{QueueState, verdict};
use crate::admin::show::{self, PartitionView, QueueView, Rate};
use crate::error::QueueError;
use crate::journals::Journals;

/// A queue with the sums of its partitions.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct QueueOverview {
    /// Its name.
    pub queue: QueueName,
    /// The journal that stores its messages.
    pub journal: String,
    /// Retention of handled messages.
    #[serde(rename = "keep_ms")]
    pub keep: Keep,
    /// In which order its messages are handled, and what happens after a failure.
    pub handling: Handling,
    /// How it is.
    pub state: QueueState,
    /// The pause, if it is paused.
    pub paused: Option<Pause>,
    /// Messages stored, including handled ones.
    pub messages: u64,
    /// Messages waiting.
    pub lag: u64,
    /// Age of the oldest waiting message.
    pub oldest_ms: Option<u64>,
    /// Since when it waits, in milliseconds since 1970.
    pub oldest_since_ms: Option<u64>,
    /// Delayed messages not due yet.
    pub delayed: u64,
    /// Failed messages.
    pub failed: u64,
    /// Those of them that no partition counts: only the newest are looked at.
    pub failed_uncounted: u64,
    /// Workers that serve it.
    pub workers: usize,
    /// Messages per second; `null` if no owner says.
    pub rate: Option<Rate>,
    /// What is in the way, or how it goes, in a sentence.
    pub verdict: String,
    /// Its partitions.
    pub partitions: Vec<PartitionView>,
}

/// Looks at a queue, or at its failed messages, which count as handled.
pub async fn overview(
    session: &Session,
    journals: &Journals,
    queue: &QueueName,
) -> Result<QueueOverview, QueueError> {
    Ok(QueueOverview::of(show::show(session, journals, queue).await?))
}

impl QueueOverview {
    /// The sums and the verdict for a queue.
    pub fn of(view: QueueView) -> Self {
        Self {
            state: QueueState::of(&view),
            messages: view.messages(),
            lag: view.lag(),
            oldest_ms: view.oldest_ms(),
            oldest_since_ms: view.oldest_since_ms(),
            delayed: view.delayed(),
            rate: view.rate(),
            verdict: verdict(&view),
            queue: view.queue,
            journal: view.journal,
            keep: view.keep,
            handling: view.handling,
            paused: view.paused,
            failed: view.failed,
            failed_uncounted: view.failed_uncounted,
            workers: view.workers,
            partitions: view.partitions,
        }
    }
}
