//! Random scripts against a simple model: whatever is committed, read, trimmed, delayed or edited, and however often
//! the store is closed or abandoned in between, it equals a few maps in memory.

mod delayed;

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use menagerie_journal::{
    Append, Appended, Commit, Consumer, DelayedId, Edit, Edited, Fence, Journal, JournalError, Message,
    MessageId, Move, NewMessage, Order, PartitionId, Read, StateWrite, Store, Ticks, TopicConfig,
};
use proptest::prelude::*;

use self::delayed::Delayed;
use crate::rig::{Rig, partition, topic};

const TOPICS: [&str; 2] = ["mail", "other"];
const PARTITIONS: u32 = 2;

/// Partition, size of the body, dedup id, delay and life in seconds.
type Wanted = (u8, u16, Option<u8>, Option<u8>, Option<u8>);

#[derive(Debug, Clone)]
enum Step {
    Append(Vec<Wanted>),
    Open(u8, u8),
    /// Moves the position to the nth message and writes a state record, with a fence; from where it stands, from
    /// elsewhere, or from anywhere.
    Move(u8, u8, u8, Option<u8>, Option<bool>),
    Replace(u8, u8, u16),
    Remove(u8, u8),
    /// Cancels the nth of all delayed messages, for a partition that need not be its own.
    Cancel(u8, u8),
    Trim(u8, u8),
    Read(u8, u8, u8, bool),
    Wait(u8),
    Back(u8),
    Checkpoint,
    Close,
    Abandon,
}

fn step() -> impl Strategy<Value = Step> {
    let size = prop_oneof![8 => 0..300u16, 1 => 3000..6000u16];
    let append = (
        0..4u8,
        size,
        prop::option::weighted(0.2, 0..6u8),
        prop::option::weighted(0.1, 1..20u8),
        prop::option::weighted(0.1, 1..60u8),
    );
    prop_oneof![
        10 => prop::collection::vec(append, 1..20).prop_map(Step::Append),
        2 => (0..4u8, 0..6u8).prop_map(|(p, f)| Step::Open(p, f)),
        3 => (0..4u8, 0..6u8, any::<u8>(), prop::option::of(any::<u8>()), prop::option::of(any::<bool>()))
            .prop_map(|(p, f, n, s, from)| Step::Move(p, f, n, s, from)),
        2 => (0..4u8, any::<u8>(), 0..200u16).prop_map(|(p, n, s)| Step::Replace(p, n, s)),
        4 => (0..4u8, any::<u8>()).prop_map(|(p, n)| Step::Remove(p, n)),
        3 => (0..4u8, any::<u8>()).prop_map(|(p, n)| Step::Cancel(p, n)),
        1 => (0..4u8, any::<u8>()).prop_map(|(p, n)| Step::Trim(p, n)),
        5 => (0..4u8, any::<u8>(), 1..50u8, any::<bool>()).prop_map(|(p, n, l, d)| Step::Read(p, n, l, d)),
        2 => (0..10u8).prop_map(Step::Wait),
        1 => (0..10u8).prop_map(Step::Back),
        2 => Just(Step::Checkpoint),
        1 => Just(Step::Close),
        1 => Just(Step::Abandon),
    ]
}

#[derive(Debug, Clone, Default)]
struct Part {
    messages: BTreeMap<MessageId, Message>,
    last: MessageId,
    trimmed: MessageId,
    fence: Option<Fence>,
    position: MessageId,
    state: BTreeMap<Bytes, Bytes>,
}

#[derive(Debug, Default)]
struct Model {
    parts: Vec<Part>,
    /// By topic and id; what it was used for.
    dedup: BTreeMap<(usize, u8), Option<MessageId>>,
    delayed: BTreeMap<DelayedId, Delayed>,
    /// One that was delayed and is not any more.
    past: Option<DelayedId>,
}

struct Run {
    rig: Rig,
    store: Option<Store>,
    model: Model,
    runtime: tokio::runtime::Runtime,
    /// Makes bodies differ.
    counter: u32,
}

fn partition_id(index: u8) -> PartitionId {
    partition(TOPICS[usize::from(index) / PARTITIONS as usize], u32::from(index) % PARTITIONS + 1)
}

