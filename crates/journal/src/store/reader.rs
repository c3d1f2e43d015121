//! Reading: plan under the lock, read from disk without it.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::delayed;
use super::error::StoreError;
use super::shared::Shared;
use crate::core::block;
use crate::core::message;
use crate::core::pick::{Picked, Picker};
use crate::core::plan::{Lag, Piece, Plan, Range, StoredBytes, Within};
use crate::core::state::PartitionKey;
use crate::error::JournalError;
use crate::id::{DelayedId, MessageId, Ticks};
use crate::read::{Order, Read};
use crate::stats::{ConsumerStats, PartitionStats};

/// How often a read is planned again when segments are removed meanwhile.
pub(super) const ATTEMPTS_MAX: u32 = 3;

/// The encoded result of a read: each part is one or several consecutive messages.
#[derive(Debug, Default)]
pub(crate) struct Encoded {
    pub(crate) parts: Vec<Bytes>,
    pub(crate) count: u64,
    pub(crate) bytes: u64,
    pub(crate) gap: Option<MessageId>,
    pub(crate) last: MessageId,
    /// Their ids, for a read of delayed messages.
    pub(crate) delayed: Option<Vec<DelayedId>>,
}

/// A share of the bounded memory for results of reads.
#[derive(Clone, Copy)]
pub(crate) struct Room<'a> {
    pub(crate) all: &'a Arc<Semaphore>,
    pub(crate) bytes: u32,
}

impl Room<'_> {
    pub(super) async fn take(self) -> Result<OwnedSemaphorePermit, JournalError> {
        self.all.clone().acquire_many_owned(self.bytes).await.map_err(|_| JournalError::Closed)
    }
}

/// Reads, and waits for the first message if requested. Returns the messages together with the room that they take;
/// while it waits it holds no room.
pub(crate) async fn read(
    shared: &Arc<Shared>,
    read: &Read,
    room: Option<Room<'_>>,
) -> Result<(Encoded, Option<OwnedSemaphorePermit>), JournalError> {
    if let Some(after) = read.delayed {
        return delayed::read(shared, read, after, room).await;
    }
    let partition_key = shared.read().partition_key(&read.partition)?;
    // The wait may be longer than a clock can represent.
    let deadline = Instant::now().checked_add(read.wait);
    loop {
        let waiter = (!read.wait.is_zero()).then(|| shared.waiter(partition_key));
        let mut notified = waiter.as_ref().map(|waiter| Box::pin(waiter.notified()));
        if let Some(notified) = &mut notified {
            // From here on nothing is missed.
            notified.as_mut().enable();
        }
        let taken = match room {
            Some(room) => Some(room.take().await?),
            None => None,
        };
        let found = once(shared, partition_key, read).await?;
        let over = deadline.is_some_and(|deadline| Instant::now() >= deadline);
        let Some(notified) = notified.filter(|_| found.count == 0 && !over && read.limit > 0) else {
            shared.metrics.reads.inc();
            shared.metrics.read_messages.inc_by(found.count);
            return Ok((found, taken));
        };
        drop(taken);
        if shared.queue().closed {
            return Err(JournalError::Closed);
        }
        match deadline {
            // Woken or not, read once more.
            Some(deadline) => drop(tokio::time::timeout_at(deadline.into(), notified).await),
            None => notified.await,
        }
    }
}

async fn once(
    shared: &Arc<Shared>,
    partition_key: PartitionKey,
    read: &Read,
) -> Result<Encoded, JournalError> {
    let range = Range {
        after: read.after.0.0,
        before: read.before.0.0.saturating_add(u64::from(read.before == MessageId::MAX)),
        order: read.order,
        expired: read.expired,
        limit: u64::from(read.limit),
        bytes_max: u64::from(read.bytes_max.max(1)),
    };
    let now = shared.config.clock.now().0;
    // The topic was deleted while the reader waited.
    let gone = || JournalError::NoTopic { topic: read.partition.topic.clone() };
    let part = plan(shared, partition_key, &range).ok_or_else(gone)?;
    let last = part.last;
    let mut picker = Picker::new(range, now);
    let gap = if is_at_hand(shared, partition_key, &part.plan) {
        collect(shared, partition_key, range, part, &mut picker)?
    } else {
        let shared = shared.clone();
        let blocking = tokio::task::spawn_blocking(move || {
            let collected = collect(&shared, partition_key, range, part, &mut picker);
            collected.map(|gap| (picker, gap))
        });
        let collected = blocking.await.map_err(|_| JournalError::Closed)??;
        picker = collected.0;
        collected.1
    };
    let Picked { parts, count, bytes } = picker.picked;
    Ok(Encoded { parts, count, bytes, gap, last, delayed: None })
}

/// The plan for the next part, and the partition's current limits.
struct Part {
    plan: Plan,
    /// Part of the range is gone: all up to this id.
    gap: Option<MessageId>,
    last: MessageId,
}

/// Plans the next part of a range; `None` if the partition is gone.
fn plan(shared: &Shared, partition_key: PartitionKey, range: &Range) -> Option<Part> {
    let state = shared.read();
    let partition = state.partition(partition_key)?;
    let gap = (range.after < partition.trimmed).then_some(MessageId(Ticks(partition.trimmed)));
    Some(Part { plan: partition.plan(range), gap, last: MessageId(Ticks(partition.last)) })
}

