//! The bodies of frames.

use std::time::Duration;

use bytes::Bytes;

use crate::Fence;
use crate::codec::{Malformed, Sink as _, Source};
use crate::commit::{
    Append, Appended, Commit, Committed, Edit, Edited, Move, NewMessage, Opened, StateWrite, check_parts,
};
use crate::core::record;
use crate::error::JournalError;
use crate::id::{DelayedId, MessageId, Ticks};
use crate::read::{Order, Read};
use crate::topic::{Consumer, Created, PartitionId, Topic};

/// Encodes a partition as one byte if it is the same as the previous one.
#[derive(Default)]
struct Partitions(Option<PartitionId>);

impl Partitions {
    fn put(&mut self, partition: &PartitionId, out: &mut Vec<u8>) {
        if self.0.as_ref() == Some(partition) {
            return out.put_u8(0);
        }
        out.put_u8(1);
        put_partition(partition, out);
        self.0 = Some(partition.clone());
    }

    fn take(&mut self, source: &mut Source) -> Result<PartitionId, Malformed> {
        if source.u8()? != 0 {
            self.0 = Some(partition(source)?);
        }
        self.0.clone().ok_or(Malformed("the first partition has no name"))
    }
}

pub(crate) fn put_partition(partition: &PartitionId, out: &mut Vec<u8>) {
    out.put_short(partition.topic.as_str().as_bytes());
    out.put_u32(partition.number);
}

pub(crate) fn partition(source: &mut Source) -> Result<PartitionId, Malformed> {
    Ok(PartitionId::new(topic(source)?, source.u32()?))
}

pub(crate) fn topic(source: &mut Source) -> Result<Topic, Malformed> {
    Topic::new(source.text()?).map_err(|_| Malformed("a topic has no name"))
}

pub(crate) fn put_consumer(consumer: &Consumer, out: &mut Vec<u8>) {
    out.put_short(consumer.as_str().as_bytes());
}

pub(crate) fn put_fence(fence: Fence, out: &mut Vec<u8>) {
    out.put_u64(fence.generation);
    out.put_i64(fence.zxid);
}

pub(crate) fn fence(source: &mut Source) -> Result<Fence, Malformed> {
    Ok(Fence::new(source.u64()?, source.i64()?))
}

pub(crate) fn id(source: &mut Source) -> Result<MessageId, Malformed> {
    Ok(MessageId(Ticks(source.u64()?)))
}

pub(crate) fn put_delayed(id: DelayedId, out: &mut Vec<u8>) {
    out.put_u64(id.due.0);
    out.put_u64(id.put.0);
}

fn delayed(source: &mut Source) -> Result<DelayedId, Malformed> {
    Ok(DelayedId { due: Ticks(source.u64()?), put: Ticks(source.u64()?) })
}

/// As many ids as there are messages after them.
pub(crate) fn delayed_ids(source: &mut Source, count: usize) -> Result<Vec<DelayedId>, Malformed> {
    let mut ids = Source::new(source.take(count.saturating_mul(16))?);
    (0..count).map(|_| delayed(&mut ids)).collect()
}

const TTL: u8 = 1;
const DUE: u8 = 2;
const DEDUP: u8 = 4;

fn put_message(message: &NewMessage, out: &mut Vec<u8>) {
    let flag = |set: bool, flag: u8| if set { flag } else { 0 };
    let flags = flag(message.ttl.is_some(), TTL)
        | flag(message.due.is_some(), DUE)
        | flag(message.dedup.is_some(), DEDUP);
    out.put_u8(flags);
    if let Some(ttl) = message.ttl {
        out.put_u64(u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX));
    }
    if let Some(due) = message.due {
        out.put_u64(due.0);
    }
    if let Some(dedup) = &message.dedup {
        out.put_long(dedup);
    }
    out.put_long(&message.meta);
    out.put_long(&message.body);
}

fn message(source: &mut Source) -> Result<NewMessage, Malformed> {
    let flags = source.u8()?;
    if flags & !(TTL | DUE | DEDUP) != 0 {
        return Err(Malformed("a message has a property that this version does not know"));
    }
    Ok(NewMessage {
        ttl: if flags & TTL != 0 { Some(Duration::from_millis(source.u64()?)) } else { None },
        due: if flags & DUE != 0 { Some(Ticks(source.u64()?)) } else { None },
        dedup: if flags & DEDUP != 0 { Some(source.long()?) } else { None },
        meta: source.long()?,
        body: source.long()?,
    })
}

