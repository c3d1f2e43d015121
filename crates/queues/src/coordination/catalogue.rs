//! Reads queues, partitions and workers from ZooKeeper.

use std::collections::{BTreeMap, BTreeSet};

use menagerie_kernel::{CallError, Term};
use menagerie_znodes::queues::{self, PartitionName, QueueName, Worker};
use menagerie_znodes::quote::unquote;
use menagerie_znodes::{MaybeDamaged, Name};
use tracing::warn;

use crate::core::assignment::Facts;

/// The journal of each queue. A queue without settings comes from qdo; its messages are in the unnamed journal.
pub async fn journals(
    term: &Term,
    names: impl IntoIterator<Item = &QueueName>,
) -> Result<BTreeMap<QueueName, String>, CallError> {
    let names: BTreeSet<&QueueName> = names.into_iter().collect();
    let znodes: Vec<_> = names.iter().map(|name| queues::settings(name).maybe_damaged()).collect();
    let found = names.into_iter().zip(term.read_many(&znodes).await?);
    let journals = found.map(|(name, found)| {
        let settings = found.and_then(|found| found.value.sound());
        (name.clone(), settings.map(|settings| settings.journal).unwrap_or_default())
    });
    Ok(journals.collect())
}

/// The facts for an assignment, from settled lists of workers and cursors.
pub async fn facts(term: &Term, workers: &[String], cursors: &[String]) -> Result<Facts, CallError> {
    let partitions: BTreeSet<PartitionName> =
        cursors.iter().filter_map(|name| PartitionName::of_znode(name)).collect();
    let journals = journals(term, partitions.iter().map(PartitionName::queue)).await?;
    let with_journal = |partition: PartitionName| {
        let journal = journals.get(partition.queue()).cloned().unwrap_or_default();
        (partition, journal)
    };
    let partitions = partitions.into_iter().map(with_journal).collect();
    let names: Vec<Name> = workers.iter().filter_map(|name| Name::new(unquote(name)?).ok()).collect();
    let znodes: Vec<_> = names.iter().map(|name| queues::worker(name).maybe_damaged()).collect();
    let found = names.into_iter().zip(term.read_many(&znodes).await?);
    // A worker that has left meanwhile causes another change, which settles later.
    let workers = found.filter_map(|(name, found)| match found?.value {
        MaybeDamaged::Sound(Worker { serves: Some(serves), .. }) => {
            Some((name, Some(serves.into_iter().collect())))
        }
        MaybeDamaged::Sound(Worker { serves: None, .. }) => {
            warn!(worker = %name, "worker does not say what it serves, so it is not ours and gets nothing");
            None
        }
        MaybeDamaged::Damaged { why, .. } => {
            warn!(worker = %name, error = why, "a worker that cannot be read gets nothing");
            None
        }
    });
    Ok(Facts { partitions, workers: workers.collect() })
}
