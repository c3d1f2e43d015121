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
use crate::core::plan::{Bits, Plan, Range};
use crate::core::state::Spot;
use crate::error::JournalError;
use crate::id::{DelayedId, MessageId, Ticks};
use crate::read::{Order, Read};
use crate::stats::{ConsumerStats, PartitionStats};

/// A read is planned again so often when segments go under its hands.
pub(super) const ATTEMPTS_MAX: u32 = 3;

/// The answer to a read, as bytes: each part is one message or several in a row.
#[derive(Debug, Default)]
pub(crate) struct Encoded {
    pub(crate) parts: Vec<Bytes>,
    pub(crate) count: u64,
    pub(crate) bytes: u64,
    pub(crate) gap: Option<MessageId>,
    pub(crate) last: MessageId,
    /// Which ones they are, where delayed ones were asked for.
    pub(crate) delayed: Option<Vec<DelayedId>>,
}

/// Room for what a read may find, of which there is only so much.
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

/// Reads, and waits for the first message if that is wanted. The room that it takes comes back with what was found; while it
/// waits it has none.
pub(crate) async fn read(
    shared: &Arc<Shared>,
    read: &Read,
    room: Option<Room<'_>>,
) -> Result<(Encoded, Option<OwnedSemaphorePermit>), JournalError> {
    if let Some(after) = read.delayed {
        return delayed::read(shared, read, after, room).await;
    }
    let spot = shared.read().spot(&read.partition)?;
    // A reader may wish to wait for longer than a clock can count.
    let deadline = Instant::now().checked_add(read.wait);
    loop {
        let waiter = (!read.wait.is_zero()).then(|| shared.waiter(spot));
        let mut notified = waiter.as_ref().map(|waiter| Box::pin(waiter.notified()));
        if let Some(notified) = &mut notified {
            // From here on nothing is missed.
            notified.as_mut().enable();
        }
        let taken = match room {
            Some(room) => Some(room.take().await?),
            None => None,
        };
        let found = once(shared, spot, read).await?;
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
            // Whether it was woken or not, it looks once more.
            Some(deadline) => drop(tokio::time::timeout_at(deadline.into(), notified).await),
            None => notified.await,
        }
    }
}

async fn once(shared: &Arc<Shared>, spot: Spot, read: &Read) -> Result<Encoded, JournalError> {
    let range = Range {
        after: read.after.0.0,
        before: read.before.0.0.saturating_add(u64::from(read.before == MessageId::MAX)),
        order: read.order,
        limit: u64::from(read.limit),
        bytes_max: u64::from(read.bytes_max.max(1)),
    };
    let now = shared.config.clock.now().0;
    let (plan, encoded) = plan(shared, spot, &range, &read.partition.topic)?;
    let mut picker = Picker::new(range, now);
    if is_at_hand(shared, spot, &plan) {
        collect(shared, spot, range, plan, &mut picker)?;
    } else {
        let shared = shared.clone();
        let blocking = tokio::task::spawn_blocking(move || {
            let collected = collect(&shared, spot, range, plan, &mut picker);
            collected.map(|()| picker)
        });
        picker = blocking.await.map_err(|_| JournalError::Closed)??;
    }
    let Picked { parts, count, bytes } = picker.picked;
    Ok(Encoded { parts, count, bytes, ..encoded })
}

fn plan(
    shared: &Shared,
    spot: Spot,
    range: &Range,
    topic: &crate::topic::Topic,
) -> Result<(Plan, Encoded), JournalError> {
    let state = shared.read();
    // Deleted while somebody waited.
    let partition = state.partition(spot).ok_or_else(|| JournalError::NoTopic { topic: topic.clone() })?;
    let gap = (range.after < partition.trimmed).then_some(MessageId(Ticks(partition.trimmed)));
    let encoded = Encoded { gap, last: MessageId(Ticks(partition.last)), ..Encoded::default() };
    Ok((partition.plan(range), encoded))
}

/// Whether nothing has to be waited for.
fn is_at_hand(shared: &Shared, (topic, _): Spot, plan: &Plan) -> bool {
    if plan.is_in_memory() && plan.rest.is_none() {
        return true;
    }
    // One block, as readers want that take a few messages at a time.
    plan.edits.is_empty()
        && plan.blocks.len() == 1
        && matches!(&plan.blocks[0], (Bits::Disk(location), _) if shared.files.has(topic, *location))
}

