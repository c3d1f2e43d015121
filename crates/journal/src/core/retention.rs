//! Retention: drops whole segments, oldest first.

use super::block::{BlockData, Location};
use super::partition::EditData;
use super::state::{PartitionKey, State};
use super::topic::{TopicState, ticks};

/// How long expired messages are kept: an hour, in which workers see that they have expired, and say so.
const EXPIRED_TICKS: u64 = 3600 * 10_000_000;

/// What retention drops now: in each partition all up to an id, and whether readers see a gap.
pub(crate) fn drops(state: &State, now: u64) -> Vec<(PartitionKey, u64, bool)> {
    let mut drops = Vec::new();
    for (number, topic) in state.listed() {
        if let Some((segment, gap)) = oldest_to_go(topic, now) {
            drops.extend(
                through(number, topic, segment, gap)
                    .map(|(partition_key, through)| (partition_key, through, gap)),
            );
        }
    }
    drops
}

/// The newest segment that is dropped, with all before it, and whether readers see a gap.
fn oldest_to_go(topic: &TopicState, now: u64) -> Option<(u32, bool)> {
    let live = || topic.segments.all.iter().filter(|(_, segment)| segment.live > 0);
    let mut bytes: u64 = live().map(|(_, segment)| segment.bytes).sum();
    let mut going = None;
    for (number, segment) in live() {
        let old = topic.config.retention.is_some_and(|age| segment.newest < now.saturating_sub(ticks(age)));
        // Never keep less than configured; and the segment that is being written stays.
        let rest = bytes - segment.bytes;
        let large = topic.config.retention_bytes.is_some_and(|keep| rest >= keep) && segment.index.is_some();
        let expired = segment.expires.saturating_add(EXPIRED_TICKS) < now;
        if !old && !large && !expired {
            break;
        }
        let gap = going.is_some_and(|(_, gap)| gap) || !expired;
        going = Some((*number, gap));
        bytes = rest;
    }
    going
}

/// The last id of each partition in this segment and those before it. Without a gap, nothing outside of these segments
/// goes: a message that replaced an expired one may live on.
fn through(
    number: u32,
    topic: &TopicState,
    segment: u32,
    gap: bool,
) -> impl Iterator<Item = (PartitionKey, u64)> + '_ {
    let goes = move |location: &Location| location.segment <= segment;
    topic.partitions.iter().zip(1..).filter_map(move |(partition, index)| {
        let blocks = partition.blocks.iter().map(|block| {
            let goes = matches!(&block.data, BlockData::Disk(location) if goes(location));
            (goes, block.first, block.last)
        });
        let edits = partition.edits.iter().map(|(id, edited)| {
            let goes = matches!(&edited.data, EditData::Disk(location) if goes(location));
            (goes, *id, *id)
        });
        let all = blocks.chain(edits);
        let staying = all.clone().filter(|(goes, ..)| !goes).map(|(_, first, _)| first).min();
        let stays = staying.filter(|_| !gap).unwrap_or(u64::MAX);
        let last = all.filter(|(goes, _, last)| *goes && *last < stays).map(|(.., last)| last).max()?;
        Some((PartitionKey::new(number, index), last))
    })
}
