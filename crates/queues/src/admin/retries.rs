//! Which messages operators have put back, after they had failed.

use std::collections::{HashMap, HashSet};

use menagerie_journal::{Journal, MessageId, PartitionId, Read, Ticks};
use menagerie_znodes::queues::QueueName;

use super::browse::CLOCKS_DIFFER;
use crate::error::QueueError;
use crate::message_uuid::MessageUuid;
use crate::story::{self, Act, ActKind, reader};

/// Acts of one read.
const BATCH: u32 = 4096;

/// Which of some messages operators have put back.
#[derive(Debug, Clone, Default)]
pub struct Retries {
    /// When each of them was put back last, by partition and id: its new position is about that.
    pub last: HashMap<(u16, MessageUuid), MessageId>,
    /// Whether all acts since then were read; not if there are too many, or some are damaged or dropped.
    pub is_complete: bool,
}

impl Retries {
    /// Reads what operators did since this time, also if the journal's clock was set back meanwhile; from the newest back,
    /// in at most this many reads.
    pub async fn read(
        store: &dyn Journal,
        queue: &QueueName,
        ids: &HashSet<MessageUuid>,
        since: Ticks,
        reads_max: usize,
    ) -> Result<Self, QueueError> {
        let mut retries = Self::default();
        let acts = PartitionId::new(story::topic(queue)?, story::ACTS);
        let mut read = Read::from(acts, MessageId(since.minus(CLOCKS_DIFFER))).limit(BATCH).descending();
        let mut has_gaps = false;
        for _ in 0..reads_max {
            let stretch = reader::read(store, read.clone()).await?;
            has_gaps |=
                stretch.is_damaged || stretch.trimmed.is_some_and(|trimmed| trimmed >= MessageId(since));
            let Some(end) = stretch.messages.last() else {
                retries.is_complete = !has_gaps;
                return Ok(retries);
            };
            read.before = end.id;
            for message in &stretch.messages {
                // A newer version may write others.
                let Ok(act) = serde_json::from_slice::<Act>(&message.body) else { continue };
                if act.act == ActKind::Retried && ids.contains(&act.id) {
                    retries.last.entry((act.partition.number(), act.id)).or_insert(message.id);
                }
            }
        }
        // The last of them may have been the very first.
        let rest = reader::read(store, read.limit(1)).await?;
        retries.is_complete = rest.messages.is_empty() && !rest.is_damaged && !has_gaps;
        Ok(retries)
    }
}
