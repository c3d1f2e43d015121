//! Whose turn it is: of all partitions that could go on, the one that does.
//!
//! Queues come in turn, in the order in which they were given, one message each; or strictly, so that a queue waits until
//! those before it have nothing more, be it that their next message only waits for a record. Among the partitions of a queue the one with the oldest message comes first.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use menagerie_journal::MessageId;
use menagerie_znodes::queues::{PartitionName, QueueName};

/// Which queue comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Policy {
    /// One message of each.
    #[default]
    InTurn,
    /// The first that has any.
    Strict,
}

/// What is known of a partition that is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lane {
    /// The oldest message that is waiting in it.
    pub head: Option<MessageId>,
    /// A message of it is being handled: one at a time is what order means.
    pub running: bool,
    /// Whether its records allow another one to begin.
    pub open: bool,
    /// Whether they will, as soon as one is stored.
    pub recording: bool,
    /// Nobody is to take messages of this queue, or this worker none at all.
    pub paused: bool,
    /// Not before then: its oldest message has failed and is to be tried again.
    pub not_before: Option<Instant>,
}

/// Whether a partition can go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ready {
    /// This message could begin.
    Now(MessageId),
    /// It will, in a moment.
    Soon(MessageId),
    /// It cannot.
    No,
}

impl Lane {
    /// Whether it can go on.
    pub fn ready(&self, now: Instant) -> Ready {
        let waits = self.not_before.is_some_and(|due| due > now);
        match self.head.filter(|_| !self.running && !self.paused && !waits) {
            Some(head) if self.open => Ready::Now(head),
            Some(head) if self.recording => Ready::Soon(head),
            Some(_) | None => Ready::No,
        }
    }
}

/// A partition among those of its queue: the oldest message first, and whether it can begin.
type Place = (MessageId, PartitionName, bool);

/// All partitions that could go on, and whose turn it is among them.
#[derive(Debug)]
pub struct Turn {
    policy: Policy,
    concurrency: usize,
    /// The place of each queue in the order given; others come behind, as they appear.
    places: BTreeMap<QueueName, usize>,
    ready: BTreeMap<usize, BTreeSet<Place>>,
    heads: BTreeMap<PartitionName, Place>,
    running: BTreeSet<PartitionName>,
    /// Partitions that nobody has looked into yet, by the place of their queue.
    unread: BTreeSet<(usize, PartitionName)>,
    /// The queue whose turn was last.
    last: Option<usize>,
}

impl Turn {
    /// Nothing is ready yet. `concurrency` is how many messages are handled at once, all of different partitions.
    pub fn new(queues: &[QueueName], policy: Policy, concurrency: usize) -> Self {
        let mut places = BTreeMap::new();
        for queue in queues {
            let place = places.len();
            places.entry(queue.clone()).or_insert(place);
        }
        Self {
            policy,
            concurrency,
            places,
            ready: BTreeMap::new(),
            heads: BTreeMap::new(),
            running: BTreeSet::new(),
            unread: BTreeSet::new(),
            last: None,
        }
    }

    /// From now on so many at once, and by this rule. Whoever is ready has to be told again.
    pub fn adjust(&mut self, policy: Policy, concurrency: usize) {
        (self.policy, self.concurrency) = (policy, concurrency);
    }

    /// Says whether a partition can go on.
    pub fn update(&mut self, partition: &PartitionName, ready: Ready) {
        let queue = self.place(partition.queue());
        if let Some(place) = self.heads.remove(partition) {
            let ready = self.ready.get_mut(&queue).expect("a head is in its queue");
            ready.remove(&place);
            if ready.is_empty() {
                self.ready.remove(&queue);
            }
        }
        let place = match ready {
            Ready::Now(head) => (head, partition.clone(), true),
            // Only who is strict waits for it.
            Ready::Soon(head) if self.policy == Policy::Strict => (head, partition.clone(), false),
            Ready::Soon(_) | Ready::No => return,
        };
        if !self.running.contains(partition) {
            self.ready.entry(queue).or_default().insert(place.clone());
            self.heads.insert(partition.clone(), place);
        }
    }

    /// Nobody has looked into this partition yet. Until somebody has, its queue and those behind it wait: it may have what
    /// comes before all that they have.
    pub fn expect(&mut self, partition: &PartitionName) {
        let queue = self.place(partition.queue());
        self.unread.insert((queue, partition.clone()));
    }

    /// Somebody has looked into it, or will not in the near future.
    pub fn looked(&mut self, partition: &PartitionName) {
        if self.expects() {
            let queue = self.place(partition.queue());
            self.unread.remove(&(queue, partition.clone()));
        }
    }

    /// Nobody waits any longer for what is not known.
    pub fn expect_no_more(&mut self) {
        self.unread.clear();
    }

    /// Whether there are partitions that nobody has looked into yet.
    pub fn expects(&self) -> bool {
        !self.unread.is_empty()
    }

    /// Takes the next one, if there is one and not enough are running. It is ready no more until it has ended.
    pub fn take(&mut self) -> Option<PartitionName> {
        if self.running.len() >= self.concurrency {
            return None;
        }
        let after = match (self.policy, self.last) {
            (Policy::InTurn, Some(last)) => last + 1,
            (Policy::InTurn, None) | (Policy::Strict, _) => 0,
        };
        let end = self.unread.first().map_or(usize::MAX, |(unread, _)| *unread);
        let next = self.ready.range(after.min(end)..end).next().or_else(|| self.ready.range(..end).next());
        let (queue, places) = next?;
        let (_, partition, _) = places.iter().find(|(_, _, now)| *now)?.clone();
        self.last = Some(*queue);
        self.update(&partition, Ready::No);
        self.running.insert(partition.clone());
        Some(partition)
    }

    /// What was taken has ended.
    pub fn ended(&mut self, partition: &PartitionName) {
        self.running.remove(partition);
    }

    /// How many are running.
    pub fn running(&self) -> usize {
        self.running.len()
    }

    fn place(&mut self, queue: &QueueName) -> usize {
        if let Some(place) = self.places.get(queue) {
            return *place;
        }
        let place = self.places.len();
        self.places.insert(queue.clone(), place);
        place
    }
}
