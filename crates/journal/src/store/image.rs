//! The state at one moment, for a snapshot, and the messages that are in no segment yet.

use std::sync::Arc;

use bytes::Bytes;

use crate::core::block::{Block, BlockData, Location, Removed};
use crate::core::partition::{EditData, Partition, Reader};
use crate::core::state::{PartitionKey, State};
use crate::core::topic::{Segment, TopicState};
use crate::topic::{Consumer, Topic, TopicConfig};

/// The captured state.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Image {
    /// The last record of the log that it includes.
    pub(crate) sequence: u64,
    pub(crate) newest: u64,
    /// The time that dedup windows count with; 0 if an old version wrote the snapshot.
    pub(crate) steady: u64,
    pub(crate) next_topic: u32,
    pub(crate) topics: Vec<TopicImage>,
    pub(crate) delayed: Vec<((u64, u64), PartitionKey)>,
    /// Files of dedup ids, by sequence, with the time until which they are needed.
    pub(crate) ids: Vec<(u64, u64)>,
    /// What returns to the state if the image cannot be made durable.
    pub(crate) fresh: Fresh,
}

/// What is new since the previous image.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Fresh {
    /// Bytes of messages.
    pub(crate) bytes: u64,
    /// Dedup ids for the next file of them, and until when they are needed.
    pub(crate) ids: Arc<Vec<u8>>,
    pub(crate) ids_until: u64,
}

impl Fresh {
    fn take(state: &mut State) -> Self {
        Self {
            bytes: std::mem::take(&mut state.fresh_bytes),
            ids: Arc::new(std::mem::take(&mut state.fresh_ids)),
            ids_until: std::mem::take(&mut state.fresh_ids_until),
        }
    }

    /// Returns it to the state. The blocks are still in memory, so the next image includes them.
    pub(crate) fn give_back(&self, state: &mut State) {
        state.fresh_bytes += self.bytes;
        let later = std::mem::replace(&mut state.fresh_ids, self.ids.to_vec());
        state.fresh_ids.extend(later);
        state.fresh_ids_until = state.fresh_ids_until.max(self.ids_until);
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TopicImage {
    pub(crate) number: u32,
    pub(crate) name: Topic,
    pub(crate) config: TopicConfig,
    pub(crate) next_segment: u32,
    pub(crate) segments: Vec<(u32, Segment)>,
    pub(crate) partitions: Vec<PartitionImage>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PartitionImage {
    pub(crate) last: u64,
    pub(crate) trimmed: u64,
    pub(crate) floor: u64,
    pub(crate) consumers: Vec<(Consumer, Reader)>,
    /// Edited messages: id, data, bytes.
    pub(crate) edits: Vec<(u64, EditData, u32)>,
    /// Removed messages of blocks in segments.
    pub(crate) removed: Vec<(Location, Removed)>,
    /// Blocks that are in no segment yet.
    pub(crate) frozen: Vec<Block>,
}

impl Image {
    /// Captures the state, and freezes the blocks in memory. `sequence` is the last applied record.
    pub(crate) fn capture(state: &mut State, sequence: u64, steady: u64) -> Self {
        Self {
            steady,
            fresh: Fresh::take(state),
            sequence,
            newest: state.newest,
            next_topic: state.next_topic,
            delayed: state.delayed.iter().map(|(key, partition_key)| (*key, *partition_key)).collect(),
            ids: Vec::new(),
            topics: state
                .topics
                .iter_mut()
                .map(|(number, topic)| TopicImage::capture(*number, topic))
                .collect(),
        }
    }
}

impl TopicImage {
    fn capture(number: u32, topic: &mut TopicState) -> Self {
        // Obsolete segments are left out; their files are removed when this image is durable.
        topic.segments.all.retain(|_, segment| segment.live > 0);
        Self {
            number,
            name: topic.name.clone(),
            config: topic.config.clone(),
            next_segment: topic.segments.next,
            segments: topic.segments.all.iter().map(|(number, segment)| (*number, segment.clone())).collect(),
            partitions: topic.partitions.iter_mut().map(PartitionImage::capture).collect(),
        }
    }
}

impl PartitionImage {
    fn capture(partition: &mut Partition) -> Self {
        let mut image = Self {
            last: partition.last,
            trimmed: partition.trimmed,
            floor: partition.floor,
            consumers: partition
                .consumers
                .iter()
                .map(|(name, reader)| (name.clone(), reader.clone()))
                .collect(),
            edits: partition.edits.iter().map(|(id, edit)| (*id, edit.data.clone(), edit.bytes)).collect(),
            ..Self::default()
        };
        // Blocks in memory are the last ones.
        for block in partition.blocks.iter_mut().rev().take_while(|block| block.memory().is_some()) {
            block.freeze();
            image.frozen.push(block.clone());
        }
        image.frozen.reverse();
        for block in &partition.blocks {
            if let (BlockData::Disk(location), Some(removed)) = (&block.data, &block.removed) {
                image.removed.push((*location, removed.as_ref().clone()));
            }
        }
        image
    }

    /// Edited messages that are in no segment yet.
    pub(crate) fn fresh_edits(&self) -> impl Iterator<Item = (u64, &Bytes)> {
        self.edits.iter().filter_map(|(id, place, _)| match place {
            EditData::Memory(bytes) => Some((*id, bytes)),
            EditData::Disk(_) => None,
        })
    }

    /// Whether there is something to write to a segment.
    pub(crate) fn is_fresh(&self) -> bool {
        !self.frozen.is_empty() || self.fresh_edits().next().is_some()
    }
}
