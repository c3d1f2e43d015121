//! Decides a proposal: a record, or a refusal.

use std::collections::HashSet;

use bytes::Bytes;

use super::block::Location;
use super::clock::TrustedTime;
use super::holdings::StateBytes;
use super::mature::{DelayedKey, Skipped};
use super::pending::Pending;
use super::record::{Change, Record};
use super::settings::GroupCheck;
use super::state::{PartitionKey, State, WAITING};
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

/// Most bytes of one commit, besides one message, whatever the limit of a message is.
pub(crate) const COMMIT_BYTES: u64 = 16 << 20;

/// A requested change.
#[derive(Debug)]
pub(crate) enum Proposal {
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
    /// Make delayed messages visible that are due at this time, after this one.
    Mature {
        after: DelayedKey,
        time: TrustedTime,
    },
    /// Drop delayed messages whose topics are gone, among the next ones after this one.
    Forget {
        after: DelayedKey,
    },
    /// Drop what retention releases: all up to an id, and whether readers see a gap.
    Drop(Vec<(PartitionKey, u64, bool)>),
}

/// The answer to a proposal once it is durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    Committed(Committed),
    Opened(Opened),
    Created(Created),
    Deleted(bool),
    /// The due messages are visible, except those that could not be read.
    Matured(Option<Skipped>),
    /// Last entry examined; `None` at the end.
    Forgotten(Option<DelayedKey>),
    Done,
}

/// The decision about a proposal.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// Accepted: the record to write, and the answer once it is durable.
    Yes(Record, Answer),
    /// It depends on decisions that are not applied yet: decide it with the next group.
    Later,
}

/// Limits, and how much of them is used.
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

/// Everything that a decision depends on.
pub(crate) struct Facts<'a> {
    pub(crate) state: &'a State,
    pub(crate) limits: Limits,
    /// The wall clock.
    pub(crate) now: u64,
    /// The time that dedup windows count with ([`Steady`](super::clock::Steady)).
    pub(crate) steady: u64,
    pub(crate) load: Load<'a>,
}

