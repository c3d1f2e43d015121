//! A wish to a record, or to a refusal.

use std::collections::HashSet;

use bytes::Bytes;

use super::block::Location;
use super::clock::Hour;
use super::mature::{PassedOver, Waits};
use super::pending::Pending;
use super::record::{Change, Record};
use super::settings::GroupCheck;
use super::state::{Spot, State, WAITING};
use super::topic::ticks;
use super::{edit, message};
use crate::Fence;
use crate::commit::{
    Append, Appended, Commit, Committed, KEY_BYTES_MAX, NewMessage, Opened, STATE_BYTES_MAX, check_parts,
};
use crate::error::JournalError;
use crate::id::{DelayedId, MessageId, TICKS_MAX, Ticks};
use crate::read::Message;
use crate::topic::{Consumer, Created, PartitionId, Topic, TopicConfig};

/// One commit has at most so many bytes, whatever the limit of a message is, besides one message.
pub(crate) const COMMIT_BYTES: u64 = 16 << 20;

/// What somebody wants to happen.
#[derive(Debug)]
pub(crate) enum Wish {
    Commit(Commit),
    Open {
        partition: PartitionId,
        consumer: Consumer,
        fence: Fence,
    },
    Trim {
        partition: PartitionId,
        through: MessageId,
    },
    Create {
        topic: Topic,
        config: TopicConfig,
    },
    Alter {
        topic: Topic,
        config: TopicConfig,
    },
    Delete {
        topic: Topic,
    },
    /// Delayed messages that are due at this hour, behind this one.
    Mature {
        after: Waits,
        hour: Hour,
    },
    /// Delayed messages whose topics are gone, of the next ones behind this one.
    Forget {
        after: Waits,
    },
    /// What retention lets go: all up to an id, and whether readers are told.
    Drop(Vec<(Spot, u64, bool)>),
}

/// What somebody is told when it has happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    Committed(Committed),
    Opened(Opened),
    Created(Created),
    Deleted(bool),
    /// What is due is visible, but for what could not be read.
    Matured(Option<PassedOver>),
    /// So far it was looked; nothing when there was nothing behind.
    Forgotten(Option<Waits>),
    Done,
}

/// What is decided about a wish.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// So it happens, and so it is answered when it is durable.
    Yes(Record, Answer),
    /// It depends on what is decided but not applied: ask again with the next group.
    Later,
}

/// What is allowed, and how much is used.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) message_bytes: u32,
    pub(crate) edits: usize,
    pub(crate) delayed: usize,
    pub(crate) quota: Option<u64>,
    pub(crate) used: u64,
}

/// Reads a block of a topic from disk.
pub(crate) type Load<'a> = &'a dyn Fn(u32, Location) -> Result<Bytes, JournalError>;

/// All that a decision depends on.
pub(crate) struct Facts<'a> {
    pub(crate) state: &'a State,
    pub(crate) limits: Limits,
    /// The wall clock.
    pub(crate) now: u64,
    /// The time by which dedup windows are counted.
    pub(crate) steady: u64,
    pub(crate) load: Load<'a>,
}

