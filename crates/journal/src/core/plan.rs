//! Plans which blocks a read needs.

use std::ops::Bound;

use bytes::Bytes;

use super::block::{Block, BlockData, Location, Removed};
use super::message;
use super::partition::{EditData, Edited, Partition};
use crate::read::Order;

/// Most blocks in one plan: a bound for the memory of one read.
const BLOCKS_MAX: usize = 128;
/// The same for edited messages. Each may have expired, so the number that is wanted does not bound the number that is
/// needed.
const EDITS_MAX: usize = 1024;

/// The wanted messages of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) after: u64,
    pub(crate) before: u64,
    pub(crate) order: Order,
    /// Also those whose time to live has ended.
    pub(crate) expired: bool,
    pub(crate) limit: u64,
    pub(crate) bytes_max: u64,
}

/// Bytes in memory, or their location on disk.
#[derive(Debug, Clone)]
pub(crate) enum StoredBytes {
    Memory(Bytes),
    Disk(Location),
}

/// A block that a read needs: messages `first` to `last`.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) first: u64,
    pub(crate) last: u64,
    pub(crate) stored: StoredBytes,
    pub(crate) removed: Option<Box<Removed>>,
}

/// The blocks and edits with the next part of a range.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// In the order of the read.
    pub(crate) blocks: Vec<Piece>,
    /// Edited messages, by id, in the order of the read.
    pub(crate) edits: Vec<(u64, StoredBytes)>,
    /// Where to continue if this was not enough; `None` at the end. The plan covers everything before that, and its
    /// last block perhaps more.
    pub(crate) rest: Option<u64>,
}

impl Plan {
    /// Whether nothing has to be read from disk.
    pub(crate) fn is_in_memory(&self) -> bool {
        self.blocks.iter().all(|piece| matches!(piece.stored, StoredBytes::Memory(_)))
            && self.edits.iter().all(|(_, stored)| matches!(stored, StoredBytes::Memory(_)))
    }
}

impl Partition {
    /// Plans the read of a range.
    pub(crate) fn plan(&self, range: &Range) -> Plan {
        match range.order {
            Order::Ascending => self.plan_ascending(range),
            Order::Descending => self.plan_descending(range),
        }
    }

    fn plan_ascending(&self, range: &Range) -> Plan {
        let mut plan = self.plan_edits(range);
        let before = plan.rest.map_or(range.before, |rest| rest + 1);
        let begin = self.blocks.partition_point(|block| block.last <= range.after);
        let mut wanted = Wanted::new(range);
        for block in self.blocks.range(begin..) {
            if block.first >= before {
                break;
            }
            if wanted.is_met() {
                // Up to the previous block: edits between the two belong to the next part.
                let rest = block.first.saturating_sub(1);
                plan.edits.retain(|(id, _)| *id <= rest);
                plan.rest = Some(rest);
                break;
            }
            wanted.take(block, block.first > range.after && block.last < before);
            plan.blocks.push(part(block, range));
        }
        plan
    }

    fn plan_descending(&self, range: &Range) -> Plan {
        let mut plan = self.plan_edits(range);
        let after = plan.rest.map_or(range.after, |rest| rest - 1);
        let end = self.blocks.partition_point(|block| block.first < range.before);
        let mut wanted = Wanted::new(range);
        for block in self.blocks.range(..end).rev() {
            if block.last <= after {
                break;
            }
            if wanted.is_met() {
                let rest = block.last + 1;
                plan.edits.retain(|(id, _)| *id >= rest);
                plan.rest = Some(rest);
                break;
            }
            wanted.take(block, block.first > after && block.last < range.before);
            plan.blocks.push(part(block, range));
        }
        plan
    }

    /// The first edited messages of a range, and where to continue if there are more.
    fn plan_edits(&self, range: &Range) -> Plan {
        let mut plan = Plan::default();
        if self.edits.is_empty() || range.after.saturating_add(1) >= range.before {
            return plan;
        }
        let mut all = self.edits.range(range.after + 1..range.before);
        let mut bytes = 0;
        let mut take = |(id, edited): (&u64, &Edited)| {
            if plan.edits.len() >= EDITS_MAX || bytes >= range.bytes_max {
                return Some(*id);
            }
            bytes += u64::from(edited.bytes);
            let stored = match &edited.data {
                EditData::Memory(bytes) => StoredBytes::Memory(bytes.clone()),
                EditData::Disk(location) => StoredBytes::Disk(*location),
            };
            plan.edits.push((*id, stored));
            None
        };
        plan.rest = match range.order {
            Order::Ascending => all.find_map(&mut take).map(|next| next - 1),
            Order::Descending => all.rev().find_map(&mut take).map(|next| next + 1),
        };
        plan
    }

    /// Messages after a position, as far as they can be counted without reading.
    pub(crate) fn lag(&self, position: u64) -> Lag {
        let begin = self.blocks.partition_point(|block| block.last <= position);
        let edits = self.edits.range((Bound::Excluded(position), Bound::Unbounded)).count() as u64;
        let mut blocks = self.blocks.range(begin..);
        let Some(first) = blocks.next() else { return Lag { certain: edits, within: None } };
        let rest: u64 = blocks.map(|block| block.live().0).sum();
        if first.first > position {
            return Lag { certain: edits + rest + first.live().0, within: None };
        }
        let within =
            Within { stored: stored(first), removed: first.removed.clone(), messages: first.live().0 };
        Lag { certain: edits + rest, within: Some(within) }
    }
}

/// How many messages there are after a position.
pub(crate) struct Lag {
    /// All but those of the block in which the position is.
    pub(crate) certain: u64,
    /// That block.
    pub(crate) within: Option<Within>,
}

/// A block that must be read to count its messages after a position.
pub(crate) struct Within {
    pub(crate) stored: StoredBytes,
    pub(crate) removed: Option<Box<Removed>>,
    /// All of its messages.
    pub(crate) messages: u64,
}

fn stored(block: &Block) -> StoredBytes {
    match &block.data {
        BlockData::Open(bytes) => StoredBytes::Memory(Bytes::copy_from_slice(bytes)),
        BlockData::Frozen(bytes) => StoredBytes::Memory(bytes.clone()),
        BlockData::Disk(location) => StoredBytes::Disk(*location),
    }
}

/// A block for a read. Of a growing one, only the wanted range is copied, unless it has removed messages, whose indexes
/// count from its beginning.
fn part(block: &Block, range: &Range) -> Piece {
    let (stored, removed) = match &block.data {
        BlockData::Open(bytes) if block.removed.is_none() => {
            let wanted = message::heads(bytes).find(|head| head.id > range.after);
            let from = wanted.map_or(bytes.len(), |head| head.offset);
            (StoredBytes::Memory(Bytes::copy_from_slice(&bytes[from..])), None)
        }
        _ => (stored(block), block.removed.clone()),
    };
    Piece { first: block.first, last: block.last, stored, removed }
}

/// Counts the messages that are certain to be found.
struct Wanted<'a> {
    range: &'a Range,
    blocks: usize,
    messages: u64,
    bytes: u64,
}

impl<'a> Wanted<'a> {
    fn new(range: &'a Range) -> Self {
        Self { range, blocks: 0, messages: 0, bytes: 0 }
    }

    fn take(&mut self, block: &Block, whole: bool) {
        self.blocks += 1;
        if whole {
            let (messages, bytes) = block.live();
            self.messages += messages;
            self.bytes += bytes;
        }
    }

    fn is_met(&self) -> bool {
        self.messages >= self.range.limit || self.bytes >= self.range.bytes_max || self.blocks >= BLOCKS_MAX
    }
}
