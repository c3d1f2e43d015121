//! One partition: its messages as an index of blocks, its edited messages, and its consumers.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;

use super::block::{self, Block, BlockData, Location};
use super::message;
use super::topic::Segments;
use crate::Fence;
use crate::commit::Opened;
use crate::id::{MessageId, Ticks};
use crate::read::Message;
use crate::topic::Consumer;

/// The state of a partition. Its size grows with the number of blocks, not of messages.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Partition {
    /// The newest assigned id.
    pub(crate) last: u64,
    /// Retention or a trim dropped everything up to this id.
    pub(crate) trimmed: u64,
    /// Blocks that end at or before this id are gone, even if segments still hold them.
    pub(crate) floor: u64,
    /// In order; no two overlap.
    pub(crate) blocks: VecDeque<Block>,
    /// Edited messages, by id; blocks do not have these ids, or have them removed.
    pub(crate) edits: BTreeMap<u64, Edited>,
    pub(crate) consumers: BTreeMap<Consumer, Reader>,
    /// Number of messages, and their bytes.
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
    /// Appends that are not due yet.
    pub(crate) delayed: u64,
}

/// A message that was stored under a given id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Edited {
    pub(crate) data: EditData,
    pub(crate) bytes: u32,
}

/// Where an edited message is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum EditData {
    /// The message itself.
    Memory(Bytes),
    /// In this block of edited messages.
    Disk(Location),
}

/// A consumer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Reader {
    pub(crate) fence: Fence,
    pub(crate) position: u64,
    pub(crate) state: BTreeMap<Bytes, Bytes>,
    /// Bytes of its keys and values.
    pub(crate) state_bytes: u64,
}

impl Reader {
    /// Sets or removes a state record.
    pub(crate) fn set(&mut self, key: &[u8], value: Option<&[u8]>) {
        // Copied: slices would keep their whole batch in memory.
        let copy = Bytes::copy_from_slice;
        let before = match value {
            Some(value) => self.state.insert(copy(key), copy(value)),
            None => self.state.remove(key),
        };
        let bytes = |value: Option<usize>| value.map_or(0, |value| (key.len() + value) as u64);
        self.state_bytes -= bytes(before.map(|value| value.len()));
        self.state_bytes += bytes(value.map(<[u8]>::len));
    }

    pub(crate) fn opened(&self) -> Opened {
        Opened {
            fence: self.fence,
            position: MessageId(Ticks(self.position)),
            state: self.state.iter().map(|(key, value)| (key.clone(), value.clone())).collect(),
        }
    }
}

/// Result of looking up an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MessageLookup {
    /// Among the edited messages.
    Edit,
    /// Message `index` of a block in memory, of this many bytes.
    Memory { index: u32, bytes: u32 },
    /// In this block on disk, if it exists.
    Disk(Location),
    /// Not found.
    Nothing,
}

impl Partition {
    /// Adds a message at the end.
    pub(crate) fn push(&mut self, message: &Message) {
        self.last = message.id.0.0;
        self.messages += 1;
        self.bytes += message::encoded_len(message) as u64;
        if self.blocks.back_mut().is_some_and(|block| block.push(message)) {
            return;
        }
        // The previous block is full: freeze it, so that readers can share it.
        if let Some(full) = self.blocks.back_mut() {
            full.freeze();
        }
        let mut block = Block::new(message);
        block.push(message);
        self.blocks.push_back(block);
    }

    /// The index of the block whose range includes an id.
    pub(crate) fn block_of(&self, id: u64) -> Option<usize> {
        let at = self.blocks.partition_point(|block| block.last < id);
        self.blocks.get(at).filter(|block| block.first <= id).map(|_| at)
    }

    /// Finds a message that was not removed.
    pub(crate) fn find(&self, id: u64) -> MessageLookup {
        if self.edits.contains_key(&id) {
            return MessageLookup::Edit;
        }
        let Some(block) = self.block_of(id).map(|at| &self.blocks[at]) else { return MessageLookup::Nothing };
        match (&block.data, block.memory()) {
            (BlockData::Disk(location), _) => MessageLookup::Disk(*location),
            (_, Some(bytes)) => match block::find(bytes, id) {
                Some((index, head)) if !block.has_removed(index) => {
                    MessageLookup::Memory { index, bytes: head.len as u32 }
                }
                _ => MessageLookup::Nothing,
            },
            _ => MessageLookup::Nothing,
        }
    }

