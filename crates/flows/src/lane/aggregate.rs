//! Lanes of aggregators: a count for each key. What a commit changes of it goes to a topic of its own, so that whoever has
//! the partition next can go on. When the inputs are drained, the counts go out in the order of their keys.

use std::time::Duration;

use hashbrown::HashMap;
use menagerie_journal::{Append, Commit, Message, MessageId, NewMessage, PartitionId, Read, Ticks};
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, timeout_at};

use super::commits::Commits;
use super::reading::Reading;
use super::writing::Writing;
use super::{Lane, LaneError, stored_mark};
use crate::links::partition;
use crate::segments::{Packed, Packer};

/// Between two commits: a commit has the counts of all keys that have changed.
const COMMIT_EVERY: Duration = Duration::from_millis(200);
/// Bytes of input, or of changed counts, after which it commits earlier.
const COMMIT_BYTES: usize = 4 << 20;
/// Bytes of output in one commit.
const FLUSH_BYTES: usize = 2 << 20;
/// The record's key.
const MARK: &[u8] = b"flushed";

/// How far the counts went out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Flushed {
    /// Keys, in their order.
    keys: usize,
    /// Whether these are all.
    is_done: bool,
}

#[derive(Default)]
struct Counts {
    by_key: HashMap<Box<[u8]>, Count>,
    /// Keys that have changed since the last commit.
    changed: Vec<Box<[u8]>>,
    changed_bytes: usize,
}

#[derive(Default)]
struct Count {
    value: u64,
    is_changed: bool,
}

pub async fn run(lane: &Lane) -> Result<(), LaneError> {
    let stored = partition(&lane.task.topics.state(lane.task.number), lane.partition);
    let opened = lane.open(&stored).await?;
    let flushed: Flushed = stored_mark(&opened, MARK)?;
    let (mut reading, _) = Reading::open(lane).await?;
    if flushed.is_done {
        return Ok(());
    }
    let mut counts = load(lane, &stored).await?;
    count(lane, &stored, &mut reading, &mut counts).await?;
    flush(lane, &stored, opened.position, flushed, &counts).await
}

/// The counts as they were committed.
async fn load(lane: &Lane, stored: &PartitionId) -> Result<Counts, LaneError> {
    let (mut counts, mut after) = (Counts::default(), MessageId::ZERO);
    loop {
        let batch = lane.task.journal.read(Read::after(stored.clone(), after)).await?;
        let Some(last) = batch.messages.last() else { return Ok(counts) };
        after = last.id;
        for message in &batch.messages {
            for changed in Packed::new(&message.body)? {
                let (key, value) = changed?;
                let value = std::str::from_utf8(value).ok().and_then(|value| value.parse().ok());
                let value =
                    value.ok_or_else(|| LaneError::Failed("a stored count is no number".to_owned()))?;
                counts.by_key.entry_ref(key).or_default().value = value;
            }
        }
    }
}

/// Counts until the inputs are drained, and all of that is committed.
async fn count(
    lane: &Lane,
    stored: &PartitionId,
    reading: &mut Reading,
    counts: &mut Counts,
) -> Result<(), LaneError> {
    let mut commits = Commits::new(lane.task.journal.clone());
    loop {
        // The first messages of a commit, and when it is due.
        let Some(first) = reading.next(lane).await? else { return commits.settle().await };
        let due = Instant::now() + COMMIT_EVERY;
        let mut bytes = counts.add(&first)?;
        while bytes.max(counts.changed_bytes) < COMMIT_BYTES {
            match timeout_at(due, reading.next(lane)).await {
                Ok(Ok(Some(more))) => bytes += counts.add(&more)?,
                Ok(Err(error)) => return Err(error),
                Ok(Ok(None)) | Err(_) => break,
            }
        }
        let appends = counts
            .take_changed()
            .map(|body| Append { partition: stored.clone(), message: NewMessage::new(body) });
        let (appends, moves) = (appends.collect(), reading.moves(lane));
        commits.send(Commit { appends, moves, ..Commit::default() }).await?;
        reading.trim(lane, commits.reached()).await?;
    }
}

impl Counts {
    /// Adds what was read. Returns its bytes.
    fn add(&mut self, messages: &[Message]) -> Result<usize, LaneError> {
        let mut bytes = 0;
        for message in messages {
            bytes += message.body.len();
            for segment in Packed::new(&message.body)? {
                let (key, _) = segment?;
                let count = self.by_key.entry_ref(key).or_default();
                count.value += 1;
                if !std::mem::replace(&mut count.is_changed, true) {
                    self.changed.push(key.into());
                    self.changed_bytes += key.len() + 24;
                }
            }
        }
        Ok(bytes)
    }

    /// What has changed, packed: several messages if it is much.
    fn take_changed(&mut self) -> impl Iterator<Item = bytes::Bytes> + use<> {
        let (mut packer, mut packed) = (Packer::default(), Vec::new());
        for key in self.changed.drain(..) {
            if let Some(count) = self.by_key.get_mut(&key) {
                count.is_changed = false;
                packer.push(&key, count.value.to_string().as_bytes());
            }
            if packer.bytes() >= FLUSH_BYTES {
                packed.extend(packer.take());
            }
        }
        self.changed_bytes = 0;
        packed.extend(packer.take());
        packed.into_iter()
    }
}

/// Sends the counts out, from where an earlier owner has stopped. The position of the state's own consumer counts the
/// commits, so that each happens once.
async fn flush(
    lane: &Lane,
    stored: &PartitionId,
    mut position: MessageId,
    flushed: Flushed,
    counts: &Counts,
) -> Result<(), LaneError> {
    let mut ordered: Vec<(&[u8], u64)> =
        counts.by_key.iter().map(|(key, count)| (&**key, count.value)).collect();
    ordered.sort_unstable();
    let mut writing = Writing::new(lane);
    let mut commits = Commits::new(lane.task.journal.clone());
    let mut text = Vec::new();
    let mut keys = flushed.keys;
    loop {
        while keys < ordered.len() && writing.ready_bytes() < FLUSH_BYTES {
            let (key, value) = ordered[keys];
            text.clear();
            text.extend_from_slice(b"{\"key\":");
            text.extend_from_slice(key);
            text.extend_from_slice(b",\"value\":");
            text.extend_from_slice(value.to_string().as_bytes());
            text.push(b'}');
            writing.push(&text);
            keys += 1;
        }
        let mark = Flushed { keys, is_done: keys >= ordered.len() };
        let next = MessageId(Ticks(position.0.0 + 1));
        let value = serde_json::to_vec(&mark).expect("it is a number and a flag");
        let commit = Commit {
            appends: writing.take_all(),
            moves: vec![lane.moved(stored, position, next)],
            states: vec![lane.state(stored, MARK, value)],
            ..Commit::default()
        };
        position = next;
        commits.send(commit).await?;
        if mark.is_done {
            return commits.settle().await;
        }
        writing.wait_for_readers(lane).await?;
    }
}
