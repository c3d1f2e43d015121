//! Which blocks a read needs.

use bytes::Bytes;

use super::block::{Block, Location, Place, Removed};
use super::message;
use super::partition::{EditPlace, Partition};
use crate::read::Order;

/// At most so many blocks are read before the reader looks again: a bound for what one read holds in memory.
const BLOCKS_MAX: usize = 128;

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

/// Blocks and edits that hold the next part of a range.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// In the order of the read.
    pub(crate) blocks: Vec<(Bits, Option<Box<Removed>>)>,
    /// Edited messages, by id.
    pub(crate) edits: Vec<(u64, Bits)>,
    /// Where to go on when this was not enough; nothing when there is no more.
    pub(crate) rest: Option<u64>,
}

impl Plan {
    /// Whether nothing has to be read from disk.
    pub(crate) fn is_in_memory(&self) -> bool {
        self.blocks.iter().all(|(bits, _)| matches!(bits, Bits::Memory(_)))
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
        let begin = self.blocks.partition_point(|block| block.last <= range.after);
        let mut plan = Plan::default();
        let mut wanted = Wanted::new(range);
        for block in self.blocks.range(begin..) {
            if block.first >= range.before {
                break;
            }
            if wanted.is_met() {
                // Up to the block before this one: what lies between them belongs to the next part.
                plan.rest = Some(block.first.saturating_sub(1));
                break;
            }
            wanted.take(block, block.first > range.after && block.last < range.before);
            plan.blocks.push(part(block, range));
        }
        let before = plan.rest.map_or(range.before, |rest| rest + 1);
        plan.edits = self.edits_between(range.after, before, range);
        plan
    }

    fn plan_descending(&self, range: &Range) -> Plan {
        let end = self.blocks.partition_point(|block| block.first < range.before);
        let mut plan = Plan::default();
        let mut wanted = Wanted::new(range);
        for block in self.blocks.range(..end).rev() {
            if block.last <= range.after {
                break;
            }
            if wanted.is_met() {
                plan.rest = Some(block.last + 1);
                break;
            }
            wanted.take(block, block.first > range.after && block.last < range.before);
            plan.blocks.push(part(block, range));
        }
        let after = plan.rest.map_or(range.after, |rest| rest - 1);
        plan.edits = self.edits_between(after, range.before, range);
        plan
    }

    fn edits_between(&self, after: u64, before: u64, range: &Range) -> Vec<(u64, Bits)> {
        if self.edits.is_empty() || after.saturating_add(1) >= before {
            return Vec::new();
        }
        let all = self.edits.range(after + 1..before);
        let bits = |(id, edited): (&u64, &super::partition::Edited)| {
            let bits = match &edited.place {
                EditPlace::Memory(bytes) => Bits::Memory(bytes.clone()),
                EditPlace::Disk(location) => Bits::Disk(*location),
            };
            (*id, bits)
        };
        // No more than the limit can be given, whatever the blocks hold; but an edit may have expired, so some more.
        let most = usize::try_from(range.limit).unwrap_or(usize::MAX).saturating_mul(2).saturating_add(1024);
        match range.order {
            Order::Ascending => all.take(most).map(bits).collect(),
            Order::Descending => all.rev().take(most).map(bits).collect(),
        }
    }

    /// Messages behind a position that can be counted without reading, and the block that must be read for the rest.
    pub(crate) fn lag(&self, position: u64) -> (u64, Option<Bits>, Option<Box<Removed>>) {
        let begin = self.blocks.partition_point(|block| block.last <= position);
        let edits = self.edits.range(position + 1..).count() as u64;
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
fn part(block: &Block, range: &Range) -> (Bits, Option<Box<Removed>>) {
    let open = match &block.place {
        Place::Open(bytes) if block.removed.is_none() => bytes,
        _ => return (bits(block), block.removed.clone()),
    };
    let from = message::heads(open).find(|head| head.id > range.after).map_or(open.len(), |head| head.offset);
    (Bits::Memory(Bytes::copy_from_slice(&open[from..])), None)
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