fn fence(number: u8) -> Fence {
    Fence::new(u64::from(number / 3), i64::from(number % 3))
}

fn consumer() -> Consumer {
    Consumer::new("worker").unwrap()
}

impl Run {
    fn new() -> Self {
        let rig = Rig::small();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let store = rig.open();
        let config =
            TopicConfig { dedup_window: Duration::from_secs(3600), ..TopicConfig::partitions(PARTITIONS) };
        for name in TOPICS {
            runtime.block_on(store.create_topic(&topic(name), config.clone())).unwrap();
        }
        let model = Model { parts: vec![Part::default(); 4], ..Model::default() };
        Self { rig, store: Some(store), model, runtime, counter: 0 }
    }

    fn store(&self) -> &Store {
        self.store.as_ref().expect("it is open between steps")
    }

    fn body(&mut self, size: u16) -> Bytes {
        self.counter += 1;
        let mut body = vec![self.counter as u8; usize::from(size)];
        for (to, from) in body.iter_mut().zip(self.counter.to_le_bytes()) {
            *to = from;
        }
        body.into()
    }

    /// The nth message of a partition, or an id that does not exist.
    fn nth(&self, part: u8, n: u8) -> MessageId {
        let part = &self.model.parts[usize::from(part)];
        match part.messages.len() {
            0 => MessageId(Ticks(part.last.0.0 / 2 + u64::from(n))),
            len => *part.messages.keys().nth(usize::from(n) % len).unwrap(),
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Append(appends) => self.append(appends),
            Step::Open(part, number) => self.open(part, number),
            Step::Move(part, number, n, state, from) => self.move_to(part, number, n, state, from),
            Step::Replace(part, n, size) => self.replace(part, n, size),
            Step::Remove(part, n) => self.remove(part, n),
            Step::Cancel(part, n) => self.cancel(part, n),
            Step::Trim(part, n) => {
                let through = self.nth(part, n);
                self.runtime.block_on(self.store().trim(&partition_id(part), through)).unwrap();
                let part = &mut self.model.parts[usize::from(part)];
                let through = through.min(part.last);
                if through > part.trimmed {
                    part.messages.retain(|id, _| *id > through);
                    part.trimmed = through;
                }
            }
            Step::Read(part, n, limit, descending) => {
                let from = self.nth(part, n);
                self.check_range(part, from, u32::from(limit), descending);
            }
            Step::Wait(seconds) => {
                self.rig.clock.ahead(Duration::from_secs(u64::from(seconds)));
                // The log loop reads the clock whenever it has done something.
                self.runtime.block_on(self.store().trim(&partition_id(0), MessageId::ZERO)).unwrap();
                self.mature();
            }
            Step::Back(seconds) => self.back(Duration::from_secs(u64::from(seconds))),
            Step::Checkpoint => self.store().checkpoint().unwrap(),
            Step::Close => {
                self.store().close().unwrap();
                self.reopen();
            }
            Step::Abandon => self.reopen(),
        }
    }

    /// Turns the clock back, unless an expired message would come alive again: the store may have dropped it.
    fn back(&mut self, by: Duration) {
        let now = self.rig.clock.now();
        let revived = |message: &Message| {
            message.expires.is_some_and(|expires| expires <= now && expires > now.minus(by))
        };
        if !self.model.parts.iter().flat_map(|part| part.messages.values()).any(revived) {
            self.rig.clock.back(by);
        }
    }

    /// Whether the store may have dropped a message already. It does so once a second, by a real clock.
    fn may_be_gone(&self, message: &Message) -> bool {
        message.expires.is_some_and(|expires| expires <= self.rig.clock.now())
    }

    fn reopen(&mut self) {
        self.store = None;
        self.store = Some(self.rig.open());
        self.check();
    }

