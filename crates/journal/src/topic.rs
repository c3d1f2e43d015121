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
            /// Takes a text that may be one: not empty, not too long, no `/`, blank or control character.
            pub fn new(text: impl AsRef<str>) -> Result<Self, NameError> {
                check(text.as_ref())?;
                Ok(Self(text.as_ref().into()))
            }

            /// As it was given.
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
    /// The name of somebody who reads a partition and has a position in it.
    Consumer
);
name!(
    /// The name of an atomic domain: topics that one commit may touch together.
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
    /// Of which topic.
    pub topic: Topic,
    /// Which one; they count from 1.
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

/// How a topic's messages lie on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Compression {
    /// As they came.
    None,
    /// Quickly compressed; what does not become smaller is left as it is.
    #[default]
    Lz4,
}

/// What a topic is to be like.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TopicConfig {
    /// How many partitions it has; they count from 1.
    pub partitions: u32,
    /// Its atomic domain.
    pub group: Group,
    /// Messages older than this are dropped, a whole segment at a time, so some live a little longer.
    pub retention: Option<Duration>,
    /// So many bytes of the topic's segments are kept, the newest ones; a quarter of it more, or 1 MiB, before the oldest
    /// are dropped. What no segment has yet comes on top.
    pub retention_bytes: Option<u64>,
    /// How long a message lives that does not say so itself. Nobody is given a message after that.
    pub ttl: Option<Duration>,
    /// For how long a dedup id is remembered, at least.
    pub dedup_window: Duration,
    /// How segments written from now on are compressed.
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
    /// A topic with so many partitions, else as most want it.
    pub fn partitions(partitions: u32) -> Self {
        Self { partitions, ..Self::default() }
    }
}

/// What came of creating a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Created {
    /// It is new.
    Fresh,
    /// There was one of that name, which is like this.
    Existed(TopicConfig),
}

/// A topic as listed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopicView {
    /// Its name.
    pub topic: Topic,
    /// What it is like.
    pub config: TopicConfig,
    /// Messages in all its partitions, as in [`PartitionStats`](crate::PartitionStats).
    #[serde(default)]
    pub messages: u64,
}
