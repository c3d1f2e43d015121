//! Decisions that are not durable yet: the next decision of the same group must see them, readers must not.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;

use super::dedup::Use;
use super::state::{PartitionKey, State};
use crate::Fence;
use crate::topic::Consumer;

/// Decisions of the group that is being collected.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    last: HashMap<PartitionKey, u64>,
    dedup: HashMap<(u32, Bytes), Use>,
    /// Fence and position.
    readers: HashMap<(PartitionKey, Consumer), (Fence, u64)>,
    edited: HashSet<(PartitionKey, u64)>,
    /// Bytes of state records in flight.
    states: HashMap<(PartitionKey, Consumer), u64>,
    /// Something was decided in this group.
    any: bool,
    /// A decision that must be alone in its group.
    exclusive: bool,
}

impl Pending {
    /// Something was decided in this group.
    pub(crate) fn decided(&mut self) {
        self.any = true;
    }

    /// Claims the group for one exclusive decision. `false`: it must wait for the next group.
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
    pub(crate) fn next_id(&mut self, state: &State, partition_key: PartitionKey, now: u64) -> u64 {
        let applied = || state.partition(partition_key).map_or(0, |partition| partition.last);
        let last = self.last.entry(partition_key).or_insert_with(applied);
        *last = now.max(*last + 1);
        *last
    }

    /// Whether appends to this partition are in flight.
    pub(crate) fn has_appends(&self, partition_key: PartitionKey) -> bool {
        self.last.contains_key(&partition_key)
    }

    /// Sets the partition's newest id.
    pub(crate) fn raise(&mut self, partition_key: PartitionKey, id: u64) {
        self.last.insert(partition_key, id);
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

    /// Fence and position of a consumer; `None` if it has never opened the partition.
    pub(crate) fn reader(
        &self,
        state: &State,
        partition_key: PartitionKey,
        consumer: &Consumer,
    ) -> Option<(Fence, u64)> {
        let pending =
            if self.readers.is_empty() { None } else { self.readers.get(&(partition_key, consumer.clone())) };
        pending.copied().or_else(|| {
            let reader = state.partition(partition_key)?.consumers.get(consumer)?;
            Some((reader.fence, reader.position))
        })
    }

    /// Whether a change of this consumer is in flight.
    pub(crate) fn has_reader(&self, partition_key: PartitionKey, consumer: &Consumer) -> bool {
        self.readers.contains_key(&(partition_key, consumer.clone()))
    }

    pub(crate) fn set_reader(
        &mut self,
        partition_key: PartitionKey,
        consumer: &Consumer,
        fence: Fence,
        position: u64,
    ) {
        self.readers.insert((partition_key, consumer.clone()), (fence, position));
    }

    /// Upper bound of consumers in flight.
    pub(crate) fn readers(&self) -> usize {
        self.readers.len()
    }

    /// Bytes of a consumer's state in flight; `None` if none of it changes.
    pub(crate) fn state_bytes(&self, partition_key: PartitionKey, consumer: &Consumer) -> Option<u64> {
        if self.states.is_empty() {
            None
        } else {
            self.states.get(&(partition_key, consumer.clone())).copied()
        }
    }

    pub(crate) fn add_state_bytes(&mut self, partition_key: PartitionKey, consumer: &Consumer, bytes: u64) {
        *self.states.entry((partition_key, consumer.clone())).or_default() += bytes;
    }

    /// Records an edit. `false`: there is one of the same message.
    pub(crate) fn edit(&mut self, partition_key: PartitionKey, id: u64) -> bool {
        self.edited.insert((partition_key, id))
    }

    pub(crate) fn has_edit(&self, partition_key: PartitionKey, id: u64) -> bool {
        self.edited.contains(&(partition_key, id))
    }
}
