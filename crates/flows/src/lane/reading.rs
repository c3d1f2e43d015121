//! A lane's partitions of the links into its task.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use menagerie_journal::{Batch, Journal, JournalError, Message, MessageId, Move, Opened, PartitionId, Read};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::{Lane, LaneError};
use crate::links::partition;

/// How long a read waits for the first message.
const LONG_POLL: Duration = Duration::from_secs(30);
/// Bytes of a read, shared among the links out of the task: a commit has a copy for each of them.
const READ_BYTES: u32 = 1 << 20;
/// Batches that are read ahead of each partition, besides the one that is being read.
const AHEAD_MAX: usize = 1;
/// Between two trims of a partition: each is a group of its own for the journal.
const TRIM_EVERY: Duration = Duration::from_secs(1);

/// The partitions that a lane reads.
pub struct Reading {
    parts: Vec<Part>,
    /// The partition whose turn is next, so that a busy one does not starve the others.
    turn: usize,
    /// A loop for each partition. Dropped, they end.
    _readers: JoinSet<()>,
}

struct Part {
    /// The task that writes it.
    from: u32,
    partition: PartitionId,
    /// What its reader has read.
    ahead: mpsc::Receiver<Result<Batch, JournalError>>,
    /// The last message that was taken.
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
        let (mut parts, mut readers, mut first) = (Vec::new(), JoinSet::new(), None);
        let bytes_max = READ_BYTES / lane.task.after.len().max(1) as u32;
        for from in &lane.task.record.before {
            let partition = partition(&lane.task.topics.link(*from, lane.task.number), lane.partition);
            let opened = lane.open(&partition).await?;
            let (read, sent, trimmed) = (opened.position, opened.position, opened.position);
            let (batches, ahead) = mpsc::channel(AHEAD_MAX);
            let next = Read { bytes_max, ..Read::after(partition.clone(), read).wait(LONG_POLL) };
            readers.spawn(read_ahead(lane.task.journal.clone(), next, batches));
            let trimmed_at = Instant::now();
            parts.push(Part { from: *from, partition, ahead, read, sent, trimmed, trimmed_at });
            first.get_or_insert(opened);
        }
        let first = first.ok_or_else(|| JournalError::Invalid("the task has no links into it".to_owned()))?;
        Ok((Self { parts, turn: 0, _readers: readers }, first))
    }

    /// The first partition, whose consumer also has the lane's records.
    pub fn first(&self) -> &PartitionId {
        &self.parts[0].partition
    }

    /// The next messages of one of the partitions; waits for them. `None` when everything is read, and nothing follows.
    /// Cancel safe.
    pub async fn next(&mut self, lane: &Lane) -> Result<Option<Vec<Message>>, LaneError> {
        let mut ends = lane.task.ends.clone();
        loop {
            let known = ends.borrow_and_update().clone();
            let end = |part: &Part| known.get(&part.from)?.get(lane.partition as usize - 1).copied();
            if self.parts.iter().all(|part| end(part).is_some_and(|end| part.read.0.0 >= end)) {
                return Ok(None);
            }
            let (index, batch) = tokio::select! {
                received = self.receive() => received,
                changed = ends.changed() => match changed {
                    Ok(()) => continue,
                    // The peer's session is over, and it drops us.
                    Err(_) => std::future::pending().await,
                },
            };
            let part = &mut self.parts[index];
            let Some(batch) = batch else {
                return Err(LaneError::Failed(format!("the reader of {} has ended", part.partition)));
            };
            let batch = batch?;
            if let Some(gap) = batch.gap.filter(|gap| *gap > part.read) {
                return Err(after_gap(lane, part, gap).await);
            }
            let Some(last) = batch.messages.last() else { continue };
            part.read = last.id;
            return Ok(Some(batch.messages));
        }
    }

    /// What one of the readers has read, with the index of its partition; `None` if a reader has ended.
    async fn receive(&mut self) -> (usize, Option<Result<Batch, JournalError>>) {
        let (count, turn) = (self.parts.len(), self.turn);
        let (index, batch) = poll_fn(|context| {
            for index in (0..count).map(|step| (turn + step) % count) {
                if let Poll::Ready(batch) = self.parts[index].ahead.poll_recv(context) {
                    return Poll::Ready((index, batch));
                }
            }
            Poll::Pending
        })
        .await;
        self.turn = (index + 1) % count;
        (index, batch)
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

/// Reads a partition ahead of its lane, until an error or the lane's end. A loop of its own: a read that were started anew for
/// each batch of another partition would leave a long poll behind at the journal every time.
async fn read_ahead(
    journal: Arc<dyn Journal>,
    mut next: Read,
    batches: mpsc::Sender<Result<Batch, JournalError>>,
) {
    loop {
        let batch = journal.read(next.clone()).await;
        let is_error = batch.is_err();
        if let Ok(batch) = &batch {
            match batch.messages.last() {
                Some(last) => next.after = last.id,
                None if batch.gap.is_none() => continue,
                None => {}
            }
        }
        if batches.send(batch).await.is_err() || is_error {
            return;
        }
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