/// Whether the read needs no disk access.
fn is_at_hand(shared: &Shared, PartitionKey { topic, .. }: PartitionKey, plan: &Plan) -> bool {
    if plan.is_in_memory() && plan.rest.is_none() {
        return true;
    }
    // One cached block, as for readers that take a few messages at a time.
    plan.edits.is_empty()
        && plan.blocks.len() == 1
        && matches!(&plan.blocks[0].stored, StoredBytes::Disk(location) if shared.files.has(topic, *location))
}

/// Reads the planned part, and continues until there is enough. If an error comes after some messages, it returns
/// those; the next read reports the error. Returns the gap.
fn collect(
    shared: &Shared,
    partition_key: PartitionKey,
    mut range: Range,
    Part { mut plan, mut gap, .. }: Part,
    picker: &mut Picker,
) -> Result<Option<MessageId>, JournalError> {
    let limit = range.limit;
    let mut attempts = 0;
    loop {
        match take(shared, partition_key, &plan, range.order, picker) {
            Ok(()) => {
                let Some(rest) = plan.rest.filter(|_| !picker.is_full()) else { return Ok(gap) };
                match range.order {
                    Order::Ascending => range.after = rest,
                    Order::Descending => range.before = rest,
                }
                range.limit = limit - picker.picked.count.min(limit);
            }
            Err(_) if picker.picked.count > 0 => return Ok(gap),
            // Retention has dropped the segment since: plan again.
            Err(unread) if unread.error.is_missing_file() && attempts < ATTEMPTS_MAX => attempts += 1,
            Err(unread) => return Err(unread.into()),
        }
        let Some(part) = self::plan(shared, partition_key, &range) else { return Ok(gap) };
        if part.gap > gap {
            // Retention has dropped messages since. A batch must not have a hole.
            if picker.picked.count > 0 && range.order == Order::Ascending {
                return Ok(gap);
            }
            gap = part.gap;
        }
        plan = part.plan;
    }
}

/// Messages `first` to `last` could not be read.
struct Unread {
    error: StoreError,
    first: u64,
    last: u64,
}

impl Unread {
    /// Where a read that stops before it ends.
    fn rest(&self, order: Order) -> u64 {
        match order {
            Order::Ascending => self.first.saturating_sub(1),
            Order::Descending => self.last.saturating_add(1),
        }
    }
}

impl From<Unread> for JournalError {
    /// Names the ids, so that the reader can continue after them.
    fn from(Unread { error, first, last }: Unread) -> Self {
        let (first, last) = (MessageId(Ticks(first)), MessageId(Ticks(last)));
        match Self::from(error) {
            Self::Damaged(what) => {
                Self::Damaged(format!("{what}; messages {first} to {last} cannot be read"))
            }
            other => other,
        }
    }
}

fn take(
    shared: &Shared,
    partition_key: PartitionKey,
    plan: &Plan,
    order: Order,
    picker: &mut Picker,
) -> Result<(), Unread> {
    let unread = |first, last| move |error| Unread { error, first, last };
    let block =
        |piece: &Piece| load(shared, partition_key, &piece.stored).map_err(unread(piece.first, piece.last));
    if plan.edits.is_empty() {
        for piece in &plan.blocks {
            if picker.is_full() {
                break;
            }
            picker.pick(&block(piece)?, piece.removed.as_deref());
        }
        return Ok(());
    }
    let (mut singles, mut rest, mut failed) = (Vec::new(), plan.rest, None);
    for piece in &plan.blocks {
        match block(piece) {
            Ok(bytes) => singles.extend(picker.singles(&bytes, piece.removed.as_deref())),
            Err(unread) => {
                rest = Some(unread.rest(order));
                failed = Some(unread);
                break;
            }
        }
    }
    for (id, stored) in &plan.edits {
        if picker.is_behind(*id, rest) {
            break;
        }
        match load(shared, partition_key, stored).map_err(unread(*id, *id)) {
            Ok(bytes) => {
                if let Some((_, head)) = block::find(&bytes, *id) {
                    singles.extend(picker.singles(&bytes.slice(head.offset..head.offset + head.len), None));
                }
            }
            Err(unread) => {
                rest = Some(unread.rest(order));
                failed = Some(unread);
                break;
            }
        }
    }
    picker.pick_merged(singles, rest);
    failed.map_or(Ok(()), Err)
}

pub(super) fn load(
    shared: &Shared,
    PartitionKey { topic, .. }: PartitionKey,
    stored: &StoredBytes,
) -> Result<Bytes, StoreError> {
    match stored {
        StoredBytes::Memory(bytes) => Ok(bytes.clone()),
        StoredBytes::Disk(location) => shared.files.load(topic, *location),
    }
}

