//! Everything the journal knows.

use std::collections::{BTreeMap, HashMap};

use super::partition::Partition;
use super::topic::TopicState;
use crate::error::JournalError;
use crate::topic::{PartitionId, Topic, TopicConfig};

/// The topic in which delayed appends wait. It has no name that a user could give and is not listed.
pub(crate) const WAITING_ROOM: u32 = 0;
const WAITING_ROOM_NAME: &str = "(delayed)";

/// A partition by numbers: how it stands in the log.
pub(crate) type Spot = (u32, u32);
/// The one partition of the waiting room.
pub(crate) const WAITING: Spot = (WAITING_ROOM, 1);

/// All of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) topics: BTreeMap<u32, TopicState>,
    pub(crate) names: HashMap<Topic, u32>,
    /// The number of the next topic; none is used twice.
    pub(crate) next_topic: u32,
    /// Appends that wait: by when they are due and their id in the waiting room, for which partition.
    pub(crate) delayed: BTreeMap<(u64, u64), Spot>,
    /// The newest time seen: the clock of records, which goes on even if the wall clock goes back.
    pub(crate) newest: u64,
    /// The latest time by which dedup ids were noted ([`Steady`](super::clock::Steady)).
    pub(crate) steady: u64,
    /// Bytes of messages that no segment has.
    pub(crate) fresh_bytes: u64,
    /// Dedup ids noted since the last snapshot began, encoded, and until when they are of use.
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

    /// The topics that users know.
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
    pub(crate) fn spot(&self, partition: &PartitionId) -> Result<Spot, JournalError> {
        let (number, topic) = self.topic(&partition.topic)?;
        match topic.partition(partition.number) {
            Some(_) => Ok((number, partition.number)),
            None => Err(JournalError::NoPartition {
                partition: partition.clone(),
                partitions: topic.config.partitions,
            }),
        }
    }

    /// A partition by its numbers.
    pub(crate) fn partition(&self, (topic, partition): Spot) -> Option<&Partition> {
        self.topics.get(&topic)?.partition(partition)
    }

    /// Bytes of all segments.
    pub(crate) fn segment_bytes(&self) -> u64 {
        self.topics.values().map(|topic| topic.segments.bytes()).sum()
    }
}
