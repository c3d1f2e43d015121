//! Outcomes as they are stored: many on a page.

use menagerie_journal::{MessageId, Ticks};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::core::failure::OnFailure;
use crate::core::machine::{Ending, How};
use crate::failed;
use crate::meta::Meta;

/// Most bytes of an error on a page.
const ERROR_BYTES_MAX: usize = 500;

/// How an attempt, or a message, ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "AttemptOutcome")]
pub enum Outcome {
    /// The message is done.
    Done,
    /// The attempt failed; another one follows.
    Retry,
    /// The message was given up, and is among the failed ones.
    Failed,
    /// The message was given up, and is kept nowhere.
    Skipped,
    /// The message was given up, and its worker has stopped.
    Stuck,
    /// A worker vanished that may have begun the message; the next owner says so.
    Orphaned,
    /// The attempt was stopped; it does not count.
    Stopped,
    /// The message's time to live ended before its turn came.
    Expired,
}

impl Outcome {
    /// Whether nothing follows unless an operator retries the message.
    pub fn is_final(self) -> bool {
        match self {
            Self::Done | Self::Failed | Self::Skipped | Self::Expired => true,
            Self::Retry | Self::Stuck | Self::Orphaned | Self::Stopped => false,
        }
    }
}

/// The outcome of one attempt. Names of fields are short: there are many.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The message's position in its partition.
    #[serde(rename = "p")]
    pub position: MessageId,
    /// When it ended, by the worker's clock.
    #[serde(rename = "t")]
    pub at: Ticks,
    /// Which attempt; 0 if there was none.
    #[serde(rename = "n")]
    pub attempt: u32,
    /// How long it took.
    #[serde(rename = "ms", default, skip_serializing_if = "Option::is_none")]
    pub took_ms: Option<u64>,
    /// How it ended.
    #[serde(rename = "o")]
    pub outcome: Outcome,
    /// Why it failed.
    #[serde(rename = "e", default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// When it is tried again, in ms from its end.
    #[serde(rename = "w", default, skip_serializing_if = "Option::is_none")]
    pub next_ms: Option<u64>,
    /// What was stored with the message, if it has expired: then it is not kept for as long as its story.
    #[serde(rename = "m", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

/// Outcomes of one partition, as one worker wrote them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Page {
    /// Who.
    pub worker: String,
    /// The newest message of which an outcome has been written, here or before: lets a search skip pages.
    pub top: MessageId,
    /// Oldest first.
    pub entries: Vec<Entry>,
}

impl Page {
    /// What a stored page has in it if it has an outcome of the message at this position.
    pub(super) fn mark(position: MessageId) -> String {
        format!("\"p\":{}", position.0.0)
    }
}

impl Entry {
    /// What is written about the end of an attempt; `None` if an earlier owner has written it.
    pub fn of(ending: &Ending, at: Ticks) -> Option<Self> {
        let ms = |time: std::time::Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let (outcome, failed, next) = match &ending.how {
            How::Done => (Outcome::Done, None, None),
            How::Retry(failed, pause) => (Outcome::Retry, Some(failed), Some(*pause)),
            How::GivenUp(failed, OnFailure::Queue) => (Outcome::Failed, Some(failed), None),
            How::GivenUp(failed, OnFailure::Log) => (Outcome::Skipped, Some(failed), None),
            How::GivenUp(failed, OnFailure::Stop) => (Outcome::Stuck, Some(failed), None),
            How::Orphaned => (Outcome::Orphaned, None, None),
            How::Stopped => (Outcome::Stopped, None, None),
            How::Expired => (Outcome::Expired, None, None),
            How::Skipped => return None,
        };
        Some(Self {
            position: ending.message.id,
            at,
            attempt: ending.attempt,
            took_ms: ending.took.map(ms),
            outcome,
            error: failed.map(|failed| failed::prefix(&failed.error, ERROR_BYTES_MAX).to_owned()),
            next_ms: next.map(ms),
            meta: (outcome == Outcome::Expired).then(|| Meta::of(&ending.message)),
        })
    }
}
