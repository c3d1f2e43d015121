//! Which worker handles which partition.
//!
//! In order of priority: every served partition has a worker; no worker has two partitions more than another that could
//! take one; partitions do not move without need; a worker talks to few journals.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use menagerie_znodes::Name;
use menagerie_znodes::queues::{PartitionName, QueueName};

/// The owner of each partition.
pub type Owners = BTreeMap<PartitionName, Name>;

/// Input of an assignment.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// Every partition with its journal.
    pub partitions: BTreeMap<PartitionName, String>,
    /// Every worker with the queues it serves; `None` means all.
    pub workers: BTreeMap<Name, Option<BTreeSet<QueueName>>>,
}

impl Facts {
    fn serves(&self, worker: &Name, queue: &QueueName) -> bool {
        self.workers
            .get(worker)
            .is_some_and(|serves| serves.as_ref().is_none_or(|queues| queues.contains(queue)))
    }
}

/// Assigns all partitions with as few moves as possible. Deterministic and idempotent: given its own result, it changes
/// nothing.
pub fn assign(facts: &Facts, previous: &Owners) -> Owners {
    let mut plan = Plan::new(facts);
    for (partition, worker) in previous {
        if facts.partitions.contains_key(partition) && facts.serves(worker, partition.queue()) {
            plan.give(partition, worker);
        }
    }
    plan.assign_unowned();
    plan.balance();
    plan.owners
}

/// An assignment in progress.
struct Plan<'a> {
    facts: &'a Facts,
    owners: Owners,
    loads: BTreeMap<&'a Name, Load<'a>>,
    /// The workers that serve each queue.
    servers: BTreeMap<&'a QueueName, Vec<&'a Name>>,
}

/// The partitions of a worker.
#[derive(Default)]
struct Load<'a> {
    count: usize,
    queues: BTreeMap<&'a QueueName, BTreeSet<&'a PartitionName>>,
    /// Partitions per journal.
    journals: BTreeMap<&'a str, usize>,
}

impl<'a> Plan<'a> {
    fn new(facts: &'a Facts) -> Self {
        let loads = facts.workers.keys().map(|worker| (worker, Load::default())).collect();
        let queues: BTreeSet<_> = facts.partitions.keys().map(PartitionName::queue).collect();
        let serve = |queue| facts.workers.keys().filter(|worker| facts.serves(worker, queue)).collect();
        let servers = queues.into_iter().map(|queue| (queue, serve(queue))).collect();
        Self { facts, owners: Owners::new(), loads, servers }
    }

    fn give(&mut self, partition: &PartitionName, worker: &Name) {
        let (partition, journal) =
            self.facts.partitions.get_key_value(partition).expect("it is one of the facts");
        let load = self.loads.get_mut(worker).expect("it is one of the facts");
        load.count += 1;
        load.queues.entry(partition.queue()).or_default().insert(partition);
        *load.journals.entry(journal).or_default() += 1;
        self.owners.insert(partition.clone(), worker.clone());
    }

    fn take(&mut self, partition: &PartitionName, worker: &Name) {
        let (partition, journal) =
            self.facts.partitions.get_key_value(partition).expect("it is one of the facts");
        let load = self.loads.get_mut(worker).expect("it is one of the facts");
        load.count -= 1;
        let queue = load.queues.get_mut(partition.queue()).expect("it has the partition");
        queue.remove(partition);
        if queue.is_empty() {
            load.queues.remove(partition.queue());
        }
        let in_journal = load.journals.get_mut(journal.as_str()).expect("it has the partition");
        *in_journal -= 1;
        if *in_journal == 0 {
            load.journals.remove(journal.as_str());
        }
        self.owners.remove(partition);
    }

    /// Assigns partitions without an owner, journal by journal. Prefers workers below the even share that have
    /// partitions of the same journal.
    fn assign_unowned(&mut self) {
        let mut rest: Vec<_> = self
            .facts
            .partitions
            .iter()
            .filter(|(partition, _)| !self.owners.contains_key(*partition))
            .collect();
        rest.sort_by_key(|(partition, journal)| (*journal, *partition));
        let share = self.facts.partitions.len() / self.facts.workers.len().max(1);
        for (partition, journal) in rest {
            let preferred = |worker: &&&Name| {
                let load = &self.loads[**worker];
                (load.count >= share, !load.journals.contains_key(journal.as_str()), load.count)
            };
            let free =
                self.servers[partition.queue()].iter().filter(|worker| self.loads[**worker].count < share);
            let any = self.servers[partition.queue()].iter();
            let chosen =
                free.min_by_key(preferred).or_else(|| any.min_by_key(|worker| self.loads[**worker].count));
            if let Some(worker) = chosen.copied() {
                self.give(partition, worker);
            }
        }
    }

    /// Moves partitions one at a time from a worker to another with at least two fewer. If that one does not serve the
    /// partition's queue, moves along a path of workers, each handing a partition to the next.
    fn balance(&mut self) {
        while let Some(path) = self.improvement() {
            for pair in path.windows(2) {
                let [from, to] = pair else { continue };
                let partition = self.movable(from, to).expect("the path leads from one to the next").clone();
                self.take(&partition, from);
                self.give(&partition, to);
            }
        }
    }

    /// The shortest path from the fullest worker that has one to the emptiest it leads to.
    fn improvement(&self) -> Option<Vec<&'a Name>> {
        let mut fullest: Vec<_> = self.loads.iter().map(|(worker, load)| (load.count, *worker)).collect();
        fullest.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(b.1)));
        let emptiest = fullest.last()?.0;
        let mut worth = fullest.into_iter().map(|(_, worker)| worker);
        worth.find_map(|worker| self.path_down(worker, emptiest))
    }

    /// A path to a worker with at least two partitions fewer. No worker has fewer than `emptiest`, so the search ends
    /// when it finds one with that many.
    fn path_down(&self, from: &'a Name, emptiest: usize) -> Option<Vec<&'a Name>> {
        let count = self.loads[from].count.checked_sub(2).filter(|count| *count >= emptiest)?;
        let mut came_from: BTreeMap<&Name, &Name> = BTreeMap::new();
        let mut queues_seen = BTreeSet::new();
        let mut open = VecDeque::from([from]);
        let mut best: Option<&Name> = None;
        'search: while let Some(worker) = open.pop_front() {
            for queue in self.loads[worker].queues.keys() {
                if !queues_seen.insert(*queue) {
                    continue;
                }
                for next in self.servers[*queue].iter().filter(|next| **next != from) {
                    if came_from.contains_key(*next) {
                        continue;
                    }
                    came_from.insert(*next, worker);
                    open.push_back(next);
                    if best.is_none_or(|best| self.loads[*next].count < self.loads[best].count) {
                        best = Some(next);
                    }
                    if self.loads[*next].count == emptiest {
                        break 'search;
                    }
                }
            }
        }
        let mut end = best.filter(|best| self.loads[*best].count <= count)?;
        let mut path = vec![end];
        while end != from {
            end = came_from[end];
            path.push(end);
        }
        path.reverse();
        Some(path)
    }

    /// A partition that `to` can take from `from`. Prefers a journal that `to` has already and of which `from` has few.
    fn movable(&self, from: &Name, to: &Name) -> Option<&'a PartitionName> {
        let (has, gets) = (&self.loads[from], &self.loads[to]);
        let served = has.queues.iter().filter(|(queue, _)| self.facts.serves(to, queue));
        served.flat_map(|(_, partitions)| partitions).copied().min_by_key(|partition| {
            let journal = self.facts.partitions[*partition].as_str();
            (!gets.journals.contains_key(journal), has.journals[journal], *partition)
        })
    }
}
