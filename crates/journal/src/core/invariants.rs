//! Invariants of the state.

use std::collections::BTreeMap;

use super::block::BlockData;
use super::partition::{EditData, Partition};
use super::state::{PartitionKey, State, WAITING};

/// Describes the first invariant that is violated.
pub(crate) fn violated(state: &State) -> Option<String> {
    for (number, topic) in &state.topics {
        for (partition, index) in topic.partitions.iter().zip(1..) {
            let checks = [
                ("blocks are in order and do not overlap", blocks_are_in_order(partition)),
                ("messages and bytes are counted", contents_are_counted(partition)),
                ("only the last block is open", only_the_last_block_is_open(partition)),
                ("nothing is beyond the last id", nothing_is_beyond_the_last(partition)),
            ];
            if let Some((what, _)) = checks.iter().find(|(_, holds)| !holds) {
                return Some(format!("topic {number} partition {index}: {what}"));
            }
        }
        for (segment, facts) in &topic.segments.all {
            let live = |partition: &Partition| {
                let here = |location: &super::block::Location| location.segment == *segment;
                let blocks = partition
                    .blocks
                    .iter()
                    .filter(|block| matches!(&block.data, BlockData::Disk(at) if here(at)));
                let edits = partition
                    .edits
                    .values()
                    .filter(|edit| matches!(&edit.data, EditData::Disk(at) if here(at)));
                (blocks.count() + edits.count()) as u64
            };
            if topic.partitions.iter().map(live).sum::<u64>() != facts.live {
                return Some(format!("topic {number} segment {segment}: what is needed of it is counted"));
            }
        }
    }
    (!what_waits_is_counted(state)).then(|| "what is delayed is in the waiting room, and counted".to_owned())
}

fn what_waits_is_counted(state: &State) -> bool {
    let mut waiting = BTreeMap::new();
    state.delayed.values().for_each(|partition_key| *waiting.entry(*partition_key).or_insert(0) += 1);
    let counted = state.listed().all(|(number, topic)| {
        let mut partitions = topic.partitions.iter().zip(1..);
        partitions.all(|(partition, index)| {
            partition.delayed == waiting.get(&PartitionKey::new(number, index)).copied().unwrap_or(0)
        })
    });
    counted && state.partition(WAITING).is_some_and(|room| room.messages == state.delayed.len() as u64)
}

fn blocks_are_in_order(partition: &Partition) -> bool {
    let each = partition.blocks.iter().all(|block| block.first <= block.last && block.live().0 > 0);
    let pairs = partition.blocks.iter().zip(partition.blocks.iter().skip(1));
    each && pairs.into_iter().all(|(one, next)| one.last < next.first)
}

fn contents_are_counted(partition: &Partition) -> bool {
    let blocks = partition.blocks.iter().map(super::block::Block::live);
    let edits = partition.edits.values().map(|edit| (1, u64::from(edit.bytes)));
    let (messages, bytes) = blocks.chain(edits).fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    (messages, bytes) == (partition.messages, partition.bytes)
}

fn only_the_last_block_is_open(partition: &Partition) -> bool {
    let before_last = partition.blocks.len().saturating_sub(1);
    partition.blocks.iter().take(before_last).all(|block| !matches!(block.data, BlockData::Open(_)))
}

fn nothing_is_beyond_the_last(partition: &Partition) -> bool {
    let block = partition.blocks.back().is_none_or(|block| block.last <= partition.last);
    block && partition.edits.last_key_value().is_none_or(|(id, _)| *id <= partition.last)
}
