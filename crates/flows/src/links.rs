//! Topics of a job. A link is a topic between two tasks; an input has a control topic, an aggregator one for its state.
//! All topics of a job are of one group, so that one commit may change any of them.

use menagerie_journal::{Consumer, Group, PartitionId, PartitionStats, Topic, TopicConfig};
use menagerie_znodes::Name;

/// Bytes in a link that its reader has not read yet: beyond, its writer waits.
pub const FULL_BYTES: u64 = 64 << 20;

/// The topics of one job.
#[derive(Debug, Clone)]
pub struct Links {
    prefix: String,
}

impl Links {
    /// The topics of this job.
    pub fn of(job: &Name) -> Self {
        Self { prefix: format!("flow:{job}") }
    }

    /// Settings of a topic with this many partitions.
    pub fn config(&self, partitions: u32) -> TopicConfig {
        let group = Group::new(&self.prefix).expect("a job's id is a short name");
        TopicConfig { group, ..TopicConfig::partitions(partitions) }
    }

    /// From task to task.
    pub fn link(&self, from: u32, to: u32) -> Topic {
        self.topic(&format!("{from}-{to}"))
    }

    /// The files of an input, as they were when the job was planned.
    pub fn control(&self, task: u32) -> Topic {
        self.topic(&format!("control-{task}"))
    }

    /// The state of an aggregator.
    pub fn state(&self, task: u32) -> Topic {
        self.topic(&format!("state-{task}"))
    }

    /// Whether a topic is one of this job's.
    pub fn is_ours(&self, topic: &Topic) -> bool {
        topic.as_str().strip_prefix(&self.prefix).is_some_and(|rest| rest.starts_with(':'))
    }

    fn topic(&self, name: &str) -> Topic {
        Topic::new(format!("{}:{name}", self.prefix)).expect("a job's id is a short name")
    }
}

/// What the reader of a link has not read yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unread {
    /// Messages, each of them a batch of segments.
    pub batches: u64,
    /// About how many bytes they have: as many as the average of those that the journal still has.
    pub bytes: u64,
}

impl Unread {
    /// What is unread in the partitions of a link.
    pub fn of(stats: &[PartitionStats]) -> Self {
        let mut unread = Self { batches: 0, bytes: 0 };
        for partition in stats {
            // Before anybody has read it, there is no consumer.
            let batches = partition.consumers.first().map_or(partition.messages, |consumer| consumer.lag);
            unread.batches += batches;
            unread.bytes += partition.bytes / partition.messages.max(1) * batches;
        }
        unread
    }

    /// Whether the writer waits for the reader, if that is at work.
    pub fn is_full(self) -> bool {
        self.bytes >= FULL_BYTES
    }
}

/// The consumer of every link: a link has one reader.
pub fn consumer() -> Consumer {
    Consumer::new("flow").expect("it is a name")
}

/// The partition of a link for this key.
pub fn partition_of(key: &[u8], partitions: u32) -> u32 {
    crc32c::crc32c(key) % partitions + 1
}

/// A partition of a topic.
pub fn partition(topic: &Topic, number: u32) -> PartitionId {
    PartitionId::new(topic.clone(), number)
}
