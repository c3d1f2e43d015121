//! A lane's partitions of the links into its task.

use std::time::{Duration, Instant};

use futures_util::future::select_all;
use menagerie_journal::{JournalError, Message, MessageId, Move, Opened, PartitionId, Read};

use super::{Lane, LaneError};
use crate::links::partition;

/// How long a read waits for the first message.
const LONG_POLL: Duration = Duration::from_secs(30);
/// Bytes of a read, shared among the links out of the task: a commit has a copy for each of them.
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
    /// The last message that was read.
    read: MessageId,
    /// The last message in a commit that was sent.
    sent: MessageId,
    /// The last message that was trimmed.
    trimmed: MessageId,
    trimmed_at: Instant,
}

impl Reading {
    /// Opens the partitions; also returns what was stored with the first.
    pub async fn open(lane: &Lane) -> Result<(Self, Opened), JournalError> {
        let (mut parts, mut first) = (Vec::new(), None);
        for from in &lane.task.record.before {
            let partition = partition(&lane.task.topics.link(*from, lane.task.number), lane.partition);
            let opened = lane.open(&partition).await?;
            let (read, sent, trimmed) = (opened.position, opened.position, opened.position);
            parts.push(Part { from: *from, partition, read, sent, trimmed, trimmed_at: Instant::now() });
            first.get_or_insert(opened);
        }
        let first = first.ok_or_else(|| JournalError::Invalid("the task has no links into it".to_owned()))?;
        Ok((Self { parts }, first))
    }

    /// The first partition, whose consumer also has the lane's records.
    pub fn first(&self) -> &PartitionId {
        &self.parts[0].partition
    }

    /// The next messages of one of the partitions; waits for them. `None` when everything is read, and nothing follows.
    /// Cancel safe.
    pub async fn next(&mut self, lane: &Lane) -> Result<Option<Vec<Message>>, LaneError> {
        let mut ends = lane.task.ends.clone();
        let bytes_max = READ_BYTES / lane.task.after.len().max(1) as u32;
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
                lane.task.journal.read(Read { bytes_max, ..read })
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
                return Err(after_gap(lane, part, gap).await);
            }
            let Some(last) = batch.messages.last() else { continue };
            part.read = last.id;
            return Ok(Some(batch.messages));
        }
    }

    /// The steps of the next commit: from where the commit before it ends to what was read. Partitions that have not moved
    /// are named as well, so that no commit happens without those before it, whichever partitions they were about.
    pub fn moves(&mut self, lane: &Lane) -> Vec<Move> {
        let step = |part: &mut Part| {
            let from = std::mem::replace(&mut part.sent, part.read);
            lane.moved(&part.partition, from, part.read)
        };
        self.parts.iter_mut().map(step).collect()
    }

    /// Drops what is committed, now and then.
    pub async fn trim(
        &mut self,
        lane: &Lane,
        reached: Vec<(PartitionId, MessageId)>,
    ) -> Result<(), JournalError> {
        for (partition, position) in reached {
            let part = self.parts.iter_mut().find(|part| part.partition == partition);
            let is_due =
                |part: &&mut Part| part.trimmed < position && part.trimmed_at.elapsed() >= TRIM_EVERY;
            if let Some(part) = part.filter(is_due) {
                (part.trimmed, part.trimmed_at) = (position, Instant::now());
                lane.task.journal.trim(&partition, position).await?;
            }
        }
        Ok(())
    }
}

/// Why messages are missing: the next owner has committed and trimmed them, or they are lost. Opening tells: it is refused
/// once somebody else has the partition.
async fn after_gap(lane: &Lane, part: &Part, gap: MessageId) -> LaneError {
    match lane.open(&part.partition).await {
        Err(error) => error.into(),
        Ok(_) => {
            let why =
                format!("messages of {} up to {gap} were dropped before they were read", part.partition);
            LaneError::Failed(why)
        }
    }
}
