//! Which blocks a read needs.

use std::ops::Bound;

use bytes::Bytes;

use super::block::{Block, Location, Place, Removed};
use super::message;
use super::partition::{EditPlace, Edited, Partition};
use crate::read::Order;

/// At most so many blocks are read before the reader looks again: a bound for what one read holds in memory.
const BLOCKS_MAX: usize = 128;
/// The same for edited messages. Each may have expired, so how many are wanted says nothing about how many are needed.
const EDITS_MAX: usize = 1024;

/// What of a partition is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) after: u64,
    pub(crate) before: u64,
    pub(crate) order: Order,
    pub(crate) limit: u64,
    pub(crate) bytes_max: u64,
}

/// Bytes, or where they are.
#[derive(Debug, Clone)]
pub(crate) enum Bits {
    Memory(Bytes),
    Disk(Location),
}

/// A block that a read needs: messages `first` to `last`.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) first: u64,
    pub(crate) last: u64,
    pub(crate) bits: Bits,
    pub(crate) removed: Option<Box<Removed>>,
}

/// Blocks and edits that hold the next part of a range.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// In the order of the read.
    pub(crate) blocks: Vec<Piece>,
    /// Edited messages, by id, in the order of the read.
    pub(crate) edits: Vec<(u64, Bits)>,
    /// Where to go on when this was not enough; nothing when there is no more. The plan has everything before that, and
    /// its last block perhaps more.
    pub(crate) rest: Option<u64>,
}

impl Plan {
    /// Whether nothing has to be read from disk.
    pub(crate) fn is_in_memory(&self) -> bool {
        self.blocks.iter().all(|piece| matches!(piece.bits, Bits::Memory(_)))
            && self.edits.iter().all(|(_, bits)| matches!(bits, Bits::Memory(_)))
    }
}

impl Partition {
    /// What to read for a range.
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
                // Up to the block before this one: what lies between them belongs to the next part.
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

    /// The first edited messages of a range, and where to go on when there are more.
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
            let bits = match &edited.place {
                EditPlace::Memory(bytes) => Bits::Memory(bytes.clone()),
                EditPlace::Disk(location) => Bits::Disk(*location),
            };
            plan.edits.push((*id, bits));
            None
        };
        plan.rest = match range.order {
            Order::Ascending => all.find_map(&mut take).map(|next| next - 1),
            Order::Descending => all.rev().find_map(&mut take).map(|next| next + 1),
        };
        plan
    }

    /// Messages behind a position that can be counted without reading, and the block that must be read for the rest.
    pub(crate) fn lag(&self, position: u64) -> (u64, Option<Bits>, Option<Box<Removed>>) {
        let begin = self.blocks.partition_point(|block| block.last <= position);
        let edits = self.edits.range((Bound::Excluded(position), Bound::Unbounded)).count() as u64;
        let mut blocks = self.blocks.range(begin..);
        let Some(first) = blocks.next() else { return (edits, None, None) };
        let rest: u64 = blocks.map(|block| block.live().0).sum();
        if first.first > position {
            return (edits + rest + first.live().0, None, None);
        }
        (edits + rest, Some(bits(first)), first.removed.clone())
    }
}

fn bits(block: &Block) -> Bits {
    match &block.place {
        Place::Open(bytes) => Bits::Memory(Bytes::copy_from_slice(bytes)),
        Place::Frozen(bytes) => Bits::Memory(bytes.clone()),
        Place::Disk(location) => Bits::Disk(*location),
    }
}

/// A block for a read. Of one that is still written to, only what may be wanted is copied, unless removed messages are
/// counted from its beginning.
fn part(block: &Block, range: &Range) -> Piece {
    let (bits, removed) = match &block.place {
        Place::Open(bytes) if block.removed.is_none() => {
            let wanted = message::heads(bytes).find(|head| head.id > range.after);
            let from = wanted.map_or(bytes.len(), |head| head.offset);
            (Bits::Memory(Bytes::copy_from_slice(&bytes[from..])), None)
        }
        _ => (bits(block), block.removed.clone()),
    };
    Piece { first: block.first, last: block.last, bits, removed }
}

/// Counts what is certain to be found.
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
