//! Decides edits of existing messages: replacing, removing, trimming.

use std::collections::HashSet;

use bytes::Bytes;

use super::block::{self, BlockData};
use super::decide::Facts;
use super::partition::MessageLookup;
use super::pending::Pending;
use super::record::{BlockSlot, Change};
use super::state::{PartitionKey, WAITING};
use super::{delayed, message};
use crate::codec::Source;
use crate::commit::{Edit, Edited, NewMessage};
use crate::error::JournalError;
use crate::id::Ticks;
use crate::read::Message;
use crate::topic::PartitionId;

/// How far ahead of the clock a message's id may be: clocks of clients differ. Ahead of the clock, not of the newest
/// id: otherwise repeated edits could move ids ever further from the time.
const AHEAD_TICKS: u64 = 10_000_000;

/// Decisions about the edits of a commit.
#[derive(Default)]
pub(crate) struct Edits {
    pub(crate) outcomes: Vec<Edited>,
    /// What pending must know: partition, id, and whether it is the new last id.
    pub(crate) touched: Vec<(PartitionKey, u64, bool)>,
    changed: HashSet<(PartitionKey, u64)>,
    grown: HashSet<PartitionKey>,
}

impl Edits {
    fn touch(&mut self, home: PartitionKey, id: u64, ahead: bool) -> Result<(), JournalError> {
        let refused = |why: &str| Err(JournalError::Invalid(why.to_owned()));
        if !self.changed.insert((home, id)) {
            return refused("a commit may change a message only once");
        }
        // Two new last ids would have to be in order; the second is decided once the first is applied.
        if ahead && !self.grown.insert(home) {
            return refused("a commit may add only one message by id to a partition");
        }
        self.touched.push((home, id, ahead));
        Ok(())
    }
}

pub(crate) fn partition(edit: &Edit) -> &PartitionId {
    match edit {
        Edit::Replace { partition, .. } | Edit::Remove { partition, .. } | Edit::Cancel { partition, .. } => {
            partition
        }
    }
}

pub(crate) fn message(edit: &Edit) -> Option<&NewMessage> {
    match edit {
        Edit::Replace { message, .. } => Some(message),
        Edit::Remove { .. } | Edit::Cancel { .. } => None,
    }
}

/// Decides all edits of a commit. `None`: they must wait for pending decisions.
pub(crate) fn edits(
    facts: &Facts<'_>,
    edits: &[Edit],
    pending: &Pending,
    changes: &mut Vec<Change>,
) -> Result<Option<Edits>, JournalError> {
    let mut decided = Edits::default();
    for edit in edits {
        let partition_key = facts.state.partition_key(partition(edit))?;
        let (home, id) = match edit {
            Edit::Replace { id, .. } | Edit::Remove { id, .. } => (partition_key, id.0.0),
            Edit::Cancel { id, .. } => (WAITING, id.put.0),
        };
        let last = facts.state.partition(home).map_or(0, |partition| partition.last);
        if pending.has_edit(home, id) || (id > last && pending.has_appends(home)) {
            return Ok(None);
        }
        let outcome = match edit {
            Edit::Replace { message, .. } => replace(facts, partition_key, id, message, changes)?,
            Edit::Remove { .. } => remove(facts, partition_key, id, changes)?,
            Edit::Cancel { id, .. } => delayed::cancel(facts, partition_key, *id, changes)?,
        };
        decided.outcomes.push(outcome);
        if outcome != Edited::Missing {
            decided.touch(home, id, id > last)?;
        }
    }
    Ok(Some(decided))
}

/// A removal in a commit that also appends moves the message, so it must exist.
pub(crate) fn check_moved(edits: &[Edit], outcomes: &[Edited]) -> Result<(), JournalError> {
    for (edit, outcome) in edits.iter().zip(outcomes) {
        if let (Edit::Remove { partition, id }, Edited::Missing) = (edit, outcome) {
            return Err(JournalError::NoMessage { partition: partition.clone(), id: *id });
        }
    }
    Ok(())
}

