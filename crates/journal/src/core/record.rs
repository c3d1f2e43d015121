//! The log's records: one record is one commit, with everything that was decided about it.

use bytes::Bytes;

use super::message;
use super::state::PartitionKey;
use crate::Fence;
use crate::codec::{Malformed, Sink, Source};
use crate::read::Message;
use crate::topic::{Compression, Consumer, Group, Topic, TopicConfig};

/// Changes that happen together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Record {
    /// The wall clock.
    pub(crate) now: u64,
    /// The time that dedup windows count with ([`Steady`](super::clock::Steady)), if the record has dedup ids. Old
    /// versions used the wall clock, and wrote none.
    pub(crate) steady: Option<u64>,
    pub(crate) changes: Vec<Change>,
}

/// One change: the outcome of a decision, so that applying it decides nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Change {
    /// A topic is created or changed.
    Topic { number: u32, name: Topic, config: TopicConfig },
    /// A topic is removed.
    Delete { number: u32 },
    /// A message at the end of a partition.
    Append { partition_key: PartitionKey, message: Message, dedup: Bytes },
    /// A delayed message; its id is the one in the waiting room, its `expires` the ticks that it will live.
    Delay { partition_key: PartitionKey, due: u64, message: Message, dedup: Bytes },
    /// A delayed message becomes visible in its partition.
    Mature { due: u64, waiting: BlockSlot, partition_key: PartitionKey, message: Message },
    /// A delayed message is cancelled.
    Cancel { due: u64, waiting: BlockSlot, partition_key: PartitionKey },
    /// A consumer has a new fence.
    Open { partition_key: PartitionKey, consumer: Consumer, fence: Fence },
    /// A consumer's new position.
    Move { partition_key: PartitionKey, consumer: Consumer, position: u64 },
    /// A consumer's state record; no value removes it.
    State { partition_key: PartitionKey, consumer: Consumer, key: Bytes, value: Option<Bytes> },
    /// A message is stored under its id, and replaces the one in a block.
    Replace { partition_key: PartitionKey, message: Message, base: Option<BlockSlot> },
    /// A message is removed: from a block, or an edited one.
    Remove { partition_key: PartitionKey, id: u64, base: Option<BlockSlot> },
    /// All up to here is dropped; with or without a gap for readers.
    Trim { partition_key: PartitionKey, through: u64, gap: bool, cut: Option<(u32, u32)> },
}

/// A message's slot in a block: its id, its index in the block, and its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockSlot {
    pub(crate) id: u64,
    pub(crate) index: u32,
    pub(crate) bytes: u32,
}

const TOPIC: u8 = 1;
const DELETE: u8 = 2;
const APPEND: u8 = 3;
const DELAY: u8 = 4;
const MATURE: u8 = 5;
const OPEN: u8 = 6;
const MOVE: u8 = 7;
const STATE: u8 = 8;
const REPLACE: u8 = 9;
const REMOVE: u8 = 10;
const TRIM: u8 = 11;
const CANCEL: u8 = 12;
/// Not a change, but the time of the changes.
const STEADY: u8 = 13;

impl Record {
    /// A record with these changes. Includes `steady` if one of them needs it.
    pub(crate) fn new(now: u64, steady: u64, changes: Vec<Change>) -> Self {
        let steady = changes.iter().any(Change::notes_id).then_some(steady);
        Self { now, steady, changes }
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.put_u64(self.now);
        if let Some(steady) = self.steady {
            out.put_u8(STEADY);
            out.put_u64(steady);
        }
        for change in &self.changes {
            change.encode(out);
        }
    }

    pub(crate) fn decode(bytes: Bytes) -> Result<Self, Malformed> {
        let mut source = Source::new(bytes);
        let mut record = Self { now: source.u64()?, ..Self::default() };
        while !source.is_empty() {
            match source.u8()? {
                STEADY => record.steady = Some(source.u64()?),
                kind => record.changes.push(Change::decode(kind, &mut source)?),
            }
        }
        Ok(record)
    }
}

fn put_partition_key(partition_key: PartitionKey, out: &mut Vec<u8>) {
    out.put_u32(partition_key.topic);
    out.put_u32(partition_key.partition);
}

fn put_gone(gone: Option<BlockSlot>, out: &mut Vec<u8>) {
    let BlockSlot { id, index, bytes } = gone.unwrap_or(BlockSlot { id: 0, index: 0, bytes: 0 });
    out.put_u64(id);
    out.put_u32(index);
    out.put_u32(bytes);
}