    fn append(&mut self, wanted: Vec<Wanted>) {
        let now = self.rig.clock.now();
        let mut commit = Commit::default();
        for (part, size, dedup, delay, life) in &wanted {
            let message = NewMessage {
                meta: Bytes::from(vec![*part; usize::from(*part)]),
                body: self.body(*size),
                ttl: life.map(|life| Duration::from_secs(u64::from(life))),
                due: delay.map(|delay| now.plus(Duration::from_secs(u64::from(delay)))),
                dedup: dedup.map(|dedup| Bytes::from(vec![dedup])),
            };
            commit.appends.push(Append { partition: partition_id(*part), message });
        }
        let committed = self.runtime.block_on(self.store().commit(commit.clone())).unwrap();
        for ((append, outcome), wanted) in commit.appends.into_iter().zip(committed.appends).zip(wanted) {
            let index = usize::from(wanted.0);
            let key = wanted.2.map(|dedup| (index / PARTITIONS as usize, dedup));
            if let Some(used) = key.and_then(|key| self.model.dedup.get(&key)) {
                assert_eq!(outcome, Appended::Duplicate(*used));
                continue;
            }
            let NewMessage { meta, body, ttl, due, .. } = append.message;
            if let Some(due) = due {
                let Appended::Delayed(id) = outcome else { panic!("it is delayed: {outcome:?}") };
                assert_eq!(id.due, due);
                let delayed = Delayed { part: index, meta, body, life: ttl };
                assert!(self.model.delayed.insert(id, delayed).is_none(), "{id} is new");
            } else {
                let Appended::At(id) = outcome else { panic!("it was appended: {outcome:?}") };
                let part = &mut self.model.parts[index];
                assert_eq!(id.0, now.max(part.last.next().0), "the tick is now, or the one after the last");
                part.last = id;
                part.messages.insert(id, Message { id, meta, body, expires: ttl.map(|ttl| id.0.plus(ttl)) });
            }
            if let Some(key) = key {
                self.model.dedup.insert(key, outcome.id());
            }
        }
    }

    fn open(&mut self, index: u8, number: u8) {
        let opened =
            self.runtime.block_on(self.store().open(&partition_id(index), &consumer(), fence(number)));
        let part = &mut self.model.parts[usize::from(index)];
        match part.fence.filter(|current| fence(number) < *current) {
            Some(newer) => {
                assert!(matches!(opened, Err(JournalError::Fenced { current, .. }) if current == newer));
            }
            None => {
                let opened = opened.unwrap();
                assert_eq!(opened.position, part.position);
                let state: Vec<_> =
                    part.state.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
                assert_eq!(opened.state, state);
                part.fence = Some(fence(number));
            }
        }
    }

    fn move_to(&mut self, index: u8, number: u8, n: u8, state: Option<u8>, from: Option<bool>) {
        let (partition, fence, consumer) = (partition_id(index), fence(number), consumer());
        let position = self.nth(index, n);
        let stands = self.model.parts[usize::from(index)].position;
        let from = from.map(|right| if right { stands } else { stands.next() });
        let (key, value) = (Bytes::from(vec![n % 3]), state.map(|state| Bytes::from(vec![state; 3])));
        let commit = Commit {
            moves: vec![Move {
                partition: partition.clone(),
                consumer: consumer.clone(),
                fence,
                from,
                position,
            }],
            states: vec![StateWrite { partition, consumer, fence, key: key.clone(), value: value.clone() }],
            ..Commit::default()
        };
        let moved = self.runtime.block_on(self.store().commit(commit));
        let part = &mut self.model.parts[usize::from(index)];
        match (part.fence, moved) {
            (Some(current), Err(JournalError::Fenced { .. })) => assert!(fence < current),
            (current, Err(JournalError::NotOpen { .. })) => {
                assert!(current.is_none_or(|current| current < fence))
            }
            (Some(current), Err(JournalError::Moved { .. })) => {
                assert_eq!(current, fence);
                assert!(from.is_some_and(|from| from != part.position));
            }
            (Some(current), Err(JournalError::Backwards { .. })) => {
                assert_eq!(current, fence);
                assert!(from.is_none_or(|from| from == part.position));
                assert!(position < part.position);
            }
            (Some(current), Ok(_)) => {
                assert_eq!(current, fence);
                assert!(position >= part.position && from.is_none_or(|from| from == part.position));
                part.position = position;
                match value {
                    Some(value) => drop(part.state.insert(key, value)),
                    None => drop(part.state.remove(&key)),
                }
            }
            (current, other) => panic!("with fence {current:?}: {other:?}"),
        }
    }