fn replace(
    facts: &Facts<'_>,
    partition_key: PartitionKey,
    id: u64,
    new: &NewMessage,
    changes: &mut Vec<Change>,
) -> Result<Edited, JournalError> {
    let Some(partition) = facts.state.partition(partition_key) else { return Ok(Edited::Missing) };
    let shown = crate::id::MessageId(Ticks(id));
    if id > facts.now.saturating_add(AHEAD_TICKS).max(partition.last) {
        return Err(JournalError::Ahead { id: shown });
    }
    if id <= partition.trimmed {
        return Ok(Edited::Missing);
    }
    if partition.edits.len() >= facts.limits.edits && !partition.edits.contains_key(&id) {
        let (size, max) = (partition.edits.len() as u64 + 1, facts.limits.edits as u64);
        return Err(JournalError::TooLarge {
            what: "a number of replaced messages in a partition".into(),
            size,
            max,
        });
    }
    let there = lookup(facts, partition_key, id)?;
    let edited = partition.edits.contains_key(&id);
    let base = there.as_ref().map(|(gone, _)| *gone).filter(|_| !edited);
    let message = Message {
        id: shown,
        meta: new.meta.clone(),
        body: new.body.clone(),
        expires: new.ttl.map(|ttl| Ticks(id).plus(ttl)),
    };
    changes.push(Change::Replace { partition_key, message, base });
    Ok(if there.is_some() { Edited::Changed } else { Edited::Inserted })
}

fn remove(
    facts: &Facts<'_>,
    partition_key: PartitionKey,
    id: u64,
    changes: &mut Vec<Change>,
) -> Result<Edited, JournalError> {
    let Some(partition) = facts.state.partition(partition_key) else { return Ok(Edited::Missing) };
    let base = if partition.edits.contains_key(&id) {
        None
    } else {
        match lookup(facts, partition_key, id)? {
            Some((gone, _)) => Some(gone),
            None => return Ok(Edited::Missing),
        }
    };
    changes.push(Change::Remove { partition_key, id, base });
    Ok(Edited::Changed)
}

/// The message with this id, and its slot in its block. For an edited message the slot is meaningless.
pub(crate) fn lookup(
    facts: &Facts<'_>,
    partition_key: PartitionKey,
    id: u64,
) -> Result<Option<(BlockSlot, Message)>, JournalError> {
    let Some(partition) = facts.state.partition(partition_key) else { return Ok(None) };
    let loaded;
    let bytes: &[u8] = match partition.find(id) {
        MessageLookup::Nothing => return Ok(None),
        MessageLookup::Edit => match &partition.edits[&id].data {
            super::partition::EditData::Memory(bytes) => bytes,
            super::partition::EditData::Disk(location) => {
                loaded = (facts.load)(partition_key.topic, *location)?;
                &loaded
            }
        },
        MessageLookup::Memory { .. } => {
            partition.block_of(id).and_then(|at| partition.blocks[at].memory()).unwrap_or_default()
        }
        MessageLookup::Disk(location) => {
            loaded = (facts.load)(partition_key.topic, location)?;
            &loaded
        }
    };
    let Some((index, head)) = block::find(bytes, id) else { return Ok(None) };
    let removed = partition.block_of(id).is_some_and(|at| partition.blocks[at].has_removed(index));
    if removed && !partition.edits.contains_key(&id) {
        return Ok(None);
    }
    // Copy only the message, so that its block is not kept in memory.
    let found = Bytes::copy_from_slice(&bytes[head.offset..head.offset + head.len]);
    let message =
        message::decode(&mut Source::new(found)).map_err(|error| JournalError::Damaged(error.to_string()))?;
    Ok(Some((BlockSlot { id, index, bytes: head.len as u32 }, message)))
}

/// For the block in which a trim ends: how many of its messages go, and the bytes of those that were not removed
/// before.
pub(crate) fn cut(
    facts: &Facts<'_>,
    partition_key: PartitionKey,
    through: u64,
) -> Result<Option<(u32, u32)>, JournalError> {
    let Some(partition) = facts.state.partition(partition_key) else { return Ok(None) };
    let at = partition.blocks.partition_point(|block| block.last <= through);
    let Some(block) = partition.blocks.get(at).filter(|block| block.first <= through) else {
        return Ok(None);
    };
    // Also for a block in memory: at replay it may be on disk.
    let bytes = match (&block.data, block.memory()) {
        (BlockData::Disk(location), _) => (facts.load)(partition_key.topic, *location)?,
        (_, memory) => Bytes::copy_from_slice(memory.unwrap_or_default()),
    };
    let heads = || message::heads(&bytes).zip(0..).take_while(|(head, _)| head.id <= through);
    let there = heads().filter(|(_, index)| !block.has_removed(*index));
    Ok(Some((heads().count() as u32, there.map(|(head, _)| head.len as u32).sum())))
}
