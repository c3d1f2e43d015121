//! Checks which znodes of a queue belong together.

use menagerie_znodes::Payload as _;
use menagerie_znodes::queues::{self, PartitionName, QueueName, Settings};
use menagerie_znodes::quote::unquote;

use super::super::finding::Health;
use super::{Damage, Tree, full};

/// qdo created cursors without data.
pub fn may_be_empty(path: &str) -> bool {
    partition(path).is_some()
}

fn partition(path: &str) -> Option<PartitionName> {
    PartitionName::of_znode(path.strip_prefix("/queues/")?)
}

/// Checks every queue.
pub fn judge(namespace: &str, tree: &Tree) -> Vec<Damage> {
    let mut damage = Vec::new();
    for (path, data) in &tree.znodes {
        if let Some(partition) = partition(path) {
            damage.extend(cursor(namespace, tree, path, data, &partition));
        }
        let queue = path.strip_prefix("/queue-settings/").and_then(|name| unquote(name)?.parse().ok());
        if let (Some(queue), Ok(settings)) = (queue, Settings::decode(data)) {
            damage.extend(cursors(namespace, tree, &queue, settings.partitions));
        }
    }
    damage
}

/// Every partition of a queue has a cursor.
fn cursors(namespace: &str, tree: &Tree, queue: &QueueName, partitions: u16) -> Vec<Damage> {
    let paths = (1..=partitions).map(|number| queues::cursor(&queue.partition(number)));
    let missing = paths.filter(|cursor| !tree.znodes.contains_key(cursor.path()));
    missing
        .map(|cursor| {
            let full = full(namespace, cursor.path());
            Damage {
                health: Health::Fail,
                what: format!(
                    "{full} is missing: the progress of this partition of queue {queue} is lost, and nobody \
                     handles it"
                ),
                remedy: format!(
                    "if you know how far, `menagerie zk create {full} SECONDS.0000000`; to begin with all that the journal has, \
                     `menagerie queue create {queue} --partitions {partitions}`"
                ),
            }
        })
        .collect()
}

fn cursor(
    namespace: &str,
    tree: &Tree,
    path: &str,
    data: &[u8],
    partition: &PartitionName,
) -> Option<Damage> {
    let (full, queue) = (full(namespace, path), partition.queue());
    let has_settings = tree.znodes.contains_key(queues::settings(queue).path());
    let (what, remedy) = match (has_settings, data.is_empty()) {
        (true, false) => return None,
        (true, true) => (
            format!(
                "{full} is empty, and counts as the beginning: whatever the journal still has is handled again"
            ),
            "write to it how far the partition was handled, in seconds since 1970".to_owned(),
        ),
        (false, _) => (
            format!("{full} belongs to no queue: {} is missing", queues::settings(queue).path()),
            format!(
                "`menagerie queue create {queue} --partitions N` makes the queue anew and goes on from there; if nobody wants it, \
                 `menagerie zk rm {full}`"
            ),
        ),
    };
    Some(Damage { health: Health::Warn, what, remedy })
}
