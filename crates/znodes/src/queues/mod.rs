//! Queues and their workers (seeds 000 and 001).

mod cursor;
mod keep;
mod keys;
mod names;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Name;
use crate::entry::{Entry, Kind};
use crate::payload::{Json, check};
use crate::znode::{Dir, Znode};

pub use cursor::{Cursor, TICKS_PER_SECOND};
pub use keep::Keep;
pub use keys::{ApplicationKey, KEY_ID_CHARS, KeyId, KeyIdError, Scope};
pub use names::{
    PARTITIONS_MAX, PartitionName, PartitionNameError, QUEUE_NAME_CHARS_MAX, QueueName, QueueNameError,
};

const WORKERS: Entry = folder("/workers", "000: `/workers`");
const WORKER: Entry = Entry {
    pattern: "/workers/<worker>",
    kind: Kind::Ephemeral,
    payload: "JSON: the partitions that it handles (`queues`), the queues that it serves, whether it is paused",
    check: check::<Worker>,
    written_by: "the worker, whenever a partition comes or goes, and again in every new session",
    guarded_by: "its owner: the session of one worker",
    deleted_by: "the worker when it leaves, or the end of its session",
    seed: "000: `/workers/<fqdn>-<pid>`",
};

const QUEUES: Entry = folder("/queues", "000: `/queues`");
const CURSOR: Entry = Entry {
    pattern: "/queues/<queue>-<partition>",
    kind: Kind::Persistent,
    payload: "how far the partition was processed: decimal seconds with exactly seven digits",
    check: check::<Cursor>,
    written_by: "`queue create`; then the worker that holds the partition's lock",
    guarded_by: "the lock's contender, checked in the same transaction, and its own version",
    deleted_by: "`queue delete`",
    seed: "000: `/queues/<queue>-<partition>`",
};

const LOCKS: Entry = folder("/queue-locks", "000: `/queue-locks`");
const LOCK: Entry = Entry {
    pattern: "/queue-locks/<queue>-<partition>",
    kind: Kind::Persistent,
    payload: "nothing: its children contend as kazoo's lock does, each with its worker's name",
    check: check::<()>,
    written_by: "the first worker that wants the partition",
    guarded_by: "being a lock",
    deleted_by: "`queue delete`; a worker that finds nothing to handle behind it",
    seed: "000: `/queue-locks/<queue>-<partition>`, a lock of zktools",
};

const SETTINGS_DIR: Entry = folder("/queue-settings", "none: they were in Queuey's store");
const SETTINGS: Entry = Entry {
    pattern: "/queue-settings/<queue>",
    kind: Kind::Persistent,
    payload: "JSON: number of partitions, journal and its folder, how long handled messages stay, type, principles, when it was created",
    check: check::<Settings>,
    written_by: "`queue create`, `queue alter`, the HTTP API",
    guarded_by: "its version",
    deleted_by: "`queue delete`, last of all that belongs to the queue",
    seed: "none: they were in Queuey's store",
};

const ELECTION: Entry = Entry {
    pattern: "/queue-election",
    kind: Kind::Persistent,
    payload: "nothing: its children contend as kazoo's election does, each with its worker's name",
    check: check::<()>,
    written_by: "the first worker",
    guarded_by: "being an election",
    deleted_by: "nobody",
    seed: "000: `rebalance needs a lock`",
};

const ASSIGNMENT: Entry = Entry {
    pattern: "/queue-assignment",
    kind: Kind::Persistent,
    payload: "JSON: the epoch, and which worker is to handle which partitions",
    check: check::<Assignment>,
    written_by: "the elected worker",
    guarded_by: "the election's contender, checked in the same transaction, and its own version",
    deleted_by: "nobody",
    seed: "000: `Worker queue assignment`, which every worker computed for itself",
};

const PAUSES: Entry = folder("/pause", "001: `pause mode? without triggering rebalance`");
const PAUSE: Entry = Entry {
    pattern: "/pause/<scope>",
    kind: Kind::Persistent,
    payload: "JSON: by whom, why",
    check: check::<Pause>,
    written_by: "`queue pause`",
    guarded_by: "nothing: it only exists",
    deleted_by: "`queue resume`",
    seed: "001: `pause mode? without triggering rebalance`",
};

const KEYS: Entry = folder("/application-keys", "none: they were in Queuey's configuration");
const KEY: Entry = Entry {
    pattern: "/application-keys/<key>",
    kind: Kind::Persistent,
    payload: "JSON: the application, the key's SHA-256 (never the key itself), what it is good for, when it was added",
    check: check::<ApplicationKey>,
    written_by: "`queue key add`",
    guarded_by: "its name, which is the beginning of the hash: no two keys share one",
    deleted_by: "`queue key revoke`",
    seed: "none: they were in Queuey's configuration",
};

const fn folder(pattern: &'static str, seed: &'static str) -> Entry {
    Entry {
        pattern,
        kind: Kind::Persistent,
        payload: "nothing",
        check: check::<()>,
        written_by: "whoever needs it first",
        guarded_by: "nothing: it is only a folder",
        deleted_by: "nobody",
        seed,
    }
}

/// Every znode of queues.
pub const ENTRIES: &[Entry] = &[
    WORKERS,
    WORKER,
    QUEUES,
    CURSOR,
    LOCKS,
    LOCK,
    SETTINGS_DIR,
    SETTINGS,
    ELECTION,
    ASSIGNMENT,
    PAUSES,
    PAUSE,
    KEYS,
    KEY,
];

