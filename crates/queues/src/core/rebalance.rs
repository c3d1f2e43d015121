//! What a new assignment changes, for logs and metrics.

use std::collections::BTreeSet;
use std::fmt;

use menagerie_znodes::Name;
use menagerie_znodes::queues::{Assignment, PartitionName};

/// Moves named in a log line; the rest are counted.
const MOVES_SHOWN: usize = 8;

/// A partition that changes its owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Move {
    /// The partition.
    pub partition: PartitionName,
    /// Old owner; `None` for a new partition.
    pub from: Option<Name>,
    /// New owner; `None` if the partition is gone or nobody serves it.
    pub to: Option<Name>,
}

/// The difference between two assignments.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rebalance {
    /// Epoch of the newer one.
    pub epoch: u64,
    /// New workers.
    pub joined: Vec<Name>,
    /// Workers that have left.
    pub left: Vec<Name>,
    /// Partitions that change their owner.
    pub moved: Vec<Move>,
    /// Number of partitions that stay.
    pub stay: usize,
}

impl Rebalance {
    /// Compares two assignments.
    pub fn between(old: &Assignment, new: &Assignment) -> Self {
        let (before, after) = (old.owners(), new.owners());
        let all: BTreeSet<_> = before.keys().chain(after.keys()).copied().collect();
        let (mut moved, mut stay) = (Vec::new(), 0);
        for partition in all {
            let (from, to) = (before.get(partition).copied(), after.get(partition).copied());
            if from == to {
                stay += 1;
            } else {
                moved.push(Move { partition: partition.clone(), from: from.cloned(), to: to.cloned() });
            }
        }
        let missing = |of: &Assignment, there: &Assignment| -> Vec<Name> {
            of.workers.keys().filter(|worker| !there.workers.contains_key(*worker)).cloned().collect()
        };
        Self { epoch: new.epoch, joined: missing(new, old), left: missing(old, new), moved, stay }
    }
}

impl fmt::Display for Rebalance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (workers, what) in [(&self.joined, "joined"), (&self.left, "left")] {
            if !workers.is_empty() {
                let workers: Vec<_> = workers.iter().map(Name::as_str).collect();
                write!(f, "{} {what}; ", workers.join(", "))?;
            }
        }
        let move_ = if self.moved.len() == 1 { "partition moves" } else { "partitions move" };
        write!(f, "{} {move_} and {} stay", self.moved.len(), self.stay)?;
        for (place, Move { partition, from, to }) in self.moved.iter().take(MOVES_SHOWN).enumerate() {
            let name = |name: &Option<Name>| name.as_ref().map_or("nobody".to_owned(), Name::to_string);
            let before = if place == 0 { ": " } else { ", " };
            write!(f, "{before}{partition} from {} to {}", name(from), name(to))?;
        }
        match self.moved.len().saturating_sub(MOVES_SHOWN) {
            0 => Ok(()),
            more => write!(f, ", and {more} more"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assignment(epoch: u64, workers: &[(&str, &[&str])]) -> Assignment {
        let worker = |(name, partitions): &(&str, &[&str])| {
            (Name::new(*name).unwrap(), partitions.iter().map(|name| name.parse().unwrap()).collect())
        };
        Assignment { epoch, workers: workers.iter().map(worker).collect() }
    }

    #[test]
    fn workers_and_moves_are_listed() {
        let old = assignment(1, &[("a", &["mail-1", "mail-2", "old-1"]), ("b", &["mail-3"])]);
        let new = assignment(2, &[("a", &["mail-1"]), ("c", &["mail-2", "mail-3", "new-1"])]);
        assert_eq!(
            Rebalance::between(&old, &new).to_string(),
            "c joined; b left; 4 partitions move and 1 stay: mail-2 from a to c, mail-3 from b to c, \
             new-1 from nobody to c, old-1 from a to nobody"
        );
    }

    #[test]
    fn many_moves_are_cut_short() {
        let names: Vec<String> = (1..=20).map(|number| format!("mail-{number}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let new = assignment(1, &[("a", &names)]);
        let text = Rebalance::between(&Assignment::default(), &new).to_string();
        assert!(text.ends_with(", and 12 more"), "{text}");
    }
}
