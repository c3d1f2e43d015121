//! One partition: its messages as an index of blocks, what was edited, and who reads it.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;

use super::block::{self, Block, Location, Place};
use super::message;
use super::topic::Segments;
use crate::Fence;
use crate::commit::Opened;
use crate::id::{MessageId, Ticks};
use crate::read::Message;
use crate::topic::Consumer;

/// All that is known of a partition. Its size grows with the number of blocks, not of messages.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Partition {
    /// The newest id given away.
    pub(crate) last: u64,
    /// All up to here was dropped by retention or a trim.
    pub(crate) trimmed: u64,
    /// No block that ends at or before this is left, whatever segments hold.
    pub(crate) floor: u64,
    /// In order; no two overlap.
    pub(crate) blocks: VecDeque<Block>,
    /// Messages that were put under an id; blocks do not have these ids, or have them removed.
    pub(crate) edits: BTreeMap<u64, Edited>,
    pub(crate) consumers: BTreeMap<Consumer, Reader>,
    /// Messages that are there, and their bytes.
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
    /// Appends that are not due yet.
    pub(crate) delayed: u64,
}

/// A message that was put under its id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Edited {
    pub(crate) place: EditPlace,
    pub(crate) bytes: u32,
}

/// Where an edited message is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum EditPlace {
    /// The message itself.
    Memory(Bytes),
    /// In this block of edits.
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
        // Copied: slices would keep all that they came with.
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

/// Where an id was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// Among the edits.
    Edit,
    /// Message `index` of a block in memory, with so many bytes.
    Memory { index: u32, bytes: u32 },
    /// If at all, in this block on disk.
    Disk(Location),
    /// Nowhere.
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
        // Full: no more is added, so that readers can share it.
        if let Some(full) = self.blocks.back_mut() {
            full.freeze();
        }
        let mut block = Block::new(message);
        block.push(message);
        self.blocks.push_back(block);
    }

    /// The block in which an id is, if it is in one.
    pub(crate) fn block_of(&self, id: u64) -> Option<usize> {
        let at = self.blocks.partition_point(|block| block.last < id);
        self.blocks.get(at).filter(|block| block.first <= id).map(|_| at)
    }

    /// Finds a message that was not removed.
    pub(crate) fn find(&self, id: u64) -> Found {
        if self.edits.contains_key(&id) {
            return Found::Edit;
        }
        let Some(block) = self.block_of(id).map(|at| &self.blocks[at]) else { return Found::Nothing };
        match (&block.place, block.memory()) {
            (Place::Disk(location), _) => Found::Disk(*location),
            (_, Some(bytes)) => match block::find(bytes, id) {
                Some((index, head)) if !block.has_removed(index) => {
                    Found::Memory { index, bytes: head.len as u32 }
                }
                _ => Found::Nothing,
            },
            _ => Found::Nothing,
        }
    }

    /// Takes message `index` out of the block of `id`; in memory it is looked for, for blocks in memory may be cut
    /// otherwise after a restart. Tells whether it was there.
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

    /// Puts a message under its id, in place of an edited one.
    pub(crate) fn put(&mut self, message: &Message, segments: &mut Segments) {
        self.take_edit(message.id.0.0, segments);
        let mut encoded = Vec::with_capacity(message::encoded_len(message));
        message::encode(message, &mut encoded);
        let bytes = encoded.len() as u32;
        self.edits.insert(message.id.0.0, Edited { place: EditPlace::Memory(encoded.into()), bytes });
        self.messages += 1;
        self.bytes += u64::from(bytes);
        self.last = self.last.max(message.id.0.0);
    }

    /// Takes an edited message away. Tells whether it was there.
    pub(crate) fn take_edit(&mut self, id: u64, segments: &mut Segments) -> bool {
        let Some(edited) = self.edits.remove(&id) else { return false };
        self.messages -= 1;
        self.bytes -= u64::from(edited.bytes);
        if let EditPlace::Disk(location) = edited.place {
            segments.release(location);
        }
        true
    }

    /// Drops all messages up to `through`. Of a block on disk that it ends in, `cut` tells how many messages that are, and
    /// the bytes of those among them that were still there.
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
                    // The first that was still there takes all the bytes: only their sum counts.
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
        if let Place::Disk(location) = block.place {
            segments.release(location);
            if at != 0 {
                segments.punch(location);
            }
        }
    }

    /// The oldest id that is there; of a block of which messages were removed, at least.
    pub(crate) fn first(&self) -> Option<u64> {
        let block = self.blocks.front().map(|block| block.first);
        let edit = self.edits.first_key_value().map(|(id, _)| *id);
        block.into_iter().chain(edit).min()
    }
}
