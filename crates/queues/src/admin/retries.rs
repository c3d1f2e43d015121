//! Which messages operators have put back, after they had failed.

use std::collections::{HashMap, HashSet};

use menagerie_journal::{Journal, JournalError, MessageId, PartitionId, Read, Ticks};
use menagerie_znodes::queues::{PartitionName, QueueName};

use crate::error::QueueError;
use crate::message_uuid::MessageUuid;
use crate::story::{self, Act, ActKind};

/// Acts of one read.
const BATCH: u32 = 4096;

/// Which of some messages operators have put back.
#[derive(Debug, Clone, Default)]
pub struct Retries {
    /// Where each of them was put back last, and when: its new position is about that.
    pub last: HashMap<MessageUuid, (PartitionName, MessageId)>,
    /// Whether all acts since then were read.
    pub is_complete: bool,
}

impl Retries {
    /// Reads what operators did since this time, from the newest back, in at most this many reads.
    pub async fn read(
        store: &dyn Journal,
        queue: &QueueName,
        ids: &HashSet<MessageUuid>,
        since: Ticks,
        reads_max: usize,
    ) -> Result<Self, QueueError> {
        let mut retries = Self::default();
        let acts = PartitionId::new(story::topic(queue)?, story::ACTS);
        let mut read = Read::from(acts, MessageId(since)).limit(BATCH).descending();
        for _ in 0..reads_max {
            let batch = match store.read(read.clone()).await {
                // Nothing has been done yet.
                Err(JournalError::NoTopic { .. }) => Vec::new(),
                batch => batch?.messages,
            };
            let Some(end) = batch.last() else {
                retries.is_complete = true;
                return Ok(retries);
            };
            read.before = end.id;
            for message in &batch {
                // A newer version may write others.
                let Ok(act) = serde_json::from_slice::<Act>(&message.body) else { continue };
                if act.act == ActKind::Retried && ids.contains(&act.id) {
                    retries.last.entry(act.id).or_insert((act.partition, message.id));
                }
            }
        }
        // The last of them may have been the very first.
        let rest = store.read(read.limit(1)).await.map(|batch| batch.messages.is_empty());
        retries.is_complete = rest?;
        Ok(retries)
    }
}