impl Facts<'_> {
    pub(super) fn record(&self, changes: Vec<Change>) -> Record {
        Record::new(self.now, self.steady, changes)
    }

    /// Decides. A refusal leaves `pending` as it was.
    pub(crate) fn decide(&self, wish: &mut Wish, pending: &mut Pending) -> Result<Verdict, JournalError> {
        if pending.is_exclusive() {
            return Ok(Verdict::Later);
        }
        match wish {
            Wish::Commit(commit) => self.commit(commit, pending),
            Wish::Open { partition, consumer, fence } => self.open(partition, consumer, *fence, pending),
            Wish::Trim { partition, through } => {
                let spot = self.state.spot(partition)?;
                let change = self.trim(spot, through.0.0)?;
                Ok(self.alone(pending, change.into_iter().collect(), Answer::Done))
            }
            Wish::Create { topic, config } => self.create(topic, config, pending),
            Wish::Alter { topic, config } => self.alter(topic, config, pending),
            Wish::Delete { topic } => {
                let number = self.state.names.get(topic).copied();
                let changes = number.map(|number| Change::Delete { number }).into_iter().collect();
                Ok(self.alone(pending, changes, Answer::Deleted(number.is_some())))
            }
            Wish::Forget { after } => Ok(self.forget(*after, pending)),
            Wish::Mature { after, hour } => Ok(self.mature(*after, *hour, pending)),
            Wish::Drop(drops) => {
                let trim = |(spot, through, gap): &(Spot, u64, bool)| Change::Trim {
                    spot: *spot,
                    through: *through,
                    gap: *gap,
                    cut: None,
                };
                Ok(self.alone(pending, drops.iter().map(trim).collect(), Answer::Done))
            }
        }
    }

    pub(super) fn alone(&self, pending: &mut Pending, changes: Vec<Change>, answer: Answer) -> Verdict {
        if !pending.claim() {
            return Verdict::Later;
        }
        Verdict::Yes(self.record(changes), answer)
    }

    fn commit(&self, commit: &mut Commit, pending: &mut Pending) -> Result<Verdict, JournalError> {
        check_parts(commit.parts(), commit.edits.len())?;
        let spots = self.check_appends(commit)?;
        let mut changes = Vec::with_capacity(commit.appends.len() + commit.moves.len() + commit.states.len());
        let readers = self.check_readers(commit, pending, &mut changes)?;
        let Some(holdings) = self.check_states(&changes, pending)? else { return Ok(Verdict::Later) };
        let Some(edits) = edit::edits(self, &commit.edits, pending, &mut changes)? else {
            return Ok(Verdict::Later);
        };
        if !commit.appends.is_empty() {
            edit::check_moved(&commit.edits, &edits.outcomes)?;
        }
        // From here on nothing can be refused.
        pending.decided();
        for (spot, consumer, fence, position) in readers {
            pending.set_reader(spot, &consumer, fence, position);
        }
        for (spot, consumer, bytes) in holdings {
            pending.hold(spot, &consumer, bytes);
        }
        for (spot, id, ahead) in edits.touched {
            pending.edit(spot, id);
            if ahead {
                pending.raise(spot, id);
            }
        }
        let appends = std::mem::take(&mut commit.appends);
        let mut outcomes = Vec::with_capacity(appends.len());
        for (append, spot) in appends.into_iter().zip(spots) {
            outcomes.push(self.append(spot, append.message, pending, &mut changes));
        }
        let answer = Answer::Committed(Committed { appends: outcomes, edits: edits.outcomes });
        Ok(Verdict::Yes(self.record(changes), answer))
    }

    /// Resolves all partitions and checks sizes, group and quota.
    fn check_appends(&self, commit: &Commit) -> Result<Vec<Spot>, JournalError> {
        let mut group = GroupCheck::new(self.state);
        let mut spots: Vec<Spot> = Vec::with_capacity(commit.appends.len());
        let mut before: Option<&Append> = None;
        let (mut bytes, mut delayed) = (0, 0);
        for append in &commit.appends {
            let spot = match (before, spots.last()) {
                (Some(before), Some(spot)) if before.partition == append.partition => *spot,
                _ => group.check(&append.partition)?,
            };
            spots.push(spot);
            bytes += self.check_message(&append.message)?;
            delayed += usize::from(append.message.due.is_some());
            before = Some(append);
        }
        for partition in commit.moves.iter().map(|moved| &moved.partition) {
            group.check(partition)?;
        }
        for partition in commit.states.iter().map(|state| &state.partition) {
            group.check(partition)?;
        }
        for change in &commit.edits {
            group.check(edit::partition(change))?;
            bytes += edit::message(change).map_or(Ok(0), |message| self.check_message(message))?;
        }
        let max = COMMIT_BYTES.max(u64::from(self.limits.message_bytes) + message::HEAD_BYTES as u64);
        if bytes > max {
            return Err(JournalError::TooLarge { what: "a commit".into(), size: bytes, max });
        }
        if delayed > 0 && self.state.delayed.len() + delayed > self.limits.delayed {
            let (size, max) = (self.state.delayed.len() + delayed, self.limits.delayed);
            return Err(JournalError::TooLarge {
                what: "a number of delayed messages".into(),
                size: size as u64,
                max: max as u64,
            });
        }
        match self.limits.quota {
            Some(quota) if bytes > 0 && self.limits.used >= quota => {
                Err(JournalError::Quota { used: self.limits.used, quota })
            }
            _ => Ok(spots),
        }
    }

    /// The bytes of a message, if it may be stored.
    fn check_message(&self, message: &NewMessage) -> Result<u64, JournalError> {
        let size = (message.meta.len() + message.body.len()) as u64;
        let max = u64::from(self.limits.message_bytes);
        if size > max {
            return Err(JournalError::TooLarge { what: "a message".into(), size, max });
        }
        match &message.dedup {
            Some(id) if id.is_empty() => {
                Err(JournalError::Invalid("a dedup id must not be empty".to_owned()))
            }
            Some(id) => check_key("a dedup id", id).map(|()| size + message::HEAD_BYTES as u64),
            None => Ok(size + message::HEAD_BYTES as u64),
        }
    }

    /// Checks the fences of moves and states; what they change goes to `changes`, what pending must know is returned.
    fn check_readers(
        &self,
        commit: &Commit,
        pending: &Pending,
        changes: &mut Vec<Change>,
    ) -> Result<Vec<(Spot, Consumer, Fence, u64)>, JournalError> {
        let mut readers = Vec::with_capacity(commit.moves.len());
        let mut known = HashSet::new();
        for moved in &commit.moves {
            let (spot, position) =
                self.check_fence(&moved.partition, &moved.consumer, moved.fence, pending)?;
            let wanted = moved.position.0.0;
            if wanted < position {
                return Err(JournalError::Backwards {
                    partition: moved.partition.clone(),
                    consumer: moved.consumer.clone(),
                    position: MessageId(Ticks(position)),
                    wanted: moved.position,
                });
            }
            // Nobody could ever undo it: what comes before that would be passed over.
            let last = self.state.partition(spot).map_or(0, |partition| partition.last);
            if wanted > self.now.max(last) {
                return Err(JournalError::Ahead { id: moved.position });
            }
            changes.push(Change::Move { spot, consumer: moved.consumer.clone(), position: wanted });
            known.insert((spot, &moved.consumer));
            readers.push((spot, moved.consumer.clone(), moved.fence, wanted));
        }
        for write in &commit.states {
            let (spot, position) =
                self.check_fence(&write.partition, &write.consumer, write.fence, pending)?;
            check_key("a key of state", &write.key)?;
            if let Some(value) = write.value.as_ref().filter(|value| value.len() > STATE_BYTES_MAX) {
                let (size, max) = (value.len() as u64, STATE_BYTES_MAX as u64);
                return Err(JournalError::TooLarge { what: "a state record".into(), size, max });
            }
            changes.push(Change::State {
                spot,
                consumer: write.consumer.clone(),
                key: write.key.clone(),
                value: write.value.clone(),
            });
            if known.insert((spot, &write.consumer)) {
                readers.push((spot, write.consumer.clone(), write.fence, position));
            }
        }
        Ok(readers)
    }

    fn check_fence(
        &self,
        partition: &PartitionId,
        consumer: &Consumer,
        fence: Fence,
        pending: &Pending,
    ) -> Result<(Spot, u64), JournalError> {
        let spot = self.state.spot(partition)?;
        match pending.reader(self.state, spot, consumer) {
            Some((current, position)) if current == fence => Ok((spot, position)),
            Some((current, _)) if fence < current => Err(JournalError::Fenced {
                partition: partition.clone(),
                consumer: consumer.clone(),
                fence,
                current,
            }),
            _ => {
                Err(JournalError::NotOpen { partition: partition.clone(), consumer: consumer.clone(), fence })
            }
        }
    }

    fn append(
        &self,
        spot: Spot,
        new: NewMessage,
        pending: &mut Pending,
        changes: &mut Vec<Change>,
    ) -> Appended {
        if let Some(used) = new.dedup.as_ref().and_then(|id| pending.used(self.state, spot.0, id)) {
            return Appended::Duplicate(used.map(|id| MessageId(Ticks(id))));
        }
        let dedup = new.dedup.unwrap_or_default();
        let ttl = new.ttl.or_else(|| self.state.topics.get(&spot.0)?.config.ttl);
        let due = new.due.filter(|due| due.0 > self.now).map(|due| Ticks(due.0.min(TICKS_MAX)));
        let home = if due.is_some() { WAITING } else { spot };
        let id = pending.next_id(self.state, home, self.now);
        let message = |expires| Message { id: MessageId(Ticks(id)), meta: new.meta, body: new.body, expires };
        let (change, outcome) = match due {
            Some(due) => {
                let message = message(ttl.map(|ttl| Ticks(ticks(ttl).max(1))));
                let outcome = Appended::Delayed(DelayedId { due, put: Ticks(id) });
                (Change::Delay { spot, due: due.0, message, dedup: dedup.clone() }, outcome)
            }
            None => {
                let message = message(ttl.map(|ttl| Ticks(id).plus(ttl)));
                (Change::Append { spot, message, dedup: dedup.clone() }, Appended::At(MessageId(Ticks(id))))
            }
        };
        if !dedup.is_empty() {
            pending.use_id(spot.0, &dedup, outcome.id().map(|id| id.0.0));
        }
        changes.push(change);
        outcome
    }

    fn open(
        &self,
        partition: &PartitionId,
        consumer: &Consumer,
        fence: Fence,
        pending: &mut Pending,
    ) -> Result<Verdict, JournalError> {
        let spot = self.state.spot(partition)?;
        if pending.has_reader(spot, consumer) {
            return Ok(Verdict::Later);
        }
        if !self.check_consumers(spot, consumer, pending)? {
            return Ok(Verdict::Later);
        }
        let reader = self.state.partition(spot).and_then(|partition| partition.consumers.get(consumer));
        let reader = reader.cloned().unwrap_or_default();
        if fence < reader.fence {
            let (partition, consumer) = (partition.clone(), consumer.clone());
            return Err(JournalError::Fenced { partition, consumer, fence, current: reader.fence });
        }
        pending.decided();
        pending.set_reader(spot, consumer, fence, reader.position);
        let changes = vec![Change::Open { spot, consumer: consumer.clone(), fence }];
        let answer = Answer::Opened(Opened { fence, ..reader.opened() });
        Ok(Verdict::Yes(self.record(changes), answer))
    }

    fn trim(&self, spot: Spot, through: u64) -> Result<Option<Change>, JournalError> {
        let Some(partition) = self.state.partition(spot) else { return Ok(None) };
        let through = through.min(partition.last);
        if through <= partition.trimmed {
            return Ok(None);
        }
        let cut = edit::cut(self, spot, through)?;
        Ok(Some(Change::Trim { spot, through, gap: true, cut }))
    }
}

fn check_key(what: &'static str, key: &[u8]) -> Result<(), JournalError> {
    if key.len() > KEY_BYTES_MAX {
        return Err(JournalError::TooLarge {
            what: what.into(),
            size: key.len() as u64,
            max: KEY_BYTES_MAX as u64,
        });
    }
    Ok(())
}