/// Statistics of each partition of a topic. Reads a block for each consumer whose position is within one.
pub(crate) fn stats(
    shared: &Shared,
    topic: &crate::topic::Topic,
) -> Result<Vec<PartitionStats>, JournalError> {
    let (number, count) = {
        let state = shared.read();
        let (number, topic) = state.topic(topic)?;
        (number, topic.config.partitions)
    };
    (1..=count)
        .map(|partition| partition_stats(shared, PartitionKey::new(number, partition), topic))
        .collect()
}

fn partition_stats(
    shared: &Shared,
    partition_key: PartitionKey,
    topic: &crate::topic::Topic,
) -> Result<PartitionStats, JournalError> {
    let id = |ticks| MessageId(Ticks(ticks));
    let (mut stats, lags) = {
        let state = shared.read();
        let partition =
            state.partition(partition_key).ok_or_else(|| JournalError::NoTopic { topic: topic.clone() })?;
        let stats = PartitionStats {
            partition: partition_key.partition,
            messages: partition.messages,
            bytes: partition.bytes,
            first: partition.first().map(id),
            last: id(partition.last),
            trimmed: id(partition.trimmed),
            delayed: partition.delayed,
            consumers: Vec::new(),
        };
        let readers = partition.consumers.iter();
        let lags: Vec<_> = readers
            .map(|(name, reader)| {
                (name.clone(), reader.fence, reader.position, partition.lag(reader.position))
            })
            .collect();
        (stats, lags)
    };
    for (consumer, fence, position, Lag { certain, within }) in lags {
        let within = within.map_or(Ok(0), |within| count_after(shared, partition_key, position, &within))?;
        let lag = certain + within;
        stats.consumers.push(ConsumerStats { consumer, fence, position: id(position), lag });
    }
    Ok(stats)
}

/// Counts the messages of a block after a position; of a damaged one, all of them, so that whoever skips it can still be
/// told what there is.
fn count_after(
    shared: &Shared,
    partition_key: PartitionKey,
    position: u64,
    within: &Within,
) -> Result<u64, JournalError> {
    let bytes = match load(shared, partition_key, &within.stored).map_err(JournalError::from) {
        Err(JournalError::Damaged(_)) => return Ok(within.messages),
        bytes => bytes?,
    };
    let is_gone = |index| within.removed.as_ref().is_some_and(|removed| removed.has(index));
    let heads = message::heads(&bytes).zip(0..);
    Ok(heads.filter(|(head, index)| head.id > position && !is_gone(*index)).count() as u64)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use prometheus_client::registry::Registry;

    use super::*;
    use crate::commit::{Commit, NewMessage};
    use crate::journal::Journal as _;
    use crate::store::{Config, Metrics, Store};
    use crate::topic::{PartitionId, Topic, TopicConfig};

    /// A store with one message per block. Planning counts expired messages, so the read needs a second part.
    async fn store(
        folder: &std::path::Path,
        lives: &[Option<Duration>],
    ) -> (Store, PartitionId, Vec<MessageId>) {
        let config = Config { reserve_bytes: 0, ..Config::new(folder.to_owned()) };
        let store = Store::open(config, Metrics::new(&mut Registry::default())).unwrap();
        let partition = PartitionId::new(Topic::new("mail").unwrap(), 1);
        store.create_topic(&partition.topic, TopicConfig::default()).await.unwrap();
        let mut ids = Vec::new();
        for ttl in lives {
            let message = NewMessage { ttl: *ttl, ..NewMessage::new(vec![0; block::BLOCK_BYTES]) };
            let committed = store.commit(Commit::append(partition.clone(), message)).await.unwrap();
            ids.push(committed.appends[0].id().unwrap());
        }
        (store, partition, ids)
    }

    fn ids(picker: Picker) -> Vec<MessageId> {
        let mut messages = Vec::new();
        picker.picked.parts.into_iter().for_each(|part| message::decode_all(part, &mut messages).unwrap());
        messages.iter().map(|message| message.id).collect()
    }

    #[tokio::test]
    async fn a_gap_that_comes_while_a_read_goes_on_is_told_or_left_for_the_next_one() {
        let over = Some(Duration::ZERO);
        // The messages' times to live, how many are wanted, and up to which one they are trimmed before the second part
        // is read.
        let nothing_yet = ([over, None, None, None], 1, 1);
        let one_already = ([None, over, None, None], 2, 2);
        for (lives, limit, through) in [nothing_yet, one_already] {
            let folder = tempfile::tempdir().unwrap();
            let (store, partition, given) = store(folder.path(), &lives).await;
            let shared = &store.shared;
            let partition_key = shared.read().partition_key(&partition).unwrap();
            let order = Order::Ascending;
            let range =
                Range { after: 0, before: u64::MAX, order, expired: false, limit, bytes_max: 10 << 20 };
            let part = plan(shared, partition_key, &range).unwrap();
            assert!(part.plan.rest.is_some() && part.gap.is_none());
            store.trim(&partition, given[through]).await.unwrap();
            let mut picker = Picker::new(range, shared.config.clock.now().0);
            let gap = collect(shared, partition_key, range, part, &mut picker).unwrap();
            let expected = match limit {
                1 => (vec![given[2]], Some(given[1])),
                _ => (vec![given[0]], None),
            };
            assert_eq!((ids(picker), gap), expected);
        }
    }
}