/// A delayed message: when it is due, its slot in the waiting room, and its partition.
fn put_waiting(due: u64, waiting: BlockSlot, partition_key: PartitionKey, out: &mut Vec<u8>) {
    out.put_u64(due);
    put_gone(Some(waiting), out);
    put_partition_key(partition_key, out);
}

fn waiting(source: &mut Source) -> Result<(u64, BlockSlot, PartitionKey), Malformed> {
    let (due, waiting) = (source.u64()?, gone(source)?);
    Ok((due, waiting.ok_or(Malformed("a delayed message waits nowhere"))?, partition_key(source)?))
}

impl Change {
    /// Whether it uses a dedup id.
    fn notes_id(&self) -> bool {
        matches!(self, Self::Append { dedup, .. } | Self::Delay { dedup, .. } if !dedup.is_empty())
    }

    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Topic { number, name, config } => {
                out.put_u8(TOPIC);
                out.put_u32(*number);
                put_topic(name, config, out);
            }
            Self::Delete { number } => {
                out.put_u8(DELETE);
                out.put_u32(*number);
            }
            Self::Append { partition_key, message, dedup } => {
                out.put_u8(APPEND);
                put_partition_key(*partition_key, out);
                out.put_short(dedup);
                message::encode(message, out);
            }
            Self::Delay { partition_key, due, message, dedup } => {
                out.put_u8(DELAY);
                put_partition_key(*partition_key, out);
                out.put_u64(*due);
                out.put_short(dedup);
                message::encode(message, out);
            }
            Self::Mature { due, waiting, partition_key, message } => {
                out.put_u8(MATURE);
                put_waiting(*due, *waiting, *partition_key, out);
                message::encode(message, out);
            }
            Self::Cancel { due, waiting, partition_key } => {
                out.put_u8(CANCEL);
                put_waiting(*due, *waiting, *partition_key, out);
            }
            Self::Replace { partition_key, message, base } => {
                out.put_u8(REPLACE);
                put_partition_key(*partition_key, out);
                put_gone(*base, out);
                message::encode(message, out);
            }
            Self::Remove { partition_key, id, base } => {
                out.put_u8(REMOVE);
                put_partition_key(*partition_key, out);
                out.put_u64(*id);
                put_gone(*base, out);
            }
            Self::Trim { partition_key, through, gap, cut } => {
                out.put_u8(TRIM);
                put_partition_key(*partition_key, out);
                out.put_u64(*through);
                out.put_u8(u8::from(*gap));
                let (count, bytes) = cut.unwrap_or((0, 0));
                out.put_u32(count);
                out.put_u32(bytes);
            }
            Self::Open { .. } | Self::Move { .. } | Self::State { .. } => self.encode_consumer(out),
        }
    }

    fn encode_consumer(&self, out: &mut Vec<u8>) {
        match self {
            Self::Open { partition_key, consumer, fence } => {
                out.put_u8(OPEN);
                put_partition_key(*partition_key, out);
                out.put_short(consumer.as_str().as_bytes());
                out.put_u64(fence.generation);
                out.put_i64(fence.zxid);
            }
            Self::Move { partition_key, consumer, position } => {
                out.put_u8(MOVE);
                put_partition_key(*partition_key, out);
                out.put_short(consumer.as_str().as_bytes());
                out.put_u64(*position);
            }
            Self::State { partition_key, consumer, key, value } => {
                out.put_u8(STATE);
                put_partition_key(*partition_key, out);
                out.put_short(consumer.as_str().as_bytes());
                out.put_short(key);
                out.put_u8(u8::from(value.is_some()));
                out.put_long(value.as_deref().unwrap_or_default());
            }
            other => unreachable!("{other:?} is not about a consumer"),
        }
    }

    fn decode(kind: u8, source: &mut Source) -> Result<Self, Malformed> {
        Ok(match kind {
            TOPIC => {
                let number = source.u32()?;
                let (name, config) = topic(source)?;
                Self::Topic { number, name, config }
            }
            DELETE => Self::Delete { number: source.u32()? },
            APPEND => {
                let (partition_key, dedup) = (partition_key(source)?, source.short()?);
                Self::Append { partition_key, dedup, message: message::decode(source)? }
            }
            DELAY => {
                let (partition_key, due, dedup) = (partition_key(source)?, source.u64()?, source.short()?);
                Self::Delay { partition_key, due, dedup, message: message::decode(source)? }
            }
            MATURE => {
                let (due, waiting, partition_key) = waiting(source)?;
                Self::Mature { due, waiting, partition_key, message: message::decode(source)? }
            }
            CANCEL => {
                let (due, waiting, partition_key) = waiting(source)?;
                Self::Cancel { due, waiting, partition_key }
            }
            OPEN => {
                let (partition_key, consumer) = (partition_key(source)?, consumer(source)?);
                Self::Open { partition_key, consumer, fence: Fence::new(source.u64()?, source.i64()?) }
            }
            MOVE => {
                let (partition_key, consumer) = (partition_key(source)?, consumer(source)?);
                Self::Move { partition_key, consumer, position: source.u64()? }
            }
            STATE => {
                let (partition_key, consumer, key) =
                    (partition_key(source)?, consumer(source)?, source.short()?);
                let there = source.u8()? != 0;
                let value = source.long()?;
                Self::State { partition_key, consumer, key, value: there.then_some(value) }
            }
            REPLACE => {
                let (partition_key, base) = (partition_key(source)?, gone(source)?);
                Self::Replace { partition_key, base, message: message::decode(source)? }
            }
            REMOVE => {
                Self::Remove { partition_key: partition_key(source)?, id: source.u64()?, base: gone(source)? }
            }
            TRIM => {
                let (partition_key, through, gap) =
                    (partition_key(source)?, source.u64()?, source.u8()? != 0);
                let cut = (source.u32()?, source.u32()?);
                Self::Trim { partition_key, through, gap, cut: (cut.0 > 0).then_some(cut) }
            }
            _ => return Err(Malformed("it has a change that this version does not know")),
        })
    }
}