    /// Removes message `index` from the block of `id`. For blocks in memory it searches by id, because after a restart
    /// their boundaries may differ. Returns whether it was there.
    pub(crate) fn remove(&mut self, id: u64, index: u32, bytes: u32, segments: &mut Segments) -> bool {
        let Some(at) = self.block_of(id) else { return false };
        let block = &mut self.blocks[at];
        let (index, bytes) = match block.memory() {
            None => (index, bytes),
            Some(memory) => match block::find(memory, id) {
                Some((index, head)) => (index, head.len as u32),
                None => return false,
            },
        };
        if !block.remove(index, bytes) {
            return false;
        }
        self.messages -= 1;
        self.bytes -= u64::from(bytes);
        if block.live().0 == 0 {
            self.drop_block(at, segments);
        }
        true
    }

    /// Stores a message under its id, replacing an edited one.
    pub(crate) fn put(&mut self, message: &Message, segments: &mut Segments) {
        self.take_edit(message.id.0.0, segments);
        let mut encoded = Vec::with_capacity(message::encoded_len(message));
        message::encode(message, &mut encoded);
        let bytes = encoded.len() as u32;
        self.edits.insert(message.id.0.0, Edited { data: EditData::Memory(encoded.into()), bytes });
        self.messages += 1;
        self.bytes += u64::from(bytes);
        self.last = self.last.max(message.id.0.0);
    }

    /// Removes an edited message. Returns whether it was there.
    pub(crate) fn take_edit(&mut self, id: u64, segments: &mut Segments) -> bool {
        let Some(edited) = self.edits.remove(&id) else { return false };
        self.messages -= 1;
        self.bytes -= u64::from(edited.bytes);
        if let EditData::Disk(location) = edited.data {
            segments.release(location);
        }
        true
    }

    /// Drops all messages up to `through`. If that ends within a block on disk, `cut` has the number of its messages
    /// that go, and the bytes of those that were not removed before.
    pub(crate) fn trim(&mut self, through: u64, cut: Option<(u32, u32)>, segments: &mut Segments) {
        while self.blocks.front().is_some_and(|block| block.last <= through) {
            self.drop_block(0, segments);
        }
        self.cut_front(through, cut, segments);
        while let Some((id, _)) = self.edits.first_key_value().filter(|(id, _)| **id <= through) {
            let id = *id;
            self.take_edit(id, segments);
        }
    }

    fn cut_front(&mut self, through: u64, cut: Option<(u32, u32)>, segments: &mut Segments) {
        let Some(block) = self.blocks.front_mut().filter(|block| block.first <= through) else { return };
        let before = block.live();
        match (block.memory(), cut) {
            (Some(bytes), _) => {
                let gone: Vec<(u32, u32)> = message::heads(bytes)
                    .zip(0..)
                    .take_while(|(head, _)| head.id <= through)
                    .map(|(head, index)| (index, head.len as u32))
                    .collect();
                for (index, bytes) in gone {
                    block.remove(index, bytes);
                }
            }
            (None, Some((count, mut bytes))) => {
                for index in 0..count {
                    // Attribute all bytes to the first of them: only their sum matters.
                    if block.remove(index, bytes) {
                        bytes = 0;
                    }
                }
            }
            (None, None) => {}
        }
        let after = block.live();
        self.messages -= before.0 - after.0;
        self.bytes -= before.1 - after.1;
        if after.0 == 0 {
            self.drop_block(0, segments);
        }
    }

    fn drop_block(&mut self, at: usize, segments: &mut Segments) {
        let Some(block) = self.blocks.remove(at) else { return };
        let (messages, bytes) = block.live();
        self.messages -= messages;
        self.bytes -= bytes;
        if at == 0 {
            self.floor = self.floor.max(block.last);
        }
        if let BlockData::Disk(location) = block.data {
            segments.release(location);
            if at != 0 {
                segments.punch(location);
            }
        }
    }

    /// The oldest id, or a lower bound if the first block has removed messages.
    pub(crate) fn first(&self) -> Option<u64> {
        let block = self.blocks.front().map(|block| block.first);
        let edit = self.edits.first_key_value().map(|(id, _)| *id);
        block.into_iter().chain(edit).min()
    }
}
