//! What operators did: to single messages, stored together with what it changed; and to all up to one, stored after it.

use menagerie_journal::{
    Append, Commit, Committed, Edit, Edited, Journal, JournalError, MessageId, NewMessage, PartitionId, Read,
    Ticks,
};
use menagerie_znodes::queues::{PartitionName, QueueName, Settings};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tracing::warn;

use super::{ACTS, prepare, reader, topic};
use crate::admin::browse::CLOCKS_DIFFER;
use crate::error::QueueError;
use crate::message_uuid::MessageUuid;
use crate::meta::Meta;

/// Acts of one read.
const BATCH: u32 = 1000;

/// What an operator did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
    /// Dropped all messages of its partition.
    Purged,
    /// Dropped the messages of its partition up to one.
    Skipped,
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

/// All messages of a partition up to one that an operator has dropped. Those that were handled before do not count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Sweep {
    /// The partition.
    pub partition: PartitionName,
    /// Up to here they were handled.
    pub after: MessageId,
    /// The last that was dropped.
    pub through: MessageId,
    /// What was done.
    pub sweep: ActKind,
}

impl Sweep {
    /// Whether it dropped the message at this position, unless that was handled ahead of others.
    pub(super) fn has(&self, partition: &PartitionName, position: MessageId) -> bool {
        self.partition == *partition && self.after < position && position <= self.through
    }
}

/// Acts and sweeps, each with when it was.
#[derive(Debug, Default)]
pub(crate) struct Acts {
    /// Oldest first.
    pub acts: Vec<(MessageId, Act)>,
    /// The same of whole partitions.
    pub sweeps: Vec<(MessageId, Sweep)>,
    /// Some cannot be read.
    pub is_damaged: bool,
    /// Everything up to here was dropped, as it is older than the queue keeps.
    pub trimmed: Option<MessageId>,
}

/// Notes that messages were dropped, after it was done: they are gone in any case.
pub(crate) async fn note_sweep(journal: &dyn Journal, settings: &Settings, sweep: &Sweep) {
    let queue = sweep.partition.queue();
    let note = async {
        let body = serde_json::to_vec(sweep).expect("texts and numbers can be written");
        let commit = Commit::append(PartitionId::new(topic(queue)?, ACTS), NewMessage::new(body));
        commit_prepared(journal, queue, settings, commit).await
    };
    if let Err(error) = note.await {
        warn!(partition = %sweep.partition, %error, "dropped messages were not noted; their stories have a gap");
    }
}

/// Notes what was done to messages, after it was done: it has happened in any case.
pub async fn note(
    journal: &dyn Journal,
    queue: &QueueName,
    settings: &Settings,
    acts: impl IntoIterator<Item = Act>,
) {
    let noted = async {
        let appends = appends(queue, acts)?;
        commit_prepared(journal, queue, settings, Commit { appends, ..Commit::default() }).await
    };
    if let Err(error) = noted.await {
        warn!(%queue, %error, "what was done to messages was not noted; their stories have a gap");
    }
}

/// Commits a change together with the acts that it consists of. A message as large as its journal allows leaves no room for
/// them, nor does a journal that is full for a change that makes room: then they are written right after it.
pub async fn commit(
    journal: &dyn Journal,
    queue: &QueueName,
    settings: &Settings,
    alone: Commit,
    acts: impl IntoIterator<Item = Act>,
) -> Result<Committed, QueueError> {
    let acts: Vec<Act> = acts.into_iter().collect();
    let mut whole = alone.clone();
    whole.appends.extend(appends(queue, acts.iter().cloned())?);
    match commit_prepared(journal, queue, settings, whole).await {
        Err(QueueError::Journal(error)) if is_about_the_notes(&error, &alone) => {
            let committed = journal.commit(alone).await?;
            // Alone, removing what somebody else has removed is no error.
            if committed.edits.iter().all(|edited| *edited != Edited::Missing) {
                note(journal, queue, settings, acts).await;
            }
            Ok(committed)
        }
        committed => committed,
    }
}

/// Whether a change may be possible without its notes.
fn is_about_the_notes(error: &JournalError, alone: &Commit) -> bool {
    let makes_room = || {
        let is_removed = |edit: &Edit| matches!(edit, Edit::Remove { .. } | Edit::Cancel { .. });
        alone.appends.is_empty() && alone.edits.iter().all(is_removed)
    };
    match error {
        JournalError::TooLarge { .. } => true,
        JournalError::DiskFull | JournalError::Quota { .. } => makes_room(),
        _ => false,
    }
}

fn appends(queue: &QueueName, acts: impl IntoIterator<Item = Act>) -> Result<Vec<Append>, QueueError> {
    let partition = PartitionId::new(topic(queue)?, ACTS);
    let append = |act: Act| {
        let act = serde_json::to_vec(&act).expect("texts can be written");
        Append { partition: partition.clone(), message: NewMessage::new(act) }
    };
    Ok(acts.into_iter().map(append).collect())
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

/// What was done to a message since this time, oldest first, also if the journal's clock was set back meanwhile; and all
/// sweeps.
pub(crate) async fn acts(
    journal: &dyn Journal,
    queue: &QueueName,
    id: MessageUuid,
    since: Ticks,
) -> Result<Acts, QueueError> {
    let (mut all, mut from) = (Acts::default(), MessageId(since.minus(CLOCKS_DIFFER)).previous());
    loop {
        let (batch, last) = after(journal, queue, from).await?;
        all.is_damaged |= batch.is_damaged;
        all.trimmed = all.trimmed.max(batch.trimmed);
        let Some(last) = last else { return Ok(all) };
        from = last;
        all.acts.extend(batch.acts.into_iter().filter(|(_, act)| act.id == id));
        all.sweeps.extend(batch.sweeps);
    }
}

/// Some of what was done after this time, and when the last of it was; `None` if there is no more.
pub(super) async fn after(
    journal: &dyn Journal,
    queue: &QueueName,
    from: MessageId,
) -> Result<(Acts, Option<MessageId>), QueueError> {
    let partition = PartitionId::new(topic(queue)?, ACTS);
    let stretch = reader::read(journal, Read::after(partition, from).limit(BATCH)).await?;
    let (mut all, last) = (Acts::default(), stretch.messages.last().map(|last| last.id));
    (all.is_damaged, all.trimmed) = (stretch.is_damaged, stretch.trimmed);
    for message in &stretch.messages {
        // A newer version may write others.
        if let Ok(act) = serde_json::from_slice(&message.body) {
            all.acts.push((message.id, act));
        } else if let Ok(sweep) = serde_json::from_slice(&message.body) {
            all.sweeps.push((message.id, sweep));
        }
    }
    Ok((all, last))
}
