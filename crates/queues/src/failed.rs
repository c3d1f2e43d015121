//! Messages that were given up: where they go, and what is recorded about them.

use std::time::Duration;

use bytes::Bytes;
use menagerie_journal::{Append, Commit, JournalError, Message, NewMessage, PartitionId, TopicConfig};
use menagerie_programs::output;
use menagerie_znodes::queues::PartitionName;
use serde::{Deserialize, Serialize};

use crate::admin::FAILED_DEDUP_WINDOW;
use crate::coordination::claim::{FencedJournal, topic};
use crate::core::failure::Attempts;
use crate::error::QueueError;
use crate::task::Failed;

/// How much of a task's output is stored with its message.
pub const OUTPUT_BYTES_MAX: usize = output::KEPT_BYTES_MAX;
/// How much of a task's error text is stored.
pub const ERROR_BYTES_MAX: usize = 4 << 10;
/// How much of it is stored when the message leaves little room.
const ERROR_BYTES_SHORT: usize = 128;

/// Metadata of a message in a queue.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Meta {
    /// How often an operator has retried it after it was given up.
    #[serde(default)]
    pub retries: u32,
    /// The UUID a client chose for it, without dashes: the journal keeps only its timestamp.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

impl Meta {
    /// Metadata of a message; the default if it carries something else.
    pub fn of(message: &Message) -> Self {
        serde_json::from_slice(&message.meta).unwrap_or_default()
    }
}

/// Why and where a message was given up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailureRecord {
    /// The partition it came from.
    pub origin: PartitionName,
    /// Its id in that partition.
    pub message: String,
    /// The task's last error.
    pub error: String,
    /// Number of attempts.
    pub attempts: u32,
    /// How often an operator had retried it before.
    #[serde(default)]
    pub retries: u32,
    /// The end of its task's output.
    #[serde(default)]
    pub output: String,
    /// Its time to live in the queue, if it had one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl: Option<Duration>,
}

/// Time to live of a message, from when it was put.
fn ttl(message: &Message) -> Option<Duration> {
    message.expires.map(|end| end.since(message.id.0))
}

/// The commits that give a message up: each appends it to the failed messages, once, and records that it was given up,
/// so that nobody tries it again if our cursor record is lost. They carry less and less metadata: a message as large as
/// its journal allows leaves little room for it, or none.
pub fn give_up(
    fenced: &FencedJournal,
    partition: &PartitionName,
    message: &Message,
    failed: &Failed,
    attempts: &Attempts,
) -> Result<Vec<Commit>, QueueError> {
    let alone = Commit { states: vec![fenced.attempts(attempts)], ..Commit::default() };
    let Some(target) = partition.queue().failed() else { return Ok(vec![alone]) };
    let target = PartitionId::new(topic(&target)?, 1);
    let retries = Meta::of(message).retries;
    let from = failed.output.len().saturating_sub(OUTPUT_BYTES_MAX);
    let record = FailureRecord {
        origin: partition.clone(),
        message: message.id.to_string(),
        error: failed.error.clone(),
        attempts: attempts.attempts,
        retries,
        output: String::from_utf8_lossy(&failed.output[from..]).into_owned(),
        ttl: ttl(message),
    };
    let error = prefix(&failed.error, ERROR_BYTES_SHORT).to_owned();
    let short = FailureRecord { error, output: String::new(), ..record.clone() };
    let encode = |record: &FailureRecord| serde_json::to_vec(record).expect("it has nothing that can fail");
    let dedup = Bytes::from(format!("{partition}/{}/{retries}", message.id));
    let commit = |meta: Vec<u8>| {
        let (body, dedup) = (message.body.clone(), Some(dedup.clone()));
        let message = NewMessage { meta: meta.into(), body, dedup, ..NewMessage::default() };
        let appends = vec![Append { partition: target.clone(), message }];
        Commit { appends, ..alone.clone() }
    };
    Ok([encode(&record), encode(&short), Vec::new()].map(commit).into())
}

/// The same failure with its error text cut to what is stored.
pub(crate) fn truncated(failed: &Failed) -> Failed {
    Failed { error: prefix(&failed.error, ERROR_BYTES_MAX).to_owned(), ..failed.clone() }
}

/// The longest prefix of at most `bytes_max` bytes that ends at a character boundary.
fn prefix(text: &str, bytes_max: usize) -> &str {
    let cut = (0..=bytes_max.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    &text[..cut.unwrap_or_default()]
}

/// Commits. Creates the topic for failed messages if it is missing, as it is for queues of qdo.
pub async fn commit(fenced: &FencedJournal, commit: Commit) -> Result<(), JournalError> {
    match fenced.commit(commit.clone()).await {
        Err(JournalError::NoTopic { topic }) if topic != fenced.partition.topic => {
            let config = TopicConfig { dedup_window: FAILED_DEDUP_WINDOW, ..TopicConfig::partitions(1) };
            fenced.journal.create_topic(&topic, config).await?;
            fenced.commit(commit).await
        }
        outcome => outcome,
    }
}
