//! What is old enough to go. Whole segments, oldest first.

use super::block::{Location, Place};
use super::partition::EditPlace;
use super::state::{Spot, State};
use super::topic::{TopicState, ticks};

/// A message is kept a little beyond the end of its life, so that one clock can be a little behind another.
const EXPIRED_TICKS: u64 = 10_000_000;

/// What retention lets go now: in each partition all up to an id, and whether readers are told of a gap.
pub(crate) fn drops(state: &State, now: u64) -> Vec<(Spot, u64, bool)> {
    let mut drops = Vec::new();
    for (number, topic) in state.listed() {
        if let Some((segment, gap)) = oldest_to_go(topic, now) {
            drops.extend(through(number, topic, segment, gap).map(|(spot, through)| (spot, through, gap)));
        }
    }
    drops
}

/// The newest segment of a topic that goes with all before it.
fn oldest_to_go(topic: &TopicState, now: u64) -> Option<(u32, bool)> {
    let live = || topic.segments.all.iter().filter(|(_, segment)| segment.live > 0);
    let mut bytes: u64 = live().map(|(_, segment)| segment.bytes).sum();
    let mut going = None;
    for (number, segment) in live() {
        let old = topic.config.retention.is_some_and(|age| segment.newest < now.saturating_sub(ticks(age)));
        // No less is left than was asked for; and what is still being written to stays.
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

/// The last id of each partition in this segment and those before it. Where nobody is told, nothing goes but what is in
/// them: a message that was put in the place of an expired one may live on.
fn through(
    number: u32,
    topic: &TopicState,
    segment: u32,
    gap: bool,
) -> impl Iterator<Item = (Spot, u64)> + '_ {
    let goes = move |location: &Location| location.segment <= segment;
    topic.partitions.iter().zip(1..).filter_map(move |(partition, spot)| {
        let blocks = partition.blocks.iter().map(|block| {
            let goes = matches!(&block.place, Place::Disk(location) if goes(location));
            (goes, block.first, block.last)
        });
        let edits = partition.edits.iter().map(|(id, edited)| {
            let goes = matches!(&edited.place, EditPlace::Disk(location) if goes(location));
            (goes, *id, *id)
        });
        let all = blocks.chain(edits);
        let staying = all.clone().filter(|(goes, ..)| !goes).map(|(_, first, _)| first).min();
        let stays = staying.filter(|_| !gap).unwrap_or(u64::MAX);
        let last = all.filter(|(goes, _, last)| *goes && *last < stays).map(|(.., last)| last).max()?;
        Some(((number, spot), last))
    })
}