impl Facts<'_> {
    pub(super) fn record(&self, changes: Vec<Change>) -> Record {
        Record::new(self.now, self.steady, changes)
    }

    /// Decides. A refusal leaves `pending` as it was.
    pub(crate) fn decide(
        &self,
        proposal: &mut Proposal,
        pending: &mut Pending,
    ) -> Result<Verdict, JournalError> {
        if pending.is_exclusive() {
            return Ok(Verdict::Later);
        }
        match proposal {
            Proposal::Commit(commit) => self.commit(commit, pending),
            Proposal::Open { partition, consumer, fence } => self.open(partition, consumer, *fence, pending),
            Proposal::Trim { partition, through } => {
                let partition_key = self.state.partition_key(partition)?;
                let change = self.trim(partition_key, through.0.0)?;
                Ok(self.alone(pending, change.into_iter().collect(), Answer::Done))
            }
            Proposal::Create { topic, config } => self.create(topic, config, pending),
            Proposal::Alter { topic, config } => self.alter(topic, config, pending),
            Proposal::Delete { topic } => {
                let number = self.state.names.get(topic).copied();
                let changes = number.map(|number| Change::Delete { number }).into_iter().collect();
                Ok(self.alone(pending, changes, Answer::Deleted(number.is_some())))
            }
            Proposal::Forget { after } => Ok(self.forget(*after, pending)),
            Proposal::Mature { after, time } => Ok(self.mature(*after, *time, pending)),
            Proposal::Drop(drops) => {
                let trim = |(partition_key, through, gap): &(PartitionKey, u64, bool)| Change::Trim {
                    partition_key: *partition_key,
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
        let partition_keys = self.check_appends(commit)?;
        let mut changes = Vec::with_capacity(commit.appends.len() + commit.moves.len() + commit.states.len());
        let readers = self.check_readers(commit, pending, &mut changes)?;
        let Some(holdings) = self.check_states(&changes, pending)? else { return Ok(Verdict::Later) };
        let Some(edits) = edit::edits(self, &commit.edits, pending, &mut changes)? else {
            return Ok(Verdict::Later);
        };
        if !commit.appends.is_empty() {
            edit::check_moved(&commit.edits, &edits.outcomes)?;
        }
        // From here on nothing is refused.
        pending.decided();
        for (partition_key, consumer, fence, position) in readers {
            pending.set_reader(partition_key, &consumer, fence, position);
        }
        for StateBytes { partition_key, consumer, bytes } in holdings {
            pending.add_state_bytes(partition_key, &consumer, bytes);
        }
        for (partition_key, id, ahead) in edits.touched {
            pending.edit(partition_key, id);
            if ahead {
                pending.raise(partition_key, id);
            }
        }
        let appends = std::mem::take(&mut commit.appends);
        let mut outcomes = Vec::with_capacity(appends.len());
        for (append, partition_key) in appends.into_iter().zip(partition_keys) {
            outcomes.push(self.append(partition_key, append.message, pending, &mut changes));
        }
        let answer = Answer::Committed(Committed { appends: outcomes, edits: edits.outcomes });
        Ok(Verdict::Yes(self.record(changes), answer))
    }

    /// Resolves all partitions, and checks sizes, group and quota.
    fn check_appends(&self, commit: &Commit) -> Result<Vec<PartitionKey>, JournalError> {
        let mut group = GroupCheck::new(self.state);
        let mut partition_keys: Vec<PartitionKey> = Vec::with_capacity(commit.appends.len());
        let mut before: Option<&Append> = None;
        let (mut bytes, mut delayed) = (0, 0);
        for append in &commit.appends {
            let partition_key = match (before, partition_keys.last()) {
                (Some(before), Some(partition_key)) if before.partition == append.partition => *partition_key,
                _ => group.check(&append.partition)?,
            };
            partition_keys.push(partition_key);
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
            _ => Ok(partition_keys),
        }
    }

    /// The size of a message, if it may be stored.
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

    /// Checks the fences of moves and states. Pushes their changes to `changes`, and returns what `pending` must know.
    fn check_readers(
        &self,
        commit: &Commit,
        pending: &Pending,
        changes: &mut Vec<Change>,
    ) -> Result<Vec<(PartitionKey, Consumer, Fence, u64)>, JournalError> {
        let mut readers = Vec::with_capacity(commit.moves.len());
        let mut known = HashSet::new();
        for moved in &commit.moves {
            let (partition_key, position) =
                self.check_fence(&moved.partition, &moved.consumer, moved.fence, pending)?;
            if let Some(from) = moved.from.filter(|from| from.0.0 != position) {
                return Err(JournalError::Moved {
                    partition: moved.partition.clone(),
                    consumer: moved.consumer.clone(),
                    position: MessageId(Ticks(position)),
                    from,
                });
            }
            let wanted = moved.position.0.0;
            if wanted < position {
                return Err(JournalError::Backwards {
                    partition: moved.partition.clone(),
                    consumer: moved.consumer.clone(),
                    position: MessageId(Ticks(position)),
                    wanted: moved.position,
                });
            }
            // It could never be undone: the consumer would skip messages before that position.
            let last = self.state.partition(partition_key).map_or(0, |partition| partition.last);
            if wanted > self.now.max(last) {
                return Err(JournalError::Ahead { id: moved.position });
            }
            changes.push(Change::Move { partition_key, consumer: moved.consumer.clone(), position: wanted });
            known.insert((partition_key, &moved.consumer));
            readers.push((partition_key, moved.consumer.clone(), moved.fence, wanted));
        }
        for write in &commit.states {
            let (partition_key, position) =
                self.check_fence(&write.partition, &write.consumer, write.fence, pending)?;
            check_key("a key of state", &write.key)?;
            if let Some(value) = write.value.as_ref().filter(|value| value.len() > STATE_BYTES_MAX) {
                let (size, max) = (value.len() as u64, STATE_BYTES_MAX as u64);
                return Err(JournalError::TooLarge { what: "a state record".into(), size, max });
            }
            changes.push(Change::State {
                partition_key,
                consumer: write.consumer.clone(),
                key: write.key.clone(),
                value: write.value.clone(),
            });
            if known.insert((partition_key, &write.consumer)) {
                readers.push((partition_key, write.consumer.clone(), write.fence, position));
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
    ) -> Result<(PartitionKey, u64), JournalError> {
        let partition_key = self.state.partition_key(partition)?;
        match pending.reader(self.state, partition_key, consumer) {
            Some((current, position)) if current == fence => Ok((partition_key, position)),
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
        partition_key: PartitionKey,
        new: NewMessage,
        pending: &mut Pending,
        changes: &mut Vec<Change>,
    ) -> Appended {
        if let Some(used) =
            new.dedup.as_ref().and_then(|id| pending.used(self.state, partition_key.topic, id))
        {
            return Appended::Duplicate(used.map(|id| MessageId(Ticks(id))));
        }
        let dedup = new.dedup.unwrap_or_default();
        let ttl = new.ttl.or_else(|| self.state.topics.get(&partition_key.topic)?.config.ttl);
        let due = new.due.filter(|due| due.0 > self.now).map(|due| Ticks(due.0.min(TICKS_MAX)));
        let home = if due.is_some() { WAITING } else { partition_key };
        let id = pending.next_id(self.state, home, self.now);
        let message = |expires| Message { id: MessageId(Ticks(id)), meta: new.meta, body: new.body, expires };
        let (change, outcome) = match due {
            Some(due) => {
                let message = message(ttl.map(|ttl| Ticks(ticks(ttl).max(1))));
                let outcome = Appended::Delayed(DelayedId { due, put: Ticks(id) });
                (Change::Delay { partition_key, due: due.0, message, dedup: dedup.clone() }, outcome)
            }
            None => {
                let message = message(ttl.map(|ttl| Ticks(id).plus(ttl)));
                (
                    Change::Append { partition_key, message, dedup: dedup.clone() },
                    Appended::At(MessageId(Ticks(id))),
                )
            }
        };
        if !dedup.is_empty() {
            pending.use_id(partition_key.topic, &dedup, outcome.id().map(|id| id.0.0));
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
        let partition_key = self.state.partition_key(partition)?;
        if pending.has_reader(partition_key, consumer) {
            return Ok(Verdict::Later);
        }
        if !self.check_consumers(partition_key, consumer, pending)? {
            return Ok(Verdict::Later);
        }
        let reader =
            self.state.partition(partition_key).and_then(|partition| partition.consumers.get(consumer));
        let reader = reader.cloned().unwrap_or_default();
        if fence < reader.fence {
            let (partition, consumer) = (partition.clone(), consumer.clone());
            return Err(JournalError::Fenced { partition, consumer, fence, current: reader.fence });
        }
        pending.decided();
        pending.set_reader(partition_key, consumer, fence, reader.position);
        let changes = vec![Change::Open { partition_key, consumer: consumer.clone(), fence }];
        let answer = Answer::Opened(Opened { fence, ..reader.opened() });
        Ok(Verdict::Yes(self.record(changes), answer))
    }

    fn trim(&self, partition_key: PartitionKey, through: u64) -> Result<Option<Change>, JournalError> {
        let Some(partition) = self.state.partition(partition_key) else { return Ok(None) };
        let through = through.min(partition.last);
        if through <= partition.trimmed {
            return Ok(None);
        }
        let cut = edit::cut(self, partition_key, through)?;
        Ok(Some(Change::Trim { partition_key, through, gap: true, cut }))
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
