//! What operators did to single messages, stored together with what it changed.

use menagerie_journal::{
    Append, Commit, Committed, Journal, JournalError, Message, MessageId, NewMessage, PartitionId, Read,
    Ticks,
};
use menagerie_znodes::queues::{PartitionName, QueueName, Settings};
use serde::{Deserialize, Serialize};
use tracing::warn;

use super::{ACTS, prepare, topic};
use crate::error::QueueError;
use crate::message_uuid::MessageUuid;
use crate::meta::Meta;

/// Acts of one read.
const BATCH: u32 = 1000;

/// What an operator did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ActKind {
    /// Put a failed message back.
    Retried,
    /// Dropped a failed message.
    Forgotten,
    /// Dropped a message that was not due yet.
    Cancelled,
    /// Deleted a message over HTTP.
    Deleted,
}

/// Something that an operator did to a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Act {
    /// The message.
    pub id: MessageUuid,
    /// The partition that it was in, or would have been.
    pub partition: PartitionName,
    /// Its position there when it was given up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<MessageId>,
    /// What was done.
    pub act: ActKind,
    /// By whom, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// What was stored with the message, if nothing else is left of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

/// Commits a change together with the acts that it consists of. A message as large as its journal allows leaves no room
/// for them: then they are written right after it.
pub async fn commit(
    journal: &dyn Journal,
    queue: &QueueName,
    settings: &Settings,
    alone: Commit,
    acts: impl IntoIterator<Item = Act>,
) -> Result<Committed, QueueError> {
    let partition = PartitionId::new(topic(queue)?, ACTS);
    let append = |act: Act| {
        let act = serde_json::to_vec(&act).expect("texts can be written");
        Append { partition: partition.clone(), message: NewMessage::new(act) }
    };
    let notes: Vec<Append> = acts.into_iter().map(append).collect();
    let mut whole = alone.clone();
    whole.appends.extend(notes.iter().cloned());
    match commit_prepared(journal, queue, settings, whole).await {
        Err(QueueError::Journal(JournalError::TooLarge { .. })) => {
            let committed = journal.commit(alone).await?;
            let notes = Commit { appends: notes, ..Commit::default() };
            if let Err(error) = commit_prepared(journal, queue, settings, notes).await {
                warn!(%queue, %error, "what was done to a message was not written; its story has a gap");
            }
            Ok(committed)
        }
        committed => committed,
    }
}

/// Commits. Creates the topic for it if the queue is of a version without stories.
async fn commit_prepared(
    journal: &dyn Journal,
    queue: &QueueName,
    settings: &Settings,
    commit: Commit,
) -> Result<Committed, QueueError> {
    let stories = topic(queue)?;
    match journal.commit(commit.clone()).await {
        Err(JournalError::NoTopic { topic }) if topic == stories => {
            prepare(journal, queue, settings).await?;
            Ok(journal.commit(commit).await?)
        }
        committed => Ok(committed?),
    }
}

/// What was done to a message since this time, oldest first, each with when that was.
pub async fn acts(
    journal: &dyn Journal,
    queue: &QueueName,
    id: MessageUuid,
    since: Ticks,
) -> Result<Vec<(MessageId, Act)>, QueueError> {
    let (mut found, mut from) = (Vec::new(), MessageId(since).previous());
    loop {
        let (acts, last) = after(journal, queue, from).await?;
        let Some(last) = last else { return Ok(found) };
        from = last;
        found.extend(acts.into_iter().filter(|(_, act)| act.id == id));
    }
}

/// Some of what was done after this time, and when the last of it was; `None` if there is no more.
pub(super) async fn after(
    journal: &dyn Journal,
    queue: &QueueName,
    from: MessageId,
) -> Result<(Vec<(MessageId, Act)>, Option<MessageId>), QueueError> {
    let partition = PartitionId::new(topic(queue)?, ACTS);
    let batch = match journal.read(Read::after(partition, from).limit(BATCH)).await {
        Err(JournalError::NoTopic { .. }) => return Ok((Vec::new(), None)),
        batch => batch?.messages,
    };
    // A newer version may write others.
    let parse = |message: &Message| Some((message.id, serde_json::from_slice(&message.body).ok()?));
    Ok((batch.iter().filter_map(parse).collect(), batch.last().map(|last| last.id)))
}
