//! A record to the state. Nothing is decided here: what was decided stands in the record.

use super::message;
use super::record::{Change, Gone, Record};
use super::state::{Spot, State, WAITING};
use super::topic::TopicState;
use super::{dedup, partition::Partition, topic::Segments};

impl State {
    /// Makes a record's changes. `touched` is told of partitions that have new messages.
    pub(crate) fn apply(&mut self, record: Record, touched: &mut impl FnMut(Spot)) {
        self.newest = self.newest.max(record.now);
        let steady = record.steady.unwrap_or(record.now);
        for change in record.changes {
            self.change(change, steady, touched);
        }
    }

    fn change(&mut self, change: Change, steady: u64, touched: &mut impl FnMut(Spot)) {
        match change {
            Change::Topic { number, name, config } => self.set_topic(number, TopicState::new(name, config)),
            Change::Delete { number } => self.delete_topic(number),
            Change::Append { spot, message, dedup } => {
                self.fresh_bytes += message::encoded_len(&message) as u64;
                self.newest = self.newest.max(message.id.0.0);
                self.note(spot.0, steady, Some(message.id.0.0), &dedup);
                if self.with(spot, |partition, _| partition.push(&message)).is_some() {
                    touched(spot);
                }
            }
            Change::Delay { spot, due, message, dedup } => {
                self.fresh_bytes += message::encoded_len(&message) as u64;
                self.note(spot.0, steady, None, &dedup);
                self.delayed.insert((due, message.id.0.0), spot);
                self.with(WAITING, |partition, _| partition.push(&message));
                self.with(spot, |partition, _| partition.delayed += 1);
            }
            Change::Mature { due, waiting, spot, message } => {
                self.fresh_bytes += message::encoded_len(&message) as u64;
                self.newest = self.newest.max(message.id.0.0);
                self.leave_waiting_room(due, waiting, spot);
                if self.with(spot, |partition, _| partition.push(&message)).is_some() {
                    touched(spot);
                }
            }
            Change::Cancel { due, waiting, spot } => self.leave_waiting_room(due, waiting, spot),
            Change::Replace { spot, message, base } => {
                self.fresh_bytes += message::encoded_len(&message) as u64;
                self.newest = self.newest.max(message.id.0.0);
                self.with(spot, |partition, segments| {
                    if let Some(gone) = base {
                        partition.remove(gone.id, gone.index, gone.bytes, segments);
                    }
                    partition.put(&message, segments);
                });
                touched(spot);
            }
            Change::Remove { spot, id, base } => {
                self.with(spot, |partition, segments| match base {
                    Some(gone) => partition.remove(gone.id, gone.index, gone.bytes, segments),
                    None => partition.take_edit(id, segments),
                });
            }
            Change::Trim { spot, through, gap, cut } => {
                self.with(spot, |partition, segments| {
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
            Change::Open { spot, consumer, fence } => {
                self.with(spot, |partition, _| {
                    partition.consumers.entry(consumer).or_default().fence = fence
                });
            }
            Change::Move { spot, consumer, position } => {
                self.with(spot, |partition, _| {
                    partition.consumers.entry(consumer).or_default().position = position;
                });
            }
            Change::State { spot, consumer, key, value } => {
                self.with(spot, |partition, _| {
                    partition.consumers.entry(consumer).or_default().set(&key, value.as_deref());
                });
            }
            other => unreachable!("{other:?} is not about a consumer"),
        }
    }

    /// A delayed message waits no longer.
    fn leave_waiting_room(&mut self, due: u64, waiting: Gone, spot: Spot) {
        self.delayed.remove(&(due, waiting.id));
        self.with(WAITING, |partition, segments| {
            partition.remove(waiting.id, waiting.index, waiting.bytes, segments)
        });
        self.with(spot, |partition, _| partition.delayed -= 1);
    }

    /// Does something to a partition, unless its topic is gone.
    fn with<T>(
        &mut self,
        (topic, partition): Spot,
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