    fn replace(&mut self, index: u8, n: u8, size: u16) {
        let id = if n.is_multiple_of(5) { MessageId(self.rig.clock.now()) } else { self.nth(index, n) };
        let id = if n.is_multiple_of(7) { id.previous() } else { id };
        let body = self.body(size);
        let edit =
            Edit::Replace { partition: partition_id(index), id, message: NewMessage::new(body.clone()) };
        let commit = Commit { edits: vec![edit], ..Commit::default() };
        let edited = self.runtime.block_on(self.store().commit(commit)).unwrap().edits;
        let part = &mut self.model.parts[usize::from(index)];
        if id <= part.trimmed {
            return assert_eq!(edited, [Edited::Missing]);
        }
        let message = Message { id, meta: Bytes::new(), body, expires: None };
        let there = part.messages.insert(id, message);
        part.last = part.last.max(id);
        match there {
            Some(there) if self.may_be_gone(&there) => assert_ne!(edited, [Edited::Missing]),
            Some(_) => assert_eq!(edited, [Edited::Changed]),
            None => assert_eq!(edited, [Edited::Inserted]),
        }
    }

    fn remove(&mut self, index: u8, n: u8) {
        let id = self.nth(index, n);
        let id = if n.is_multiple_of(11) { id.next() } else { id };
        let commit =
            Commit { edits: vec![Edit::Remove { partition: partition_id(index), id }], ..Commit::default() };
        let edited = self.runtime.block_on(self.store().commit(commit)).unwrap().edits;
        match self.model.parts[usize::from(index)].messages.remove(&id) {
            Some(there) if self.may_be_gone(&there) => assert_ne!(edited, [Edited::Inserted]),
            Some(_) => assert_eq!(edited, [Edited::Changed]),
            None => assert_eq!(edited, [Edited::Missing]),
        }
    }

    fn check_range(&self, index: u8, from: MessageId, limit: u32, descending: bool) {
        let part = &self.model.parts[usize::from(index)];
        let now = self.rig.clock.now();
        let alive = |message: &&Message| message.expires.is_none_or(|expires| expires > now);
        let read = Read::from(partition_id(index), from).limit(limit);
        let (read, expected): (Read, Vec<Message>) = if descending {
            let read = Read { after: MessageId::ZERO, before: from.next(), order: Order::Descending, ..read };
            let all = part.messages.range(..=from).rev().map(|(_, message)| message);
            (read, all.filter(alive).take(limit as usize).cloned().collect())
        } else {
            let all = part.messages.range(from..).map(|(_, message)| message);
            (read, all.filter(alive).take(limit as usize).cloned().collect())
        };
        let after = read.after;
        let batch = self.runtime.block_on(self.store().read(read)).unwrap();
        assert_eq!(batch.messages, expected);
        assert_eq!(batch.last, part.last);
        assert_eq!(batch.gap, (after < part.trimmed).then_some(part.trimmed));
    }

    fn check(&self) {
        for index in 0..4 {
            self.check_range(index, MessageId::ZERO, u32::MAX, false);
            self.check_range(index, MessageId::MAX.previous(), u32::MAX, true);
            let part = &self.model.parts[usize::from(index)];
            let stats = self.runtime.block_on(self.store().stats(&partition_id(index).topic)).unwrap();
            let stats = &stats[partition_id(index).number as usize - 1];
            let between = |count: u64, after: MessageId| {
                let all = part.messages.range(after.next()..).map(|(_, message)| message);
                let there = all.clone().filter(|message| !self.may_be_gone(message)).count();
                assert!((there..=all.count()).contains(&(count as usize)), "{count} in {index}: {part:?}");
            };
            between(stats.messages, MessageId::ZERO);
            assert_eq!(
                stats.delayed,
                self.model.delayed.values().filter(|delayed| delayed.part == usize::from(index)).count()
                    as u64
            );
            self.check_delayed(index);
            if let Some(consumer) = stats.consumers.first() {
                assert_eq!(Some(consumer.fence), part.fence);
                between(consumer.lag, part.position);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, max_shrink_iters: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_store_holds_what_the_model_holds(steps in prop::collection::vec(step(), 1..120)) {
        let mut run = Run::new();
        for step in steps {
            run.step(step);
        }
        run.check();
        run.store().close().unwrap();
        run.reopen();
    }
}
