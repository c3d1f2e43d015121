//! Messages that were given up: where they go, and what is recorded about them.

use std::time::Duration;

use bytes::Bytes;
use menagerie_journal::{Append, Commit, JournalError, Message, NewMessage, PartitionId, Ticks, TopicConfig};
use menagerie_programs::output;
use menagerie_znodes::queues::PartitionName;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::admin::FAILED_DEDUP_WINDOW;
use crate::coordination::claim::{FencedJournal, topic};
use crate::core::failure::OnFailure;
use crate::core::machine::Note;
use crate::error::QueueError;
use crate::message_uuid::MessageUuid;
use crate::meta::{Meta, Via};
use crate::task::Failed;

/// How much of a task's output is stored with its message.
pub const OUTPUT_BYTES_MAX: usize = output::KEPT_BYTES_MAX;
/// How much of a task's error text is stored.
pub const ERROR_BYTES_MAX: usize = 4 << 10;
/// How much of it is stored when the message leaves little room.
const ERROR_BYTES_SHORT: usize = 128;

/// Why and where a message was given up. What it shares with [`Meta`] is named as there, so that its id is found in the
/// same way wherever a message is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FailureRecord {
    /// Its id, for life; older versions did not store it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "MessageUuid")]
    pub id: Option<MessageUuid>,
    /// When it was put, in steps of 100 ns since 15 October 1582.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub put: Option<Ticks>,
    /// Who put it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Over what.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via: Option<Via>,
    /// Its key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Its priority.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub priority: i8,
    /// The partition it came from.
    pub origin: PartitionName,
    /// Its position in that partition, as a UUID.
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

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(priority: &i8) -> bool {
    *priority == 0
}

/// All that must stay of a message's metadata when there is no room for more.
#[derive(Serialize)]
struct IdOnly {
    id: MessageUuid,
}

/// Time to live of a message, from when it was put.
fn ttl(message: &Message) -> Option<Duration> {
    message.expires.map(|end| end.since(message.id.0))
}

/// The commits that store a failure, the most detailed first. One that gives a message up also appends it to the failed
/// messages, once, so that nobody tries it again if our record is lost. They carry less and less metadata: a message as
/// large as its journal allows leaves little room for it, or none.
pub(crate) fn note(fenced: &FencedJournal, partition: &PartitionName, note: &Note) -> Vec<Commit> {
    let Note { message, attempts, settled, given_up } = note;
    let mut states: Vec<_> = settled.iter().map(|settled| fenced.attempts(*settled, None)).collect();
    states.push(fenced.attempts(message.id, Some(attempts)));
    let alone = Commit { states, ..Commit::default() };
    match given_up {
        Some((OnFailure::Queue, failed)) => {
            let variants = give_up(partition, message, failed, attempts.attempts, &alone);
            variants.unwrap_or_else(|_| vec![alone])
        }
        Some((OnFailure::Log | OnFailure::Stop, _)) | None => vec![alone],
    }
}

fn give_up(
    partition: &PartitionName,
    message: &Message,
    failed: &Failed,
    attempts: u32,
    alone: &Commit,
) -> Result<Vec<Commit>, QueueError> {
    let Some(target) = partition.queue().failed() else { return Ok(vec![alone.clone()]) };
    let target = PartitionId::new(topic(&target)?, 1);
    let meta = Meta::of(message);
    let (id, retries, put) = (MessageUuid::of(partition, message), meta.retries, meta.put_time(message));
    let from = failed.output.len().saturating_sub(OUTPUT_BYTES_MAX);
    let record = FailureRecord {
        id: Some(id),
        put: Some(put),
        by: meta.by,
        via: meta.via,
        key: meta.key,
        priority: meta.priority,
        origin: partition.clone(),
        message: message.id.to_string(),
        error: failed.error.clone(),
        attempts,
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
    let id = serde_json::to_vec(&IdOnly { id }).expect("a text can be written");
    Ok([encode(&record), encode(&short), id, Vec::new()].map(commit).into())
}

/// The same failure with its error text cut to what is stored.
pub(crate) fn truncated(failed: &Failed) -> Failed {
    Failed { error: prefix(&failed.error, ERROR_BYTES_MAX).to_owned(), ..failed.clone() }
}

/// The longest prefix of at most `bytes_max` bytes that ends at a character boundary.
pub(crate) fn prefix(text: &str, bytes_max: usize) -> &str {
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
