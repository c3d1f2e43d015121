//! Selects a read's messages from the blocks that it needs.

use bytes::Bytes;

use super::block::Removed;
use super::message::{self, Head};
use super::plan::Range;
use crate::read::Order;

/// Selected messages, encoded: each part is one or several consecutive messages.
#[derive(Debug, Default)]
pub(crate) struct Picked {
    pub(crate) parts: Vec<Bytes>,
    pub(crate) count: u64,
    pub(crate) bytes: u64,
}

/// Picks messages until there are enough.
pub(crate) struct Picker {
    range: Range,
    now: u64,
    pub(crate) picked: Picked,
    full: bool,
}

impl Picker {
    pub(crate) fn new(range: Range, now: u64) -> Self {
        Self { range, now, picked: Picked::default(), full: range.limit == 0 }
    }

    /// Whether there are enough.
    pub(crate) fn is_full(&self) -> bool {
        self.full
    }

    fn wants(&self, head: &Head) -> bool {
        head.id > self.range.after
            && head.id < self.range.before
            && (self.range.expired || head.expires == 0 || head.expires > self.now)
    }

    /// Counts a message. `false`: there is no room for it.
    fn count(&mut self, len: u64) -> bool {
        if self.full || (self.picked.count > 0 && self.picked.bytes + len > self.range.bytes_max) {
            self.full = true;
            return false;
        }
        self.picked.count += 1;
        self.picked.bytes += len;
        self.full = self.picked.count >= self.range.limit;
        true
    }

    /// Takes the wanted messages of a block, in ascending order and in as few parts as possible.
    fn pick_ascending(&mut self, bytes: &Bytes, removed: Option<&Removed>) {
        let mut run = 0..0;
        for (head, index) in message::heads(bytes).zip(0..) {
            if self.full || head.id >= self.range.before {
                break;
            }
            let gone = removed.is_some_and(|removed| removed.has(index));
            if gone || !self.wants(&head) {
                continue;
            }
            if !self.count(head.len as u64) {
                break;
            }
            if run.end != head.offset || run.is_empty() {
                self.push(bytes, run.clone());
                run.start = head.offset;
            }
            run.end = head.offset + head.len;
        }
        self.push(bytes, run);
    }

    fn push(&mut self, bytes: &Bytes, run: std::ops::Range<usize>) {
        if !run.is_empty() {
            self.picked.parts.push(bytes.slice(run));
        }
    }

    /// Takes the wanted messages of a block, if no edited messages fall into its range.
    pub(crate) fn pick(&mut self, bytes: &Bytes, removed: Option<&Removed>) {
        match self.range.order {
            Order::Ascending => self.pick_ascending(bytes, removed),
            Order::Descending => {
                let mut singles = self.singles(bytes, removed);
                singles.reverse();
                self.pick_singles(singles);
            }
        }
    }

    /// The wanted messages of a block, one by one, ascending.
    pub(crate) fn singles(&self, bytes: &Bytes, removed: Option<&Removed>) -> Vec<(u64, Bytes)> {
        let there = |index| !removed.is_some_and(|removed| removed.has(index));
        message::heads(bytes)
            .zip(0..)
            .filter(|(head, index)| there(*index) && self.wants(head))
            .map(|(head, _)| (head.id, bytes.slice(head.offset..head.offset + head.len)))
            .collect()
    }

    /// Takes messages in the order given, until there are enough.
    pub(crate) fn pick_singles(&mut self, singles: Vec<(u64, Bytes)>) {
        for (_, bytes) in singles {
            if !self.count(bytes.len() as u64) {
                break;
            }
            self.picked.parts.push(bytes);
        }
    }

    /// Takes messages of blocks and edits together, in the order of the read; those beyond `rest` are left for later.
    pub(crate) fn pick_merged(&mut self, mut singles: Vec<(u64, Bytes)>, rest: Option<u64>) {
        singles.retain(|(id, _)| !self.is_behind(*id, rest));
        singles.sort_by_key(|(id, _)| *id);
        if self.range.order == Order::Descending {
            singles.reverse();
        }
        self.pick_singles(singles);
    }

    /// Whether an id comes after the end of this part of the read.
    pub(crate) fn is_behind(&self, id: u64, rest: Option<u64>) -> bool {
        rest.is_some_and(|rest| match self.range.order {
            Order::Ascending => id > rest,
            Order::Descending => id < rest,
        })
    }
}