pub(crate) fn put_commit(commit: &Commit, out: &mut Vec<u8>) {
    let mut partitions = Partitions::default();
    out.put_u32(commit.appends.len() as u32);
    for append in &commit.appends {
        partitions.put(&append.partition, out);
        put_message(&append.message, out);
    }
    out.put_u32(commit.moves.len() as u32);
    for moved in &commit.moves {
        partitions.put(&moved.partition, out);
        put_consumer(&moved.consumer, out);
        put_fence(moved.fence, out);
        out.put_u8(u8::from(moved.from.is_some()));
        if let Some(from) = moved.from {
            out.put_u64(from.0.0);
        }
        out.put_u64(moved.position.0.0);
    }
    out.put_u32(commit.states.len() as u32);
    for state in &commit.states {
        partitions.put(&state.partition, out);
        put_consumer(&state.consumer, out);
        put_fence(state.fence, out);
        out.put_long(&state.key);
        out.put_u8(u8::from(state.value.is_some()));
        out.put_long(state.value.as_deref().unwrap_or_default());
    }
    out.put_u32(commit.edits.len() as u32);
    for edit in &commit.edits {
        match edit {
            Edit::Replace { partition, id, message } => {
                out.put_u8(1);
                partitions.put(partition, out);
                out.put_u64(id.0.0);
                put_message(message, out);
            }
            Edit::Remove { partition, id } => {
                out.put_u8(2);
                partitions.put(partition, out);
                out.put_u64(id.0.0);
            }
            Edit::Cancel { partition, id } => {
                out.put_u8(3);
                partitions.put(partition, out);
                put_delayed(*id, out);
            }
        }
    }
}

/// Counts the announced parts of a commit, before anything is allocated for them.
#[derive(Default)]
struct Parts(usize);

impl Parts {
    fn more(&mut self, count: usize, edits: usize) -> Result<std::ops::Range<usize>, Refused> {
        self.0 += count;
        check_parts(self.0, edits).map_err(|error| Refused::TooLarge(Box::new(error)))?;
        Ok(0..count)
    }
}

/// Why a commit was not decoded.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    Malformed(Malformed),
    /// It is well-formed, but exceeds a limit.
    TooLarge(Box<JournalError>),
}

impl From<Malformed> for Refused {
    fn from(malformed: Malformed) -> Self {
        Self::Malformed(malformed)
    }
}

pub(crate) fn commit(source: &mut Source) -> Result<Commit, Refused> {
    let mut partitions = Partitions::default();
    let mut commit = Commit::default();
    let mut parts = Parts::default();
    for _ in parts.more(source.count(10)?, 0)? {
        let partition = partitions.take(source)?;
        commit.appends.push(Append { partition, message: message(source)? });
    }
    for _ in parts.more(source.count(27)?, 0)? {
        let (partition, consumer) = (partitions.take(source)?, record::consumer(source)?);
        let fence = fence(source)?;
        let from = if source.u8()? != 0 { Some(id(source)?) } else { None };
        commit.moves.push(Move { partition, consumer, fence, from, position: id(source)? });
    }
    for _ in parts.more(source.count(27)?, 0)? {
        let (partition, consumer, fence) =
            (partitions.take(source)?, record::consumer(source)?, fence(source)?);
        let (key, there, value) = (source.long()?, source.u8()? != 0, source.long()?);
        commit.states.push(StateWrite { partition, consumer, fence, key, value: there.then_some(value) });
    }
    let edits = source.count(10)?;
    for _ in parts.more(edits, edits)? {
        let kind = source.u8()?;
        let partition = partitions.take(source)?;
        commit.edits.push(match kind {
            1 => Edit::Replace { partition, id: id(source)?, message: message(source)? },
            2 => Edit::Remove { partition, id: id(source)? },
            3 => Edit::Cancel { partition, id: delayed(source)? },
            _ => return Err(Malformed("an edit is of no kind that this version knows").into()),
        });
    }
    Ok(commit)
}

