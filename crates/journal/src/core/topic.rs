//! A topic: its partitions and the segments that hold them.

use std::collections::BTreeMap;

use super::block::Location;
use super::dedup::Dedup;
use super::partition::Partition;
use crate::topic::{Topic, TopicConfig};

/// One topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TopicState {
    pub(crate) name: Topic,
    pub(crate) config: TopicConfig,
    pub(crate) partitions: Vec<Partition>,
    pub(crate) segments: Segments,
    pub(crate) dedup: Dedup,
}

/// The segments of a topic, by number.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Segments {
    pub(crate) all: BTreeMap<u32, Segment>,
    /// The number of the next segment; numbers are never reused.
    pub(crate) next: u32,
}

/// One segment: a file of blocks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Segment {
    /// Length of its file.
    pub(crate) bytes: u64,
    /// Where its index begins; `None` while blocks may be added.
    pub(crate) index: Option<u32>,
    /// Oldest and newest id in it.
    pub(crate) oldest: u64,
    pub(crate) newest: u64,
    /// When the last of its messages expires; `u64::MAX` if one never does.
    pub(crate) expires: u64,
    /// Blocks and edited messages in it that are still needed.
    pub(crate) live: u64,
    /// Offsets of blocks that are obsolete although older ones of their partition are not.
    pub(crate) holes: Vec<u32>,
}

impl Segments {
    /// Counts one item of a segment as obsolete.
    pub(crate) fn release(&mut self, location: Location) {
        if let Some(segment) = self.all.get_mut(&location.segment) {
            segment.live = segment.live.saturating_sub(1);
        }
    }

    /// Records an obsolete block that its partition's floor does not cover.
    pub(crate) fn punch(&mut self, location: Location) {
        if let Some(segment) = self.all.get_mut(&location.segment) {
            segment.holes.push(location.offset);
        }
    }

    /// Bytes of all files.
    pub(crate) fn bytes(&self) -> u64 {
        self.all.values().map(|segment| segment.bytes).sum()
    }
}

impl TopicState {
    pub(crate) fn new(name: Topic, config: TopicConfig) -> Self {
        let partitions = (0..config.partitions).map(|_| Partition::default()).collect();
        Self { name, config, partitions, segments: Segments::default(), dedup: Dedup::default() }
    }

    /// A partition by its number, which counts from 1.
    pub(crate) fn partition(&self, number: u32) -> Option<&Partition> {
        self.partitions.get((number as usize).checked_sub(1)?)
    }

    /// A partition to change, with the segments that changes may release.
    pub(crate) fn partition_mut(&mut self, number: u32) -> Option<(&mut Partition, &mut Segments)> {
        let partition = self.partitions.get_mut((number as usize).checked_sub(1)?)?;
        Some((partition, &mut self.segments))
    }

    /// For how many ticks a dedup id is remembered.
    pub(crate) fn dedup_ticks(&self) -> u64 {
        ticks(self.config.dedup_window)
    }
}

pub(crate) fn ticks(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_nanos() / 100).unwrap_or(u64::MAX)
}