/// Reads what is planned, and goes on until there is enough.
fn collect(
    shared: &Shared,
    spot: Spot,
    mut range: Range,
    mut plan: Plan,
    picker: &mut Picker,
) -> Result<(), JournalError> {
    let limit = range.limit;
    let mut attempts = 0;
    loop {
        match take(shared, spot, &plan, picker) {
            Ok(()) => {}
            // Retention has dropped the segment since: what is left is planned again. Whoever has some messages already
            // asks for more by himself.
            Err(error) if error.is_missing_file() && attempts < ATTEMPTS_MAX => {
                if picker.picked.count > 0 {
                    return Ok(());
                }
                attempts += 1;
                plan = replan(shared, spot, &range);
                continue;
            }
            Err(error) => return Err(error.into()),
        }
        let Some(rest) = plan.rest.filter(|_| !picker.is_full()) else { return Ok(()) };
        match range.order {
            Order::Ascending => range.after = rest,
            Order::Descending => range.before = rest,
        }
        range.limit = limit - picker.picked.count.min(limit);
        plan = replan(shared, spot, &range);
    }
}

fn replan(shared: &Shared, spot: Spot, range: &Range) -> Plan {
    shared.read().partition(spot).map(|partition| partition.plan(range)).unwrap_or_default()
}

fn take(shared: &Shared, spot: Spot, plan: &Plan, picker: &mut Picker) -> Result<(), StoreError> {
    if plan.edits.is_empty() {
        for (bits, removed) in &plan.blocks {
            if picker.is_full() {
                break;
            }
            picker.pick(&load(shared, spot, bits)?, removed.as_deref());
        }
        return Ok(());
    }
    let mut singles = Vec::new();
    for (bits, removed) in &plan.blocks {
        singles.extend(picker.singles(&load(shared, spot, bits)?, removed.as_deref()));
    }
    for (id, bits) in &plan.edits {
        let bytes = load(shared, spot, bits)?;
        if let Some((_, head)) = block::find(&bytes, *id) {
            singles.extend(picker.singles(&bytes.slice(head.offset..head.offset + head.len), None));
        }
    }
    picker.pick_merged(singles, plan.rest);
    Ok(())
}

pub(super) fn load(shared: &Shared, (topic, _): Spot, bits: &Bits) -> Result<Bytes, StoreError> {
    match bits {
        Bits::Memory(bytes) => Ok(bytes.clone()),
        Bits::Disk(location) => shared.files.load(topic, *location),
    }
}

/// Each partition of a topic. Reads a block for each consumer that stands within one.
pub(crate) fn stats(
    shared: &Shared,
    topic: &crate::topic::Topic,
) -> Result<Vec<PartitionStats>, JournalError> {
    let (number, count) = {
        let state = shared.read();
        let (number, topic) = state.topic(topic)?;
        (number, topic.config.partitions)
    };
    (1..=count).map(|partition| partition_stats(shared, (number, partition), topic)).collect()
}

fn partition_stats(
    shared: &Shared,
    spot: Spot,
    topic: &crate::topic::Topic,
) -> Result<PartitionStats, JournalError> {
    let id = |ticks| MessageId(Ticks(ticks));
    let (mut stats, lags) = {
        let state = shared.read();
        let partition =
            state.partition(spot).ok_or_else(|| JournalError::NoTopic { topic: topic.clone() })?;
        let stats = PartitionStats {
            partition: spot.1,
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
    for (consumer, fence, position, (mut lag, bits, removed)) in lags {
        if let Some(bits) = bits {
            let bytes = load(shared, spot, &bits)?;
            let gone = |index| removed.as_ref().is_some_and(|removed| removed.has(index));
            let heads = message::heads(&bytes).zip(0..);
            lag += heads.filter(|(head, index)| head.id > position && !gone(*index)).count() as u64;
        }
        stats.consumers.push(ConsumerStats { consumer, fence, position: id(position), lag });
    }
    Ok(stats)
}
