//! Applies a record to the state. Nothing is decided here: the record holds the decisions.

use super::message;
use super::record::{BlockSlot, Change, Record};
use super::state::{PartitionKey, State, WAITING};
use super::topic::TopicState;
use super::{dedup, partition::Partition, topic::Segments};

impl State {
    /// Applies a record's changes. Calls `touched` for partitions with new messages.
    pub(crate) fn apply(&mut self, record: Record, touched: &mut impl FnMut(PartitionKey)) {
        self.newest = self.newest.max(record.now);
        let steady = record.steady.unwrap_or(record.now);
        for change in record.changes {
            self.change(change, steady, touched);
        }
    }

    fn change(&mut self, change: Change, steady: u64, touched: &mut impl FnMut(PartitionKey)) {
        match change {
            Change::Topic { number, name, config } => self.set_topic(number, TopicState::new(name, config)),
            Change::Delete { number } => self.delete_topic(number),
            Change::Append { partition_key, message, dedup } => {
                self.fresh_bytes += message::encoded_len(&message) as u64;
                self.newest = self.newest.max(message.id.0.0);
                self.note(partition_key.topic, steady, Some(message.id.0.0), &dedup);
                if self.with(partition_key, |partition, _| partition.push(&message)).is_some() {
                    touched(partition_key);
                }
            }
            Change::Delay { partition_key, due, message, dedup } => {
                self.fresh_bytes += message::encoded_len(&message) as u64;
                self.note(partition_key.topic, steady, None, &dedup);
                self.delayed.insert((due, message.id.0.0), partition_key);
                self.with(WAITING, |partition, _| partition.push(&message));
                self.with(partition_key, |partition, _| partition.delayed += 1);
            }
            Change::Mature { due, waiting, partition_key, message } => {
                self.fresh_bytes += message::encoded_len(&message) as u64;
                self.newest = self.newest.max(message.id.0.0);
                self.leave_waiting_room(due, waiting, partition_key);
                if self.with(partition_key, |partition, _| partition.push(&message)).is_some() {
                    touched(partition_key);
                }
            }
            Change::Cancel { due, waiting, partition_key } => {
                self.leave_waiting_room(due, waiting, partition_key)
            }
            Change::Replace { partition_key, message, base } => {
                self.fresh_bytes += message::encoded_len(&message) as u64;
                self.newest = self.newest.max(message.id.0.0);
                self.with(partition_key, |partition, segments| {
                    if let Some(gone) = base {
                        partition.remove(gone.id, gone.index, gone.bytes, segments);
                    }
                    partition.put(&message, segments);
                });
                touched(partition_key);
            }
            Change::Remove { partition_key, id, base } => {
                self.with(partition_key, |partition, segments| match base {
                    Some(gone) => partition.remove(gone.id, gone.index, gone.bytes, segments),
                    None => partition.take_edit(id, segments),
                });
            }
            Change::Trim { partition_key, through, gap, cut } => {
                self.with(partition_key, |partition, segments| {
                    partition.trim(through, cut, segments);
                    if gap {
                        partition.trimmed = partition.trimmed.max(through);
                    }
                });
            }
            Change::Open { .. } | Change::Move { .. } | Change::State { .. } => self.change_consumer(change),
        }
    }

    fn change_consumer(&mut self, change: Change) {
        match change {
            Change::Open { partition_key, consumer, fence } => {
                self.with(partition_key, |partition, _| {
                    partition.consumers.entry(consumer).or_default().fence = fence
                });
            }
            Change::Move { partition_key, consumer, position } => {
                self.with(partition_key, |partition, _| {
                    partition.consumers.entry(consumer).or_default().position = position;
                });
            }
            Change::State { partition_key, consumer, key, value } => {
                self.with(partition_key, |partition, _| {
                    partition.consumers.entry(consumer).or_default().set(&key, value.as_deref());
                });
            }
            other => unreachable!("{other:?} is not about a consumer"),
        }
    }

    /// Removes a delayed message from the waiting room.
    fn leave_waiting_room(&mut self, due: u64, waiting: BlockSlot, partition_key: PartitionKey) {
        self.delayed.remove(&(due, waiting.id));
        self.with(WAITING, |partition, segments| {
            partition.remove(waiting.id, waiting.index, waiting.bytes, segments)
        });
        self.with(partition_key, |partition, _| partition.delayed -= 1);
    }

    /// Changes a partition, unless its topic is gone.
    fn with<T>(
        &mut self,
        PartitionKey { topic, partition }: PartitionKey,
        act: impl FnOnce(&mut Partition, &mut Segments) -> T,
    ) -> Option<T> {
        let (partition, segments) = self.topics.get_mut(&topic)?.partition_mut(partition)?;
        Some(act(partition, segments))
    }

    fn set_topic(&mut self, number: u32, fresh: TopicState) {
        self.next_topic = self.next_topic.max(number + 1);
        self.names.insert(fresh.name.clone(), number);
        match self.topics.get_mut(&number) {
            None => {
                self.topics.insert(number, fresh);
            }
            Some(topic) => {
                topic.partitions.resize_with(fresh.config.partitions as usize, Partition::default);
                topic.config = fresh.config;
            }
        }
    }

    fn delete_topic(&mut self, number: u32) {
        if let Some(topic) = self.topics.remove(&number) {
            self.names.remove(&topic.name);
        }
    }

    /// Remembers a dedup id, if there is one.
    fn note(&mut self, topic: u32, steady: u64, used: dedup::Use, id: &[u8]) {
        let Some(topic_state) = self.topics.get_mut(&topic).filter(|_| !id.is_empty()) else { return };
        let window = topic_state.dedup_ticks();
        self.steady = self.steady.max(steady);
        topic_state.dedup.insert(id, used, steady, window);
        dedup::note(topic, steady, used, id, &mut self.fresh_ids);
        self.fresh_ids_until = self.fresh_ids_until.max(steady.saturating_add(window.saturating_mul(2)));
    }
}