pub(crate) fn put_committed(committed: &Committed, out: &mut Vec<u8>) {
    out.put_u32(committed.appends.len() as u32);
    for appended in &committed.appends {
        let (kind, id) = match appended {
            Appended::At(id) => (0, *id),
            Appended::Delayed(id) => (1, MessageId(id.put)),
            Appended::Duplicate(id) => (2, id.unwrap_or_default()),
        };
        out.put_u8(kind);
        out.put_u64(id.0.0);
        if let Appended::Delayed(id) = appended {
            out.put_u64(id.due.0);
        }
    }
    out.put_u32(committed.edits.len() as u32);
    for edited in &committed.edits {
        out.put_u8(match edited {
            Edited::Changed => 0,
            Edited::Inserted => 1,
            Edited::Missing => 2,
        });
    }
}

pub(crate) fn committed(source: &mut Source) -> Result<Committed, Malformed> {
    let mut committed = Committed::default();
    for _ in 0..source.count(9)? {
        let (kind, id) = (source.u8()?, id(source)?);
        committed.appends.push(match kind {
            0 => Appended::At(id),
            1 => Appended::Delayed(DelayedId { due: Ticks(source.u64()?), put: id.0 }),
            2 => Appended::Duplicate(Some(id).filter(|id| *id != MessageId::ZERO)),
            _ => return Err(Malformed("an append has an outcome that this version does not know")),
        });
    }
    for _ in 0..source.count(1)? {
        committed.edits.push(match source.u8()? {
            0 => Edited::Changed,
            1 => Edited::Inserted,
            2 => Edited::Missing,
            _ => return Err(Malformed("an edit has an outcome that this version does not know")),
        });
    }
    Ok(committed)
}

pub(crate) fn put_read(read: &Read, out: &mut Vec<u8>) {
    put_partition(&read.partition, out);
    out.put_u64(read.after.0.0);
    out.put_u64(read.before.0.0);
    out.put_u8(match read.order {
        Order::Ascending => 0,
        Order::Descending => 1,
    });
    out.put_u8(u8::from(read.expired));
    out.put_u32(read.limit);
    out.put_u32(read.bytes_max);
    out.put_u64(u64::try_from(read.wait.as_millis()).unwrap_or(u64::MAX));
    out.put_u8(u8::from(read.delayed.is_some()));
    if let Some(after) = read.delayed {
        put_delayed(after, out);
    }
}

pub(crate) fn read(source: &mut Source) -> Result<Read, Malformed> {
    Ok(Read {
        partition: partition(source)?,
        after: id(source)?,
        before: id(source)?,
        order: match source.u8()? {
            0 => Order::Ascending,
            1 => Order::Descending,
            _ => return Err(Malformed("a read has an order that this version does not know")),
        },
        expired: source.u8()? != 0,
        limit: source.u32()?,
        bytes_max: source.u32()?,
        wait: Duration::from_millis(source.u64()?),
        delayed: match source.u8()? {
            0 => None,
            _ => Some(delayed(source)?),
        },
    })
}

pub(crate) fn put_opened(opened: &Opened, out: &mut Vec<u8>) {
    put_fence(opened.fence, out);
    out.put_u64(opened.position.0.0);
    out.put_u32(opened.state.len() as u32);
    for (key, value) in &opened.state {
        out.put_short(key);
        out.put_long(value);
    }
}

pub(crate) fn opened(source: &mut Source) -> Result<Opened, Malformed> {
    let mut opened = Opened { fence: fence(source)?, position: id(source)?, state: Vec::new() };
    for _ in 0..source.count(5)? {
        opened.state.push((source.short()?, source.long()?));
    }
    Ok(opened)
}

pub(crate) fn put_created(created: &Created, out: &mut Vec<u8>) {
    match created {
        Created::Fresh => out.put_u8(0),
        Created::Existed(config) => {
            out.put_u8(1);
            record::put_config(config, out);
        }
    }
}

pub(crate) fn created(source: &mut Source) -> Result<Created, Malformed> {
    Ok(if source.u8()? == 0 { Created::Fresh } else { Created::Existed(record::config(source)?) })
}

/// JSON, where speed does not matter.
pub(crate) fn put_json(value: &impl serde::Serialize, out: &mut Vec<u8>) {
    // It cannot fail: all maps in our values have string keys.
    out.put(&serde_json::to_vec(value).unwrap_or_default());
}

pub(crate) fn json<T: serde::de::DeserializeOwned>(bytes: &Bytes) -> Result<T, Malformed> {
    serde_json::from_slice(bytes).map_err(|_| Malformed("a value is not what it should be"))
}
