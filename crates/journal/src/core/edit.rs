//! Deciding about messages that are there: replacing, removing, cutting.

use std::collections::HashSet;

use bytes::Bytes;

use super::block::{self, Place};
use super::decide::Facts;
use super::partition::Found;
use super::pending::Pending;
use super::record::{Change, Gone};
use super::state::{Spot, WAITING};
use super::{delayed, message};
use crate::codec::Source;
use crate::commit::{Edit, Edited, NewMessage};
use crate::error::JournalError;
use crate::id::Ticks;
use crate::read::Message;
use crate::topic::PartitionId;

/// A message may be put so far ahead of the clock: clocks of clients differ. Ahead of the clock, not of the newest id: else
/// one after the other could lead ids away from the time.
const AHEAD_TICKS: u64 = 10_000_000;

/// What is decided about the edits of a commit.
#[derive(Default)]
pub(crate) struct Edits {
    pub(crate) outcomes: Vec<Edited>,
    /// What pending must know: where, which one, and whether it is a new last one.
    pub(crate) touched: Vec<(Spot, u64, bool)>,
    changed: HashSet<(Spot, u64)>,
    grown: HashSet<Spot>,
}

impl Edits {
    fn touch(&mut self, home: Spot, id: u64, ahead: bool) -> Result<(), JournalError> {
        let refused = |why: &str| Err(JournalError::Invalid(why.to_owned()));
        if !self.changed.insert((home, id)) {
            return refused("a commit may change a message only once");
        }
        // Two new last ones would have to be in order; the second sees the first when that is applied.
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

/// Decides about all edits of a commit. Nothing if they must wait for what is on its way.
pub(crate) fn edits(
    facts: &Facts<'_>,
    edits: &[Edit],
    pending: &Pending,
    changes: &mut Vec<Change>,
) -> Result<Option<Edits>, JournalError> {
    let mut decided = Edits::default();
    for edit in edits {
        let spot = facts.state.spot(partition(edit))?;
        let (home, id) = match edit {
            Edit::Replace { id, .. } | Edit::Remove { id, .. } => (spot, id.0.0),
            Edit::Cancel { id, .. } => (WAITING, id.put.0),
        };
        let last = facts.state.partition(home).map_or(0, |partition| partition.last);
        if pending.has_edit(home, id) || (id > last && pending.has_appends(home)) {
            return Ok(None);
        }
        let outcome = match edit {
            Edit::Replace { message, .. } => replace(facts, spot, id, message, changes)?,
            Edit::Remove { .. } => remove(facts, spot, id, changes)?,
            Edit::Cancel { id, .. } => delayed::cancel(facts, spot, *id, changes)?,
        };
        decided.outcomes.push(outcome);
        if outcome != Edited::Missing {
            decided.touch(home, id, id > last)?;
        }
    }
    Ok(Some(decided))
}

/// What a commit removes while it appends is sent elsewhere, and has to be there.
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
    spot: Spot,
    id: u64,
    new: &NewMessage,
    changes: &mut Vec<Change>,
) -> Result<Edited, JournalError> {
    let Some(partition) = facts.state.partition(spot) else { return Ok(Edited::Missing) };
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
    let there = lookup(facts, spot, id)?;
    let edited = partition.edits.contains_key(&id);
    let base = there.as_ref().map(|(gone, _)| *gone).filter(|_| !edited);
    let message = Message {
        id: shown,
        meta: new.meta.clone(),
        body: new.body.clone(),
        expires: new.ttl.map(|ttl| Ticks(id).plus(ttl)),
    };
    changes.push(Change::Replace { spot, message, base });
    Ok(if there.is_some() { Edited::Changed } else { Edited::Inserted })
}

fn remove(facts: &Facts<'_>, spot: Spot, id: u64, changes: &mut Vec<Change>) -> Result<Edited, JournalError> {
    let Some(partition) = facts.state.partition(spot) else { return Ok(Edited::Missing) };
    let base = if partition.edits.contains_key(&id) {
        None
    } else {
        match lookup(facts, spot, id)? {
            Some((gone, _)) => Some(gone),
            None => return Ok(Edited::Missing),
        }
    };
    changes.push(Change::Remove { spot, id, base });
    Ok(Edited::Changed)
}

/// The message with this id, and its place in its block. For an edited one the place has no meaning.
pub(crate) fn lookup(
    facts: &Facts<'_>,
    spot: Spot,
    id: u64,
) -> Result<Option<(Gone, Message)>, JournalError> {
    let Some(partition) = facts.state.partition(spot) else { return Ok(None) };
    let loaded;
    let bytes: &[u8] = match partition.find(id) {
        Found::Nothing => return Ok(None),
        Found::Edit => match &partition.edits[&id].place {
            super::partition::EditPlace::Memory(bytes) => bytes,
            super::partition::EditPlace::Disk(location) => {
                loaded = (facts.load)(spot.0, *location)?;
                &loaded
            }
        },
        Found::Memory { .. } => {
            partition.block_of(id).and_then(|at| partition.blocks[at].memory()).unwrap_or_default()
        }
        Found::Disk(location) => {
            loaded = (facts.load)(spot.0, location)?;
            &loaded
        }
    };
    let Some((index, head)) = block::find(bytes, id) else { return Ok(None) };
    let removed = partition.block_of(id).is_some_and(|at| partition.blocks[at].has_removed(index));
    if removed && !partition.edits.contains_key(&id) {
        return Ok(None);
    }
    // Only the message is copied, and nothing keeps its block.
    let found = Bytes::copy_from_slice(&bytes[head.offset..head.offset + head.len]);
    let message =
        message::decode(&mut Source::new(found)).map_err(|error| JournalError::Damaged(error.to_string()))?;
    Ok(Some((Gone { id, index, bytes: head.len as u32 }, message)))
}

/// Of the block in which a trim ends: how many messages that are, and the bytes of those that were still there.
pub(crate) fn cut(facts: &Facts<'_>, spot: Spot, through: u64) -> Result<Option<(u32, u32)>, JournalError> {
    let Some(partition) = facts.state.partition(spot) else { return Ok(None) };
    let at = partition.blocks.partition_point(|block| block.last <= through);
    let Some(block) = partition.blocks.get(at).filter(|block| block.first <= through) else {
        return Ok(None);
    };
    // Also of a block in memory: when the record is applied again, it may be on disk.
    let bytes = match (&block.place, block.memory()) {
        (Place::Disk(location), _) => (facts.load)(spot.0, *location)?,
        (_, memory) => Bytes::copy_from_slice(memory.unwrap_or_default()),
    };
    let heads = || message::heads(&bytes).zip(0..).take_while(|(head, _)| head.id <= through);
    let there = heads().filter(|(_, index)| !block.has_removed(*index));
    Ok(Some((heads().count() as u32, there.map(|(head, _)| head.len as u32).sum())))
}