/// What a worker says about itself.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Worker {
    /// The partitions that it handles now.
    pub queues: Vec<PartitionName>,
    /// The queues that it would handle any partition of. One that does not say is none of ours, and is
    /// given nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serves: Option<Vec<QueueName>>,
    /// It takes no message until it is told to.
    #[serde(default)]
    pub paused: bool,
}

impl Json for Worker {
    const WHAT: &'static str = "a worker";
}

/// What a queue is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// How many partitions it has.
    pub partitions: u16,
    /// The journal that its messages are in, by its name.
    pub journal: String,
    /// The data folder of that journal, by its id. A journal of the name with another folder is not the one that is meant.
    /// Queues of versions before this was noted take any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    /// Who may read it.
    #[serde(default)]
    pub visibility: Visibility,
    /// How its creator wanted it kept. Kept for whoever asks: a journal is always durable, and its order is its own.
    #[serde(default)]
    pub consistency: Consistency,
    /// Who may read and delete messages, if not its application.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub principles: Vec<String>,
    /// For how long messages stay that were handled.
    #[serde(default, rename = "keep_ms")]
    pub keep: Keep,
    /// When it was created, in ms since 1970.
    pub created_ms: u64,
}

impl Json for Settings {
    const WHAT: &'static str = "the settings of a queue";
}

/// Who may read a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Visibility {
    /// Its application, or its principles.
    #[default]
    User,
    /// Anybody.
    Public,
}

/// What Queuey's queues had to say to a cluster of stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Consistency {
    /// One store.
    Weak,
    /// Most stores.
    #[default]
    Strong,
    /// Most stores everywhere.
    VeryStrong,
}

/// Which worker is to handle what. Obeying it is not enough: who handles a partition holds its lock.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Assignment {
    /// Rises with every assignment.
    pub epoch: u64,
    /// Every worker of that time, also those who have nothing to do.
    pub workers: BTreeMap<Name, Vec<PartitionName>>,
}

impl Json for Assignment {
    const WHAT: &'static str = "an assignment of partitions";
}

impl Assignment {
    /// Who is to handle what, by partition.
    pub fn owners(&self) -> BTreeMap<&PartitionName, &Name> {
        let owned = |(worker, partitions)| -> _ {
            let partitions: &Vec<PartitionName> = partitions;
            partitions.iter().map(move |partition| (partition, worker))
        };
        self.workers.iter().flat_map(owned).collect()
    }
}

/// Why nothing is taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    /// Who said so.
    pub by: String,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Json for Pause {
    const WHAT: &'static str = "a pause";
}

/// All workers.
pub fn workers() -> Znode<()> {
    WORKERS.at(&[])
}

/// One worker.
pub fn worker(name: &Name) -> Znode<Worker> {
    WORKER.at(&[name])
}

/// All partitions, by how far they were processed.
pub fn cursors() -> Znode<()> {
    QUEUES.at(&[])
}

/// How far a partition was processed.
pub fn cursor(partition: &PartitionName) -> Znode<Cursor> {
    CURSOR.at(&[partition.queue(), &partition.number()])
}

/// All locks.
pub fn locks() -> Znode<()> {
    LOCKS.at(&[])
}

/// The lock of a partition: whoever holds it handles the partition, and nobody else does.
pub fn lock(partition: &PartitionName) -> Znode<Dir> {
    LOCK.at(&[partition.queue(), &partition.number()])
}

/// All queues.
pub fn all_settings() -> Znode<()> {
    SETTINGS_DIR.at(&[])
}

/// What a queue is.
pub fn settings(queue: &QueueName) -> Znode<Settings> {
    SETTINGS.at(&[queue])
}

/// Which worker assigns.
pub fn election() -> Znode<Dir> {
    ELECTION.at(&[])
}

/// Which worker is to handle what.
pub fn assignment() -> Znode<Assignment> {
    ASSIGNMENT.at(&[])
}

/// All pauses.
pub fn pauses() -> Znode<()> {
    PAUSES.at(&[])
}

/// That nobody takes a message of this queue.
pub fn pause_of_queue(queue: &QueueName) -> Znode<Pause> {
    PAUSE.at(&[&crate::quote::Quoted(&format!("queue:{queue}"))])
}

/// That this worker takes no message.
pub fn pause_of_worker(worker: &Name) -> Znode<Pause> {
    PAUSE.at(&[&crate::quote::Quoted(&format!("worker:{worker}"))])
}

/// All keys of applications.
pub fn keys() -> Znode<()> {
    KEYS.at(&[])
}

/// A key of an application.
pub fn key(id: &KeyId) -> Znode<ApplicationKey> {
    KEY.at(&[id])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::payload::Payload;

    #[test]
    fn znodes_are_where_the_seed_has_them() {
        let partition: PartitionName = "a4bb2fb6dcda4b68aad743a4746d7f58-1".parse().unwrap();
        assert_eq!(cursor(&partition).path(), "/queues/a4bb2fb6dcda4b68aad743a4746d7f58-1");
        assert_eq!(lock(&partition).path(), "/queue-locks/a4bb2fb6dcda4b68aad743a4746d7f58-1");
        let name = Name::new("svc1.example.org-1842").unwrap();
        assert_eq!(worker(&name).path(), "/workers/svc1.example.org-1842");
        let other = "notes:mail-2".parse().unwrap();
        assert_eq!(cursor(&other).path(), "/queues/notes:mail-2");
    }

    #[test]
    fn a_worker_of_the_seed_can_be_read() {
        let worker = Worker::decode(br#"{"queues": ["a-1", "b-c-2"]}"#).unwrap();
        assert_eq!(worker.queues, ["a-1".parse().unwrap(), "b-c-2".parse().unwrap()]);
        assert_eq!(worker.serves, None);
    }
}
