//! The state of the journal.

use std::collections::{BTreeMap, HashMap};

use super::partition::Partition;
use super::topic::TopicState;
use crate::error::JournalError;
use crate::topic::{PartitionId, Topic, TopicConfig};

/// The topic in which delayed appends wait. Its name is not one that users could give, and it is not listed.
pub(crate) const WAITING_ROOM: u32 = 0;
const WAITING_ROOM_NAME: &str = "(delayed)";

/// A partition by numbers, as the log and the segments name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PartitionKey {
    pub(crate) topic: u32,
    /// Counts from 1.
    pub(crate) partition: u32,
}

impl PartitionKey {
    pub(crate) const fn new(topic: u32, partition: u32) -> Self {
        Self { topic, partition }
    }
}
/// The one partition of the waiting room.
pub(crate) const WAITING: PartitionKey = PartitionKey::new(WAITING_ROOM, 1);

/// Everything the journal knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) topics: BTreeMap<u32, TopicState>,
    pub(crate) names: HashMap<Topic, u32>,
    /// The number of the next topic; numbers are never reused.
    pub(crate) next_topic: u32,
    /// Delayed appends: the due time and the id in the waiting room, to the partition.
    pub(crate) delayed: BTreeMap<(u64, u64), PartitionKey>,
    /// The newest time in any record, which never goes back, even if the wall clock does.
    pub(crate) newest: u64,
    /// The latest time of a recorded dedup id ([`Steady`](super::clock::Steady)).
    pub(crate) steady: u64,
    /// Bytes of messages that are in no segment yet.
    pub(crate) fresh_bytes: u64,
    /// Dedup ids recorded since the last snapshot began, encoded, and until when they are needed.
    pub(crate) fresh_ids: Vec<u8>,
    pub(crate) fresh_ids_until: u64,
}

impl State {
    pub(crate) fn new() -> Self {
        let name = Topic::new(WAITING_ROOM_NAME).expect("it is a name");
        let room = TopicState::new(name, TopicConfig::partitions(1));
        Self {
            topics: BTreeMap::from([(WAITING_ROOM, room)]),
            names: HashMap::new(),
            next_topic: WAITING_ROOM + 1,
            delayed: BTreeMap::new(),
            newest: 0,
            steady: 0,
            fresh_bytes: 0,
            fresh_ids: Vec::new(),
            fresh_ids_until: 0,
        }
    }

    /// The topics that users see.
    pub(crate) fn listed(&self) -> impl Iterator<Item = (u32, &TopicState)> {
        self.topics
            .iter()
            .filter(|(number, _)| **number != WAITING_ROOM)
            .map(|(number, topic)| (*number, topic))
    }

    /// A topic by its name.
    pub(crate) fn topic(&self, topic: &Topic) -> Result<(u32, &TopicState), JournalError> {
        let number = self.names.get(topic).ok_or_else(|| JournalError::NoTopic { topic: topic.clone() })?;
        Ok((*number, &self.topics[number]))
    }

    /// A partition by its name.
    pub(crate) fn partition_key(&self, partition: &PartitionId) -> Result<PartitionKey, JournalError> {
        let (number, topic) = self.topic(&partition.topic)?;
        match topic.partition(partition.number) {
            Some(_) => Ok(PartitionKey::new(number, partition.number)),
            None => Err(JournalError::NoPartition {
                partition: partition.clone(),
                partitions: topic.config.partitions,
            }),
        }
    }

    /// A partition by its numbers.
    pub(crate) fn partition(&self, PartitionKey { topic, partition }: PartitionKey) -> Option<&Partition> {
        self.topics.get(&topic)?.partition(partition)
    }

    /// Bytes of all segments.
    pub(crate) fn segment_bytes(&self) -> u64 {
        self.topics.values().map(|topic| topic.segments.bytes()).sum()
    }
}
