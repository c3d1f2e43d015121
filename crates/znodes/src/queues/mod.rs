//! Queues and their workers (seeds 000 and 001).

mod cursor;
mod gaps;
mod handling;
mod keep;
mod keys;
mod names;
mod schedule;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Name;
use crate::payload::{Json, check};
use crate::spec::{Kind, ZnodeSpec};
use crate::znode::{Dir, Znode};

pub use cursor::{Cursor, TICKS_PER_SECOND};
pub use gaps::{Gaps, OPEN_MAX};
pub use handling::{Handling, Order, Retry};
pub use keep::Keep;
pub use keys::{ApplicationKey, KEY_ID_CHARS, KeyId, KeyIdError, Scope};
pub use names::{
    PARTITIONS_MAX, PartitionName, PartitionNameError, QUEUE_NAME_CHARS_MAX, QueueName, QueueNameError,
};
pub use schedule::{Body, Schedule, schedule, schedule_election, schedules};

const WORKERS: ZnodeSpec = folder("/workers", "000: `/workers`");
const WORKER: ZnodeSpec = ZnodeSpec {
    pattern: "/workers/<worker>",
    kind: Kind::Ephemeral,
    payload: "JSON: the partitions that it handles (`queues`), the queues that it serves, whether it is paused",
    check: check::<Worker>,
    written_by: "the worker, whenever a partition comes or goes, and again in every new session",
    guarded_by: "its owner: the session of one worker",
    deleted_by: "the worker when it leaves, or the end of its session",
    seed: "000: `/workers/<fqdn>-<pid>`",
};

const QUEUES: ZnodeSpec = folder("/queues", "000: `/queues`");
const CURSOR: ZnodeSpec = ZnodeSpec {
    pattern: "/queues/<queue>-<partition>",
    kind: Kind::Persistent,
    payload: "how far the partition was processed: decimal seconds with exactly seven digits",
    check: check::<Cursor>,
    written_by: "`queue create`; then the worker that holds the partition's lock",
    guarded_by: "the lock's contender, checked in the same transaction, and its own version",
    deleted_by: "`queue delete`",
    seed: "000: `/queues/<queue>-<partition>`",
};

const GAPS_DIR: ZnodeSpec = folder("/queue-gaps", "none: qdo handled a queue in order");
const GAPS: ZnodeSpec = ZnodeSpec {
    pattern: "/queue-gaps/<queue>-<partition>",
    kind: Kind::Persistent,
    payload: "JSON: the last message that is done, and the distances between the unfinished ones before it; void once the cursor has passed it",
    check: check::<Gaps>,
    written_by: "the worker that holds the partition's lock, in the transaction that records what is done; only where messages may pass others: with another order than by partition, or with retry later",
    guarded_by: "the lock's contender, checked in the same transaction",
    deleted_by: "`queue delete`",
    seed: "none: qdo handled a queue in order",
};

const LOCKS: ZnodeSpec = folder("/queue-locks", "000: `/queue-locks`");
const LOCK: ZnodeSpec = ZnodeSpec {
    pattern: "/queue-locks/<queue>-<partition>",
    kind: Kind::Persistent,
    payload: "nothing: its children contend as kazoo's lock does, each with its worker's name",
    check: check::<()>,
    written_by: "the first worker that wants the partition",
    guarded_by: "being a lock",
    deleted_by: "`queue delete`; a worker that finds nothing to handle behind it",
    seed: "000: `/queue-locks/<queue>-<partition>`, a lock of zktools",
};

const SETTINGS_DIR: ZnodeSpec = folder("/queue-settings", "none: they were in Queuey's store");
const SETTINGS: ZnodeSpec = ZnodeSpec {
    pattern: "/queue-settings/<queue>",
    kind: Kind::Persistent,
    payload: "JSON: number of partitions, journal and its folder, how long handled messages stay, how they are handled, type, principles, when it was created",
    check: check::<Settings>,
    written_by: "`queue create`, `queue alter`, the HTTP API",
    guarded_by: "its version",
    deleted_by: "`queue delete`, last of all that belongs to the queue",
    seed: "none: they were in Queuey's store",
};

const ELECTION: ZnodeSpec = ZnodeSpec {
    pattern: "/queue-election",
    kind: Kind::Persistent,
    payload: "nothing: its children contend as kazoo's election does, each with its worker's name",
    check: check::<()>,
    written_by: "the first worker",
    guarded_by: "being an election",
    deleted_by: "nobody",
    seed: "000: `rebalance needs a lock`",
};

const ASSIGNMENT: ZnodeSpec = ZnodeSpec {
    pattern: "/queue-assignment",
    kind: Kind::Persistent,
    payload: "JSON: the epoch, and which worker is to handle which partitions",
    check: check::<Assignment>,
    written_by: "the elected worker",
    guarded_by: "the election's contender, checked in the same transaction, and its own version",
    deleted_by: "nobody",
    seed: "000: `Worker queue assignment`, which every worker computed for itself",
};

