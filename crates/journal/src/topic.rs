//! Topics and their names.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use menagerie_types::NameError;
use menagerie_types::name::check;
use serde::{Deserialize, Serialize};

macro_rules! name {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Arc<str>);

        impl $name {
            /// Validates a name: not empty, not too long, no `/`, blank or control character.
            pub fn new(text: impl AsRef<str>) -> Result<Self, NameError> {
                check(text.as_ref())?;
                Ok(Self(text.as_ref().into()))
            }

            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl FromStr for $name {
            type Err = NameError;

            fn from_str(text: &str) -> Result<Self, NameError> {
                Self::new(text)
            }
        }

        impl TryFrom<String> for $name {
            type Error = NameError;

            fn try_from(text: String) -> Result<Self, NameError> {
                Self::new(text)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.0.as_ref().to_owned()
            }
        }
    };
}

name!(
    /// The name of a topic.
    Topic
);
name!(
    /// The name of a consumer, which has a position in each partition that it reads.
    Consumer
);
name!(
    /// The name of an atomic domain: topics that one commit may change together.
    Group
);

impl Default for Group {
    fn default() -> Self {
        Self("default".into())
    }
}

/// One partition of a topic.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PartitionId {
    /// Its topic.
    pub topic: Topic,
    /// Its number, from 1.
    pub number: u32,
}

impl PartitionId {
    /// Partition `number` of `topic`.
    pub fn new(topic: Topic, number: u32) -> Self {
        Self { topic, number }
    }
}

impl fmt::Display for PartitionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.number)
    }
}

/// How a topic's messages are compressed on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Compression {
    /// Uncompressed.
    None,
    /// Fast compression; incompressible blocks are left as they are.
    #[default]
    Lz4,
}

/// Settings of a topic.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TopicConfig {
    /// Number of partitions; they count from 1.
    pub partitions: u32,
    /// Its atomic domain.
    pub group: Group,
    /// Drop messages older than this, a whole segment at a time, so some live a little longer.
    pub retention: Option<Duration>,
    /// Keep this many bytes of the topic's segments, the newest ones; up to a quarter more, or 1 MiB, before the oldest
    /// are dropped. Messages that are in no segment yet come on top.
    pub retention_bytes: Option<u64>,
    /// Default time to live of a message. Expired messages are not returned.
    pub ttl: Option<Duration>,
    /// Least time for which a dedup id is remembered.
    pub dedup_window: Duration,
    /// Compression of segments that are written from now on.
    pub compression: Compression,
}

impl Default for TopicConfig {
    fn default() -> Self {
        Self {
            partitions: 1,
            group: Group::default(),
            retention: None,
            retention_bytes: None,
            ttl: None,
            dedup_window: Duration::from_secs(120),
            compression: Compression::default(),
        }
    }
}

impl TopicConfig {
    /// A topic with this many partitions, and default settings.
    pub fn partitions(partitions: u32) -> Self {
        Self { partitions, ..Self::default() }
    }
}

/// Outcome of creating a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Created {
    /// The topic was created.
    Fresh,
    /// There was a topic of that name, with these settings.
    Existed(TopicConfig),
}

/// A topic as listed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopicView {
    /// The topic's name.
    pub topic: Topic,
    /// Its settings.
    pub config: TopicConfig,
    /// Messages in all its partitions, as in [`PartitionStats`](crate::PartitionStats).
    #[serde(default)]
    pub messages: u64,
}
