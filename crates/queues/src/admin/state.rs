//! What has become of a message, as far as cursor, delayed and failed messages tell.

use std::sync::Arc;

use menagerie_journal::{Journal, JournalError, Message, MessageId, PartitionId, Read};
use menagerie_kernel::Term;
use menagerie_znodes::queues::{self, Gaps, PartitionName};
use serde::Serialize;

use crate::coordination::claim::topic;
use crate::coordination::cursor::CursorAt;
use crate::error::QueueError;
use crate::failed::FailureRecord;
use crate::message_uuid::MessageUuid;

/// Failed messages that are looked through for one message.
const FAILED_READ_MAX: u32 = 10_000;

/// What has become of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MessageState {
    /// Not due yet.
    Delayed,
    /// Not handled yet; it may be running.
    Waiting,
    /// Given up.
    Failed,
    /// Handled.
    Done,
}

/// The state of a message that is in this partition.
pub async fn state_of(
    term: &Term,
    store: &Arc<dyn Journal>,
    partition: &PartitionName,
    message: &Message,
) -> Result<MessageState, QueueError> {
    if !is_past(term, partition, message.id).await? {
        return Ok(MessageState::Waiting);
    }
    match is_failed(store, partition, message).await? {
        true => Ok(MessageState::Failed),
        false => Ok(MessageState::Done),
    }
}

/// Whether workers are done with it, in whatever way.
pub(crate) async fn is_past(
    term: &Term,
    partition: &PartitionName,
    id: MessageId,
) -> Result<bool, QueueError> {
    Ok(Past::read(term, partition).await?.has(id))
}

/// What workers of a partition are done with.
#[derive(Debug, Clone, Default)]
pub(crate) struct Past {
    /// They are done with everything up to here.
    pub cursor: MessageId,
    gaps: Option<Gaps>,
}

impl Past {
    /// As it is now.
    pub async fn read(term: &Term, partition: &PartitionName) -> Result<Self, QueueError> {
        let Some(cursor) = CursorAt::read(term, partition).await? else { return Ok(Self::default()) };
        let gaps = term.read(&queues::gaps(partition)).await?.map(|found| found.value);
        Ok(Self { cursor: cursor.position(), gaps })
    }

    /// Whether they are done with the message at this position.
    pub fn has(&self, position: MessageId) -> bool {
        let is_beyond = |gaps: &Gaps| gaps.is_done(self.cursor.0.0, position.0.0);
        position <= self.cursor || self.gaps.as_ref().is_some_and(is_beyond)
    }
}

/// Whether it is among the failed messages: those that failed after it was put.
async fn is_failed(
    store: &Arc<dyn Journal>,
    partition: &PartitionName,
    message: &Message,
) -> Result<bool, QueueError> {
    let Some(failed) = partition.queue().failed() else { return Ok(false) };
    let of = PartitionId::new(topic(&failed)?, 1);
    // Records of an older version only say where it stood.
    let (id, position) = (MessageUuid::of(partition, message), message.id.to_string());
    let is_it = |record: FailureRecord| {
        record.id == Some(id) || record.origin == *partition && record.message == position
    };
    let mut read = Read::after(of, message.id).limit(FAILED_READ_MAX);
    while read.limit > 0 {
        let batch = match store.read(read.clone()).await {
            // The topic is created by the first failure.
            Err(JournalError::NoTopic { .. }) => return Ok(false),
            batch => batch?.messages,
        };
        let Some(last) = batch.last().map(|message| message.id) else { break };
        let record = |message: &Message| serde_json::from_slice::<FailureRecord>(&message.meta).ok();
        if batch.iter().filter_map(record).any(is_it) {
            return Ok(true);
        }
        read.limit = read.limit.saturating_sub(u32::try_from(batch.len()).unwrap_or(u32::MAX));
        read.after = last;
    }
    Ok(false)
}