const PAUSES: ZnodeSpec = folder("/pause", "001: `pause mode? without triggering rebalance`");
const PAUSE: ZnodeSpec = ZnodeSpec {
    pattern: "/pause/<scope>",
    kind: Kind::Persistent,
    payload: "JSON: by whom, why",
    check: check::<Pause>,
    written_by: "`queue pause`",
    guarded_by: "nothing: it only exists",
    deleted_by: "`queue resume`",
    seed: "001: `pause mode? without triggering rebalance`",
};

const KEYS: ZnodeSpec = folder("/application-keys", "none: they were in Queuey's configuration");
const KEY: ZnodeSpec = ZnodeSpec {
    pattern: "/application-keys/<key>",
    kind: Kind::Persistent,
    payload: "JSON: the application, the key's SHA-256 (never the key itself), what it is good for, when it was added",
    check: check::<ApplicationKey>,
    written_by: "`queue key add`",
    guarded_by: "its name, which is the beginning of the hash: no two keys share one",
    deleted_by: "`queue key revoke`",
    seed: "none: they were in Queuey's configuration",
};

const fn folder(pattern: &'static str, seed: &'static str) -> ZnodeSpec {
    ZnodeSpec {
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

/// The specs of all znodes of queues.
pub const SPECS: &[ZnodeSpec] = &[
    WORKERS,
    WORKER,
    QUEUES,
    CURSOR,
    GAPS_DIR,
    GAPS,
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
    schedule::SCHEDULES,
    schedule::SCHEDULE,
    schedule::SCHEDULE_ELECTION,
];

/// What a worker publishes about itself.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Worker {
    /// The partitions that it handles now.
    pub queues: Vec<PartitionName>,
    /// The queues whose partitions it can handle. A worker that does not say is not ours, and gets no partitions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serves: Option<Vec<QueueName>>,
    /// It takes no messages while it is paused.
    #[serde(default)]
    pub paused: bool,
}

impl Json for Worker {
    const WHAT: &'static str = "a worker";
}

/// The settings of a queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// Number of partitions.
    pub partitions: u16,
    /// The name of the journal with its messages.
    pub journal: String,
    /// The id of that journal's data folder: a journal of the same name with another folder is a different one. `None`
    /// for queues of old versions, which accept any folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    /// Who may read it.
    #[serde(default)]
    pub visibility: Visibility,
    /// The consistency that its creator asked for. Only reported: a journal is always durable and ordered.
    #[serde(default)]
    pub consistency: Consistency,
    /// Users that may read and delete messages, if not its application.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub principles: Vec<String>,
    /// How long handled messages are kept.
    #[serde(default, rename = "keep_ms")]
    pub keep: Keep,
    /// In which order its messages are handled, and what happens after a failure.
    #[serde(default)]
    pub handling: Handling,
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

/// Queuey's consistency levels for a cluster of stores.
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

/// The assignment of partitions to workers. It is not sufficient: a worker that handles a partition must hold its lock.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Assignment {
    /// Rises with every assignment.
    pub epoch: u64,
    /// Every worker at that time, also idle ones.
    pub workers: BTreeMap<Name, Vec<PartitionName>>,
}

impl Json for Assignment {
    const WHAT: &'static str = "an assignment of partitions";
}

impl Assignment {
    /// The assigned worker of each partition.
    pub fn owners(&self) -> BTreeMap<&PartitionName, &Name> {
        let owned = |(worker, partitions)| -> _ {
            let partitions: &Vec<PartitionName> = partitions;
            partitions.iter().map(move |partition| (partition, worker))
        };
        self.workers.iter().flat_map(owned).collect()
    }
}

/// A pause of a queue or a worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Pause {
    /// Who paused it.
    pub by: String,
    /// The reason, for people.
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

/// The cursors of all partitions.
pub fn cursors() -> Znode<()> {
    QUEUES.at(&[])
}

/// The cursor of a partition.
pub fn cursor(partition: &PartitionName) -> Znode<Cursor> {
    CURSOR.at(&[partition.queue(), &partition.number()])
}

/// What is done beyond the cursors.
pub fn all_gaps() -> Znode<()> {
    GAPS_DIR.at(&[])
}

/// What is done beyond the cursor of a partition.
pub fn gaps(partition: &PartitionName) -> Znode<Gaps> {
    GAPS.at(&[partition.queue(), &partition.number()])
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

/// The settings of a queue.
pub fn settings(queue: &QueueName) -> Znode<Settings> {
    SETTINGS.at(&[queue])
}

/// The election of the worker that assigns.
pub fn election() -> Znode<Dir> {
    ELECTION.at(&[])
}

/// The assignment of partitions.
pub fn assignment() -> Znode<Assignment> {
    ASSIGNMENT.at(&[])
}

/// All pauses.
pub fn pauses() -> Znode<()> {
    PAUSES.at(&[])
}

/// The pause of a queue: nobody takes its messages.
pub fn pause_of_queue(queue: &QueueName) -> Znode<Pause> {
    PAUSE.at(&[&crate::quote::Quoted(&format!("queue:{queue}"))])
}

/// The pause of a worker: it takes no messages.
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
