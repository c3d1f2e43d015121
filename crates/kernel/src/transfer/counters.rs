//! The counters behind the numbers of sequence znodes.
//!
//! The server numbers a sequence znode with the count of children that its parent ever had. A parent that was just
//! imported has had few: the next number would be lower than existing ones, or even the same. No call sets the count;
//! so the import creates and deletes children, many in one transaction, until the count is where it was.
//!
//! That is expensive, so it is done only where a number matters: where a persistent child has one, or where the map
//! declares such children. Elsewhere (locks, elections, members) numbers order ephemerals among themselves, and none of
//! those is imported; their fences last, but rise by their generation.

use std::collections::{BTreeMap, BTreeSet};

use menagerie_znodes::{Kind, lookup};

use super::format::{Record, parent};
use crate::error::CallError;
use crate::session::{Stat, Term, create_mode};
use crate::subtree;

/// The name of the child that is created and deleted; nobody else uses it.
const NAME: &str = "menagerie-import-counter";

/// Creations and deletions in one transaction: far below what a request may hold.
const PAIRS_MAX: u32 = 500;

/// How many children a znode ever had. ZooKeeper counts creations and deletions together.
pub fn created(stat: &Stat) -> u32 {
    stat.cversion.cast_unsigned().wrapping_add(stat.children.cast_unsigned()) / 2
}

/// The counters to raise, collected from the records.
#[derive(Debug, Default)]
pub struct Counters {
    created: BTreeMap<String, u32>,
    numbered: BTreeSet<String>,
}

impl Counters {
    /// Adds a record.
    pub fn add(&mut self, record: &Record) {
        // The server may remove an empty container at any time, and its counter with it.
        let container = lookup::find(&record.path).is_some_and(|(_, entry)| entry.kind == Kind::Container);
        if record.children_created > 0 && !container {
            self.created.insert(record.path.clone(), record.children_created);
        }
        let name = record.path.rsplit('/').next().unwrap_or_default();
        if lookup::sequence_number(name).is_some() {
            self.numbered.insert(parent(&record.path).to_owned());
        }
    }

    /// The paths below the namespace, and the least value of their counters: of `all`, or only where numbers matter.
    pub fn targets(self, all: bool) -> Vec<(String, u32)> {
        let matters = |path: &str| all || self.numbered.contains(path) || lookup::numbers_children(path);
        self.created.into_iter().filter(|(path, _)| matters(path)).collect()
    }
}

/// How much a counter lacks.
pub async fn missing(term: &Term, path: &str, target: u32) -> Result<u32, CallError> {
    let stat = term.stat(path).await?.ok_or_else(|| CallError::NoZnode { path: path.to_owned() })?;
    Ok(target.saturating_sub(created(&stat)))
}

/// Raises the counter of one znode; calls `raised` with each step.
pub async fn raise(
    term: &Term,
    path: &str,
    target: u32,
    mut raised: impl FnMut(u32),
) -> Result<(), CallError> {
    let term = term.patient();
    let child = subtree::join(path, NAME);
    loop {
        let missing = missing(&term, path, target).await?;
        if missing == 0 {
            return Ok(());
        }
        let pairs = missing.min(PAIRS_MAX);
        match create_and_delete(&term, &child, pairs).await {
            Ok(()) => raised(pairs),
            // The counter shows whether it has happened.
            Err(CallError::Unknown { .. }) => {}
            Err(error) => return Err(error),
        }
    }
}

async fn create_and_delete(term: &Term, child: &str, pairs: u32) -> Result<(), CallError> {
    let acls = term.acls();
    term.write(child, None, |client, path| async move {
        let mut writer = client.new_multi_writer();
        let mode = create_mode(Kind::Persistent).with_acls(acls);
        for _ in 0..pairs {
            writer.add_create(&path, b"", &mode)?;
            writer.add_delete(&path, None)?;
        }
        match writer.commit().await {
            Ok(_) => Ok(()),
            Err(
                zookeeper_client::MultiWriteError::OperationFailed { source, .. }
                | zookeeper_client::MultiWriteError::RequestFailed { source },
            ) => Err(source),
        }
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(path: &str, children_created: u32) -> Record {
        Record { path: path.to_owned(), data: Vec::new(), access: Vec::new(), children_created }
    }

    #[test]
    fn counters_matter_where_a_persistent_child_has_a_number() {
        let mut counters = Counters::default();
        for record in
            [record("/", 2), record("/log", 9), record("/lock", 50), record("/log/entry-0000000008", 0)]
        {
            counters.add(&record);
        }
        assert_eq!(counters.targets(false), [("/log".to_owned(), 9)]);
    }

    #[test]
    fn all_counters_are_raised_on_request() {
        let mut counters = Counters::default();
        counters.add(&record("/", 2));
        counters.add(&record("/lock", 50));
        counters.add(&record("/leaf", 0));
        assert_eq!(counters.targets(true), [("/".to_owned(), 2), ("/lock".to_owned(), 50)]);
    }
}
