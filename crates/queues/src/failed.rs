//! Messages that were given up: where they go, and what is said about them.

use std::time::Duration;

use bytes::Bytes;
use menagerie_journal::{Append, Commit, JournalError, Message, NewMessage, PartitionId, TopicConfig};
use menagerie_programs::output;
use menagerie_znodes::queues::PartitionName;
use serde::{Deserialize, Serialize};

use crate::admin::FAILED_DEDUP_WINDOW;
use crate::coordination::claim::{Books, topic};
use crate::core::failure::Attempts;
use crate::error::QueueError;
use crate::task::Failed;

/// As much of a task's output is kept with its message.
pub const OUTPUT_BYTES_MAX: usize = output::KEPT_BYTES_MAX;
/// As much of what a task says of its failure.
pub const ERROR_BYTES_MAX: usize = 4 << 10;
/// The same, where there is little room.
const ERROR_BYTES_SHORT: usize = 128;

/// What is said about a message in a queue, beside the message.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Meta {
    /// How often an operator has sent it back from the failed ones.
    #[serde(default)]
    pub retries: u32,
    /// The UUID that somebody has put it under, without dashes: a journal keeps no more than its time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

impl Meta {
    /// What is said about a message; nothing, for one that came with something else.
    pub fn of(message: &Message) -> Self {
        serde_json::from_slice(&message.meta).unwrap_or_default()
    }
}

/// What is said about a message that was given up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Story {
    /// Where it was.
    pub origin: PartitionName,
    /// Its id there.
    pub message: String,
    /// Why it was given up.
    pub error: String,
    /// How often it was tried.
    pub attempts: u32,
    /// How often an operator had sent it back before.
    #[serde(default)]
    pub retries: u32,
    /// The end of what its task had printed.
    #[serde(default)]
    pub output: String,
    /// How long it was to live there, if its end was known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl: Option<Duration>,
}

/// How long a message was to live, from when it was put.
fn ttl(message: &Message) -> Option<Duration> {
    message.expires.map(|end| end.since(message.id.0))
}

/// Everything that is to happen in the journal when a message is given up: it is among the failed ones, once, and it is
/// known to be, so that it is not tried again when our record of it is lost. In several forms, each shorter than the one
/// before: a message that is as large as its journal takes has room for little beside it, or for nothing.
pub fn give_up(
    books: &Books,
    partition: &PartitionName,
    message: &Message,
    failed: &Failed,
    attempts: &Attempts,
) -> Result<Vec<Commit>, QueueError> {
    let alone = Commit { states: vec![books.attempts(attempts)], ..Commit::default() };
    let Some(place) = partition.queue().failed() else { return Ok(vec![alone]) };
    let place = PartitionId::new(topic(&place)?, 1);
    let retries = Meta::of(message).retries;
    let from = failed.output.len().saturating_sub(OUTPUT_BYTES_MAX);
    let story = Story {
        origin: partition.clone(),
        message: message.id.to_string(),
        error: failed.error.clone(),
        attempts: attempts.attempts,
        retries,
        output: String::from_utf8_lossy(&failed.output[from..]).into_owned(),
        ttl: ttl(message),
    };
    let error = beginning(&failed.error, ERROR_BYTES_SHORT).to_owned();
    let short = Story { error, output: String::new(), ..story.clone() };
    let told = |story: &Story| serde_json::to_vec(story).expect("it has nothing that can fail");
    let dedup = Bytes::from(format!("{partition}/{}/{retries}", message.id));
    let commit = |meta: Vec<u8>| {
        let (body, dedup) = (message.body.clone(), Some(dedup.clone()));
        let message = NewMessage { meta: meta.into(), body, dedup, ..NewMessage::default() };
        let appends = vec![Append { partition: place.clone(), message }];
        Commit { appends, ..alone.clone() }
    };
    Ok([told(&story), told(&short), Vec::new()].map(commit).into())
}

/// The same, with no more of the error than is kept.
pub(crate) fn short(failed: &Failed) -> Failed {
    Failed { error: beginning(&failed.error, ERROR_BYTES_MAX).to_owned(), ..failed.clone() }
}

/// As much of a text as this, and no half character.
fn beginning(text: &str, bytes_max: usize) -> &str {
    let cut = (0..=bytes_max.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    &text[..cut.unwrap_or_default()]
}

/// Commits; makes the place for failed messages if there is none, as for queues that others made.
pub async fn commit(books: &Books, commit: Commit) -> Result<(), JournalError> {
    match books.commit(commit.clone()).await {
        Err(JournalError::NoTopic { topic }) if topic != books.partition.topic => {
            let config = TopicConfig { dedup_window: FAILED_DEDUP_WINDOW, ..TopicConfig::partitions(1) };
            books.journal.create_topic(&topic, config).await?;
            books.commit(commit).await
        }
        outcome => outcome,
    }
}
