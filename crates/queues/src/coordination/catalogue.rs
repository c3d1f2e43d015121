//! The queues that there are, as ZooKeeper has them.

use std::collections::{BTreeMap, BTreeSet};

use menagerie_kernel::{CallError, Term};
use menagerie_znodes::queues::{self, PartitionName, QueueName, Settings, Worker};
use menagerie_znodes::quote::unquote;
use menagerie_znodes::{Name, Payload as _};
use tracing::warn;

use crate::core::assignment::Facts;

/// What a queue is; `None` if there is none.
pub async fn settings(term: &Term, queue: &QueueName) -> Result<Option<(Settings, i32)>, CallError> {
    let znode = queues::settings(queue);
    match term.get(znode.path()).await {
        Ok((data, stat)) => match Settings::decode(&data) {
            Ok(settings) => Ok(Some((settings, stat.version))),
            Err(error) => {
                Err(CallError::Payload { path: znode.path().to_owned(), why: error.source.to_string() })
            }
        },
        Err(CallError::NoZnode { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The journal of each queue. A queue without settings is one of qdo, whose messages are in the journal without a name.
pub async fn journals(
    term: &Term,
    names: impl IntoIterator<Item = &QueueName>,
) -> Result<BTreeMap<QueueName, String>, CallError> {
    let names: BTreeSet<&QueueName> = names.into_iter().collect();
    let paths: Vec<String> = names.iter().map(|name| queues::settings(name).path().to_owned()).collect();
    let found = term.get_many(&paths).await?;
    let journal = |(name, found): (&QueueName, Option<(Vec<u8>, _)>)| {
        let settings = found.and_then(|(data, _)| Settings::decode(&data).ok());
        (name.clone(), settings.map(|settings| settings.journal).unwrap_or_default())
    };
    Ok(names.into_iter().zip(found).map(journal).collect())
}

/// What there is to assign among those who were listed when it had settled.
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
    let paths: Vec<String> = names.iter().map(|name| queues::worker(name).path().to_owned()).collect();
    let found = term.get_many(&paths).await?;
    let worker = |(name, found): (Name, Option<(Vec<u8>, _)>)| {
        // Who is gone meanwhile makes another change, which settles later.
        let (data, _) = found?;
        match Worker::decode(&data) {
            Ok(Worker { serves: Some(serves), .. }) => Some((name, Some(serves.into_iter().collect()))),
            Ok(Worker { serves: None, .. }) => {
                warn!(worker = %name, "a worker that does not say what it serves is none of ours, and gets nothing");
                None
            }
            Err(error) => {
                warn!(worker = %name, error = %error.source, "a worker that cannot be read gets nothing");
                None
            }
        }
    };
    Ok(Facts { partitions, workers: names.into_iter().zip(found).filter_map(worker).collect() })
}
