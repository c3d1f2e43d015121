//! Decides about topics: creating and changing them, and which may share one commit.

use super::decide::{Answer, Facts, Verdict};
use super::pending::Pending;
use super::record::Change;
use super::state::{PartitionKey, State};
use crate::error::JournalError;
use crate::topic::{Created, PartitionId, Topic, TopicConfig};

/// Most partitions of a topic.
const PARTITIONS_MAX: u32 = 10_000;

impl Facts<'_> {
    pub(super) fn create(
        &self,
        topic: &Topic,
        config: &TopicConfig,
        pending: &mut Pending,
    ) -> Result<Verdict, JournalError> {
        if let Ok((_, there)) = self.state.topic(topic) {
            let answer = Answer::Created(Created::Existed(there.config.clone()));
            return Ok(self.alone(pending, Vec::new(), answer));
        }
        check_config(config)?;
        let number = self.state.next_topic;
        let changes = vec![Change::Topic { number, name: topic.clone(), config: config.clone() }];
        Ok(self.alone(pending, changes, Answer::Created(Created::Fresh)))
    }

    pub(super) fn alter(
        &self,
        topic: &Topic,
        config: &TopicConfig,
        pending: &mut Pending,
    ) -> Result<Verdict, JournalError> {
        let (number, there) = self.state.topic(topic)?;
        check_config(config)?;
        if config.partitions < there.config.partitions {
            let (now, wanted) = (there.config.partitions, config.partitions);
            return Err(JournalError::Invalid(format!(
                "topic {topic} has {now} partitions, which cannot become {wanted}: partitions can only be added"
            )));
        }
        if config.group != there.config.group {
            let (now, wanted) = (&there.config.group, &config.group);
            return Err(JournalError::Invalid(format!(
                "topic {topic} is of group {now} and cannot become one of {wanted}"
            )));
        }
        let changes = vec![Change::Topic { number, name: topic.clone(), config: config.clone() }];
        Ok(self.alone(pending, changes, Answer::Done))
    }
}

fn check_config(config: &TopicConfig) -> Result<(), JournalError> {
    let invalid = |text: String| Err(JournalError::Invalid(text));
    if config.partitions == 0 || config.partitions > PARTITIONS_MAX {
        return invalid(format!("a topic has 1 to {PARTITIONS_MAX} partitions, not {}", config.partitions));
    }
    if config.ttl.is_some_and(|ttl| ttl.is_zero()) || config.retention.is_some_and(|age| age.is_zero()) {
        return invalid("a time to live or retention of zero would keep nothing".to_owned());
    }
    Ok(())
}

/// Checks that all partitions of a commit belong to one group.
pub(super) struct GroupCheck<'a> {
    state: &'a State,
    first: Option<u32>,
}

impl<'a> GroupCheck<'a> {
    pub(super) fn new(state: &'a State) -> Self {
        Self { state, first: None }
    }

    /// Resolves a partition, if its group is that of the previous ones.
    pub(super) fn check(&mut self, partition: &PartitionId) -> Result<PartitionKey, JournalError> {
        let partition_key = self.state.partition_key(partition)?;
        let first = *self.first.get_or_insert(partition_key.topic);
        if first != partition_key.topic {
            let topics = &self.state.topics;
            let (group, other) = (&topics[&partition_key.topic].config.group, &topics[&first].config.group);
            if group != other {
                let (topic, group, other) = (partition.topic.clone(), group.clone(), other.clone());
                return Err(JournalError::Groups { topic, group, other });
            }
        }
        Ok(partition_key)
    }
}
