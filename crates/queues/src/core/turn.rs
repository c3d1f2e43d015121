//! The scheduler: which partition begins its next message.
//!
//! Queues take turns in the order given, one message each; or, with the strict policy, a queue waits until those before
//! it have nothing left, not even a message that only waits for a record. Within a queue, the oldest message comes
//! first.

use std::collections::{BTreeMap, BTreeSet};

use menagerie_journal::MessageId;
use menagerie_znodes::queues::{PartitionName, QueueName};

/// Which queue comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Policy {
    /// One message of each, in turn.
    #[default]
    InTurn,
    /// The first that has messages.
    Strict,
}

/// Whether a partition can begin a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ready {
    /// This message can begin.
    Now(MessageId),
    /// This one will, once a record is stored.
    Soon(MessageId),
    /// None can.
    No,
}

/// A partition of a queue that has a message to begin; ordered by message, oldest first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    head: MessageId,
    partition: PartitionName,
    /// Whether it can begin now, rather than after a record.
    can_begin: bool,
}

/// All partitions that can begin a message, and whose turn it is.
#[derive(Debug)]
pub struct Turn {
    policy: Policy,
    concurrency: usize,
    /// Rank of each queue: in the order given, then in order of appearance.
    ranks: BTreeMap<QueueName, usize>,
    ready: BTreeMap<usize, BTreeSet<Candidate>>,
    heads: BTreeMap<PartitionName, Candidate>,
    /// Turns that have not ended.
    running: usize,
    /// Partitions that have not been read yet, by the rank of their queue.
    unread: BTreeSet<(usize, PartitionName)>,
    /// Rank of the queue whose turn was last.
    last: Option<usize>,
}

impl Turn {
    /// A scheduler with nothing ready. `concurrency`: turns at a time.
    pub fn new(queues: &[QueueName], policy: Policy, concurrency: usize) -> Self {
        let mut ranks = BTreeMap::new();
        for queue in queues {
            let rank = ranks.len();
            ranks.entry(queue.clone()).or_insert(rank);
        }
        Self {
            policy,
            concurrency,
            ranks,
            ready: BTreeMap::new(),
            heads: BTreeMap::new(),
            running: 0,
            unread: BTreeSet::new(),
            last: None,
        }
    }

    /// Changes policy and concurrency. The caller must update every partition afterwards.
    pub fn adjust(&mut self, policy: Policy, concurrency: usize) {
        (self.policy, self.concurrency) = (policy, concurrency);
    }

    /// Updates whether a partition can begin a message.
    pub fn update(&mut self, partition: &PartitionName, ready: Ready) {
        let next = match ready {
            Ready::Now(head) => Some((head, true)),
            // Only a strict policy waits for it.
            Ready::Soon(head) if self.policy == Policy::Strict => Some((head, false)),
            Ready::Soon(_) | Ready::No => None,
        };
        let known = self.heads.get(partition).map(|known| (known.head, known.can_begin));
        if known == next {
            return;
        }
        let queue = self.rank(partition.queue());
        if let Some(candidate) = self.heads.remove(partition) {
            let ready = self.ready.get_mut(&queue).expect("a head is in its queue");
            ready.remove(&candidate);
            if ready.is_empty() {
                self.ready.remove(&queue);
            }
        }
        let Some((head, can_begin)) = next else { return };
        let candidate = Candidate { head, partition: partition.clone(), can_begin };
        self.ready.entry(queue).or_default().insert(candidate.clone());
        self.heads.insert(partition.clone(), candidate);
    }

    /// Makes the partition's queue and all later ones wait for its first read: its messages may come before theirs.
    pub fn await_first_read(&mut self, partition: &PartitionName) {
        let queue = self.rank(partition.queue());
        self.unread.insert((queue, partition.clone()));
    }

    /// The first read of the partition has ended, or will not start soon.
    pub fn mark_read(&mut self, partition: &PartitionName) {
        if self.awaits_first_reads() {
            let queue = self.rank(partition.queue());
            self.unread.remove(&(queue, partition.clone()));
        }
    }

    /// Stops waiting for first reads.
    pub fn stop_awaiting_reads(&mut self) {
        self.unread.clear();
    }

    /// Whether some first reads are outstanding.
    pub fn awaits_first_reads(&self) -> bool {
        !self.unread.is_empty()
    }

    /// Takes the next partition, if there is one and concurrency allows. It is not ready again until it is updated, and
    /// its turn lasts until [`finish`](Self::finish).
    pub fn take(&mut self) -> Option<PartitionName> {
        if self.running >= self.concurrency {
            return None;
        }
        let after = match (self.policy, self.last) {
            (Policy::InTurn, Some(last)) => last + 1,
            (Policy::InTurn, None) | (Policy::Strict, _) => 0,
        };
        let end = self.unread.first().map_or(usize::MAX, |(unread, _)| *unread);
        let next = self.ready.range(after.min(end)..end).next().or_else(|| self.ready.range(..end).next());
        let (queue, candidates) = next?;
        let partition = candidates.iter().find(|candidate| candidate.can_begin)?.partition.clone();
        self.last = Some(*queue);
        self.update(&partition, Ready::No);
        self.running += 1;
        Some(partition)
    }

    /// Ends the turn of a partition.
    pub fn finish(&mut self) {
        self.running = self.running.saturating_sub(1);
    }

    /// Number of turns that have not ended.
    pub fn running(&self) -> usize {
        self.running
    }

    fn rank(&mut self, queue: &QueueName) -> usize {
        if let Some(rank) = self.ranks.get(queue) {
            return *rank;
        }
        let rank = self.ranks.len();
        self.ranks.insert(queue.clone(), rank);
        rank
    }
}
