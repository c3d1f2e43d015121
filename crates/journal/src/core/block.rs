//! Blocks: neighbouring messages of a partition, the unit in which they are stored, compressed and found.

use bytes::Bytes;

use super::message::{self, Head};
use crate::read::Message;

/// A block is full at this length. A longer message gets its own block.
pub(crate) const BLOCK_BYTES: usize = 64 << 10;

/// The bytes of a block, or where they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum BlockData {
    /// In memory, and still growing.
    Open(Vec<u8>),
    /// In memory and immutable, to be written to a segment.
    Frozen(Bytes),
    /// In a segment of the topic.
    Disk(Location),
}

/// A block in a segment's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Location {
    pub(crate) segment: u32,
    pub(crate) offset: u32,
    /// Length of the block with its header.
    pub(crate) len: u32,
}

/// Messages `first` to `last` of a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) first: u64,
    pub(crate) last: u64,
    /// Messages, removed ones included; and their bytes.
    pub(crate) count: u32,
    pub(crate) bytes: u32,
    /// When the last of them expires; `u64::MAX` if one never does.
    pub(crate) expires: u64,
    pub(crate) data: BlockData,
    pub(crate) removed: Option<Box<Removed>>,
}

/// The removed messages of a block.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Removed {
    bits: Vec<u64>,
    pub(crate) count: u32,
    pub(crate) bytes: u32,
}

impl Removed {
    pub(crate) fn has(&self, index: u32) -> bool {
        self.bits.get(index as usize / 64).is_some_and(|word| word >> (index % 64) & 1 == 1)
    }

    /// Returns whether it was new.
    fn add(&mut self, index: u32, bytes: u32) -> bool {
        if self.has(index) {
            return false;
        }
        let word = index as usize / 64;
        if self.bits.len() <= word {
            self.bits.resize(word + 1, 0);
        }
        self.bits[word] |= 1 << (index % 64);
        self.count += 1;
        self.bytes += bytes;
        true
    }

    pub(crate) fn words(&self) -> &[u64] {
        &self.bits
    }

    pub(crate) fn from_words(bits: Vec<u64>, bytes: u32) -> Self {
        let count = bits.iter().map(|word| word.count_ones()).sum();
        Self { bits, count, bytes }
    }
}

impl Block {
    pub(crate) fn new(message: &Message) -> Self {
        Self {
            first: message.id.0.0,
            last: message.id.0.0,
            count: 0,
            bytes: 0,
            expires: 0,
            data: BlockData::Open(Vec::new()),
            removed: None,
        }
    }

    /// Adds a message, unless the block is closed or full.
    pub(crate) fn push(&mut self, message: &Message) -> bool {
        let BlockData::Open(bytes) = &mut self.data else { return false };
        let len = message::encoded_len(message);
        if self.count > 0 && bytes.len() + len > BLOCK_BYTES {
            return false;
        }
        message::encode(message, bytes);
        self.last = message.id.0.0;
        self.count += 1;
        self.bytes += len as u32;
        self.expires = self.expires.max(message.expires.map_or(u64::MAX, |ticks| ticks.0));
        true
    }

    /// Makes its bytes immutable and shareable.
    pub(crate) fn freeze(&mut self) {
        if let BlockData::Open(bytes) = &mut self.data {
            self.data = BlockData::Frozen(std::mem::take(bytes).into());
        }
    }

    /// Marks a message as removed. Returns whether it was there.
    pub(crate) fn remove(&mut self, index: u32, bytes: u32) -> bool {
        self.removed.get_or_insert_default().add(index, bytes)
    }

    /// Messages that are left, and their bytes.
    pub(crate) fn live(&self) -> (u64, u64) {
        let (count, bytes) = self.removed.as_ref().map_or((0, 0), |removed| (removed.count, removed.bytes));
        (u64::from(self.count - count), u64::from(self.bytes - bytes))
    }

    pub(crate) fn has_removed(&self, index: u32) -> bool {
        self.removed.as_ref().is_some_and(|removed| removed.has(index))
    }

    /// The bytes, if they are in memory.
    pub(crate) fn memory(&self) -> Option<&[u8]> {
        match &self.data {
            BlockData::Open(bytes) => Some(bytes),
            BlockData::Frozen(bytes) => Some(bytes),
            BlockData::Disk(_) => None,
        }
    }
}

/// Finds the message with this id in the bytes of a block, with its index there.
pub(crate) fn find(bytes: &[u8], id: u64) -> Option<(u32, Head)> {
    message::heads(bytes)
        .enumerate()
        .take_while(|(_, head)| head.id <= id)
        .find(|(_, head)| head.id == id)
        .map(|(index, head)| (index as u32, head))
}