fn partition_key(source: &mut Source) -> Result<PartitionKey, Malformed> {
    Ok(PartitionKey::new(source.u32()?, source.u32()?))
}

fn gone(source: &mut Source) -> Result<Option<BlockSlot>, Malformed> {
    let gone = BlockSlot { id: source.u64()?, index: source.u32()?, bytes: source.u32()? };
    Ok((gone.id != 0).then_some(gone))
}

pub(crate) fn consumer(source: &mut Source) -> Result<Consumer, Malformed> {
    Consumer::new(source.text()?).map_err(|_| Malformed("a consumer has no name"))
}

/// Snapshots and the protocol encode topics the same way.
pub(crate) fn put_topic(name: &Topic, config: &TopicConfig, out: &mut Vec<u8>) {
    out.put_short(name.as_str().as_bytes());
    put_config(config, out);
}

pub(crate) fn topic(source: &mut Source) -> Result<(Topic, TopicConfig), Malformed> {
    let name = Topic::new(source.text()?).map_err(|_| Malformed("a topic has no name"))?;
    Ok((name, config(source)?))
}

pub(crate) fn put_config(config: &TopicConfig, out: &mut Vec<u8>) {
    let millis = |duration: std::time::Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX - 1);
    let TopicConfig { partitions, group, retention, retention_bytes, ttl, dedup_window, compression } =
        config;
    out.put_u32(*partitions);
    out.put_short(group.as_str().as_bytes());
    out.put_u64(retention.map_or(u64::MAX, millis));
    out.put_u64(retention_bytes.unwrap_or(u64::MAX));
    out.put_u64(ttl.map_or(u64::MAX, millis));
    out.put_u64(millis(*dedup_window));
    out.put_u8(match compression {
        Compression::None => 0,
        Compression::Lz4 => 1,
    });
}

pub(crate) fn config(source: &mut Source) -> Result<TopicConfig, Malformed> {
    let some = |value: u64| (value != u64::MAX).then_some(value);
    Ok(TopicConfig {
        partitions: source.u32()?,
        group: Group::new(source.text()?).map_err(|_| Malformed("a group has no name"))?,
        retention: some(source.u64()?).map(std::time::Duration::from_millis),
        retention_bytes: some(source.u64()?),
        ttl: some(source.u64()?).map(std::time::Duration::from_millis),
        dedup_window: std::time::Duration::from_millis(source.u64()?),
        compression: match source.u8()? {
            0 => Compression::None,
            1 => Compression::Lz4,
            _ => return Err(Malformed("it has a compression that this version does not know")),
        },
    })
}
