//! What is decided but not durable: the next decision of the same group must know of it, readers must not.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;

use super::dedup::Use;
use super::state::{Spot, State};
use crate::Fence;
use crate::topic::Consumer;

/// Decisions of the group that is being gathered.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    last: HashMap<Spot, u64>,
    dedup: HashMap<(u32, Bytes), Use>,
    /// Fence and position.
    readers: HashMap<(Spot, Consumer), (Fence, u64)>,
    edited: HashSet<(Spot, u64)>,
    /// Bytes of state records that are on their way.
    states: HashMap<(Spot, Consumer), u64>,
    /// Something was decided.
    any: bool,
    /// Something was decided that nothing else may stand beside.
    exclusive: bool,
}

impl Pending {
    /// Something was decided.
    pub(crate) fn decided(&mut self) {
        self.any = true;
    }

    /// Something is decided that nothing else may stand beside. False when it must wait for the next group.
    pub(crate) fn claim(&mut self) -> bool {
        if self.any {
            return false;
        }
        (self.any, self.exclusive) = (true, true);
        true
    }

    /// Whether everything must wait for the next group.
    pub(crate) fn is_exclusive(&self) -> bool {
        self.exclusive
    }

    /// The next id of a partition.
    pub(crate) fn next_id(&mut self, state: &State, spot: Spot, now: u64) -> u64 {
        let applied = || state.partition(spot).map_or(0, |partition| partition.last);
        let last = self.last.entry(spot).or_insert_with(applied);
        *last = now.max(*last + 1);
        *last
    }

    /// Whether messages of this partition are on their way.
    pub(crate) fn has_appends(&self, spot: Spot) -> bool {
        self.last.contains_key(&spot)
    }

    /// The partition's newest id is this one.
    pub(crate) fn raise(&mut self, spot: Spot, id: u64) {
        self.last.insert(spot, id);
    }

    /// What a dedup id was used for.
    pub(crate) fn used(&self, state: &State, topic: u32, id: &Bytes) -> Option<Use> {
        let pending =
            if self.dedup.is_empty() { None } else { self.dedup.get(&(topic, id.clone())).copied() };
        pending.or_else(|| state.topics.get(&topic)?.dedup.find(id))
    }

    pub(crate) fn use_id(&mut self, topic: u32, id: &Bytes, used: Use) {
        self.dedup.insert((topic, id.clone()), used);
    }

    /// Fence and position of a consumer; nothing if it has never opened the partition.
    pub(crate) fn reader(&self, state: &State, spot: Spot, consumer: &Consumer) -> Option<(Fence, u64)> {
        let pending =
            if self.readers.is_empty() { None } else { self.readers.get(&(spot, consumer.clone())) };
        pending.copied().or_else(|| {
            let reader = state.partition(spot)?.consumers.get(consumer)?;
            Some((reader.fence, reader.position))
        })
    }

    /// Whether a consumer's part is on its way.
    pub(crate) fn has_reader(&self, spot: Spot, consumer: &Consumer) -> bool {
        self.readers.contains_key(&(spot, consumer.clone()))
    }

    pub(crate) fn set_reader(&mut self, spot: Spot, consumer: &Consumer, fence: Fence, position: u64) {
        self.readers.insert((spot, consumer.clone()), (fence, position));
    }

    /// How many consumers are on their way, at most.
    pub(crate) fn readers(&self) -> usize {
        self.readers.len()
    }

    /// Bytes of state of a consumer that are on their way; nothing if none of it changes.
    pub(crate) fn held(&self, spot: Spot, consumer: &Consumer) -> Option<u64> {
        if self.states.is_empty() { None } else { self.states.get(&(spot, consumer.clone())).copied() }
    }

    pub(crate) fn hold(&mut self, spot: Spot, consumer: &Consumer, bytes: u64) {
        *self.states.entry((spot, consumer.clone())).or_default() += bytes;
    }

    /// Notes an edit. False if there is one of the same message.
    pub(crate) fn edit(&mut self, spot: Spot, id: u64) -> bool {
        self.edited.insert((spot, id))
    }

    pub(crate) fn has_edit(&self, spot: Spot, id: u64) -> bool {
        self.edited.contains(&(spot, id))
    }
}
