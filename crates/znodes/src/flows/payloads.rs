//! What the znodes of flows hold.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Name;
use crate::payload::Json;

macro_rules! json {
    ($($type:ty: $what:literal),* $(,)?) => {$(
        impl Json for $type {
            const WHAT: &'static str = $what;
        }
    )*};
}

json!(
    PeerRecord: "a registered peer",
    PeerStateRecord: "the state of a peer",
    Payload: "the offer to a peer",
    Status: "the status of a peer",
    Ack: "the acknowledgement of an offer",
    Seal: "the request to seal",
    Exhaust: "the answer to a request to seal",
    Completion: "the end of an offer",
    Cooldown: "the answer to a completion",
    Plan: "a submitted job",
    Document: "a part of a job",
    JobRecord: "a job",
    TaskRecord: "a task",
    Sealed: "the ends of links",
    Offered: "an entry of the job log",
);

/// A registered peer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerRecord {
    /// The machine that it runs on.
    pub host: String,
    /// Its process.
    pub pid: u32,
}

/// The states of a peer, as the coordinator tracks them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PeerState {
    /// It has no task.
    Idle,
    /// It was offered a task.
    Acking,
    /// It works.
    Active,
    /// Its share is drained, and others still work on the task.
    Waiting,
    /// It finishes the task for all.
    Sealing,
}

impl PeerState {
    /// As tables and JSON spell it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Acking => "acking",
            Self::Active => "active",
            Self::Waiting => "waiting",
            Self::Sealing => "sealing",
        }
    }
}

/// The state of a peer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerStateRecord {
    /// Its state.
    pub state: PeerState,
    /// The offer that it is about; 0 if it is idle.
    pub offer: u64,
}

/// What a peer is offered. Offer 0 is none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Payload {
    /// Its number, which is never used again.
    pub offer: u64,
    /// Job and task; `None` if there is no offer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<Name>,
    /// The task's number; 0 if there is no offer.
    #[serde(default)]
    pub task: u32,
    /// Counts how often the peer's share of the task was dealt anew.
    #[serde(default)]
    pub share: u64,
    /// The partitions that it may work on.
    #[serde(default)]
    pub partitions: Vec<u32>,
}

/// The offer that a peer may work on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// The offer's number.
    pub offer: u64,
}

/// The offer that a peer accepts; 0 before the first.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Ack {
    /// The offer's number.
    pub offer: u64,
}

/// What a peer has drained.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Seal {
    /// The offer's number; 0 before the first.
    pub offer: u64,
    /// The share's number: a share that was dealt anew is not drained yet.
    pub share: u64,
}

/// Whether a peer is to seal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exhaust {
    /// The offer's number.
    pub offer: u64,
    /// Whether to seal: its payload then has all partitions of the task. Otherwise it waits.
    pub seal: bool,
}

/// How an offer ended.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Completion {
    /// The offer's number; 0 before the first.
    pub offer: u64,
    /// How it ended.
    #[serde(default)]
    pub outcome: Outcome,
}

/// How a peer ended its task.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// Not yet.
    #[default]
    None,
    /// All of it is done; the links out of it end here.
    Sealed(Ends),
    /// It cannot be done.
    Failed(String),
}

/// The last id of each partition of each link out of a task, by the number of the task that reads the link. Ids are in
/// ticks of 100 ns.
pub type Ends = BTreeMap<u32, Vec<u64>>;

/// The completion that the coordinator has taken note of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cooldown {
    /// The offer's number.
    pub offer: u64,
}

/// A submitted job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Name, workflow and catalogue.
    pub job: Value,
    /// When it was submitted, in milliseconds since 1970.
    pub submitted_ms: u64,
    /// Whether it is to be killed.
    #[serde(default)]
    pub kill: bool,
    /// What became of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Answer>,
}

/// The coordinator's answer to a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Answer {
    /// The job of that id exists.
    Accepted,
    /// It does not, for this reason.
    Refused(String),
}

/// A part of a job: data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Document(pub Value);

/// A job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobRecord {
    /// What people call it.
    pub name: Name,
    /// How it stands.
    pub state: JobState,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Name of the journal that has its links.
    pub journal: String,
    /// Data folder of that journal.
    pub folder: String,
    /// When it was submitted, in milliseconds since 1970.
    pub submitted_ms: u64,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_ms: Option<u64>,
    /// Number of its tasks.
    pub tasks: u32,
    /// Whether its links are deleted: they are when it has ended.
    #[serde(default)]
    pub is_cleared: bool,
}

/// How a job stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JobState {
    /// Peers work on it, or will.
    Running,
    /// All its tasks are complete.
    Complete,
    /// A task cannot be done.
    Failed,
    /// Somebody ended it.
    Killed,
}

/// A task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskRecord {
    /// Its name in the catalogue.
    pub name: Name,
    /// Its type in the catalogue.
    #[serde(rename = "type")]
    pub task_type: String,
    /// From 1: tasks of a phase read from those of earlier ones.
    pub phase: u32,
    /// Whether at most one peer may work on it.
    pub is_sequential: bool,
    /// Its partitions: those of each link into it, or of its control topic.
    pub partitions: u32,
    /// The tasks that it reads from, by number.
    pub before: Vec<u32>,
    /// The tasks that it writes to, by number.
    pub after: Vec<u32>,
}

/// The ends of the links out of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sealed {
    /// By the number of the task that reads the link.
    pub ends: Ends,
}

/// An entry of the job log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offered {
    /// The job.
    pub job: Name,
    /// Number of its task.
    pub task: u32,
    /// The peer it was made to.
    pub peer: Name,
}
