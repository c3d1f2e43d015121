//! A lane's partitions of the links into its task.

use std::time::{Duration, Instant};

use futures_util::future::select_all;
use menagerie_journal::{JournalError, Message, MessageId, Opened, PartitionId, Read};

use super::{Lane, LaneError};
use crate::links::partition;

/// How long a read waits for the first message.
const LONG_POLL: Duration = Duration::from_secs(30);
/// Bytes of a read. It bounds what one commit has.
const READ_BYTES: u32 = 1 << 20;
/// Between two trims of a partition: each is a group of its own for the journal.
const TRIM_EVERY: Duration = Duration::from_secs(1);

/// The partitions that a lane reads.
pub struct Reading {
    parts: Vec<Part>,
}

struct Part {
    /// The task that writes it.
    from: u32,
    partition: PartitionId,
    /// The last message that was read, and perhaps not committed yet.
    read: MessageId,
    trimmed_at: Instant,
}

/// Messages of one partition.
pub struct Messages {
    /// The partition.
    pub partition: PartitionId,
    /// The position before them.
    pub from: MessageId,
    /// The last of them.
    pub through: MessageId,
    /// At least one.
    pub messages: Vec<Message>,
}

impl Reading {
    /// Opens the partitions; also returns what was stored with the first.
    pub async fn open(lane: &Lane) -> Result<(Self, Opened), JournalError> {
        let (mut parts, mut first) = (Vec::new(), None);
        for from in &lane.task.record.before {
            let partition = partition(&lane.task.topics.link(*from, lane.task.number), lane.partition);
            let opened = lane.open(&partition).await?;
            parts.push(Part { from: *from, partition, read: opened.position, trimmed_at: Instant::now() });
            first.get_or_insert(opened);
        }
        let first = first.ok_or_else(|| JournalError::Invalid("the task has no links into it".to_owned()))?;
        Ok((Self { parts }, first))
    }

    /// The first partition, whose consumer also has the lane's records.
    pub fn first(&self) -> &PartitionId {
        &self.parts[0].partition
    }

    /// The next messages; waits for them. `None` when everything is read, and nothing follows. Cancel safe.
    pub async fn next(&mut self, lane: &Lane) -> Result<Option<Messages>, LaneError> {
        let mut ends = lane.task.ends.clone();
        loop {
            let known = ends.borrow_and_update().clone();
            let end = |part: &Part| known.get(&part.from)?.get(lane.partition as usize - 1).copied();
            let is_open = |part: &Part| end(part).is_none_or(|end| part.read.0.0 < end);
            let open: Vec<usize> =
                (0..self.parts.len()).filter(|index| is_open(&self.parts[*index])).collect();
            if open.is_empty() {
                return Ok(None);
            }
            let reads = open.iter().map(|index| {
                let part = &self.parts[*index];
                let read = Read::after(part.partition.clone(), part.read).wait(LONG_POLL);
                lane.task.journal.read(Read { bytes_max: READ_BYTES, ..read })
            });
            let (batch, place, _) = tokio::select! {
                done = select_all(reads) => done,
                changed = ends.changed() => match changed {
                    Ok(()) => continue,
                    // The peer's session is over, and it drops us.
                    Err(_) => std::future::pending().await,
                },
            };
            let batch = batch?;
            let part = &mut self.parts[open[place]];
            if let Some(gap) = batch.gap.filter(|gap| *gap > part.read) {
                let why =
                    format!("messages of {} up to {gap} were dropped before they were read", part.partition);
                return Err(LaneError::Failed(why));
            }
            let Some(last) = batch.messages.last() else { continue };
            let from = std::mem::replace(&mut part.read, last.id);
            return Ok(Some(Messages {
                partition: part.partition.clone(),
                from,
                through: part.read,
                messages: batch.messages,
            }));
        }
    }

    /// Drops what is committed, now and then.
    pub async fn trim(
        &mut self,
        lane: &Lane,
        reached: Vec<(PartitionId, MessageId)>,
    ) -> Result<(), JournalError> {
        for (partition, position) in reached {
            let part = self.parts.iter_mut().find(|part| part.partition == partition);
            if let Some(part) = part.filter(|part| part.trimmed_at.elapsed() >= TRIM_EVERY) {
                part.trimmed_at = Instant::now();
                lane.task.journal.trim(&partition, position).await?;
            }
        }
        Ok(())
    }
}
