//! Reports: notes on patchsets, and the history.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Source;
use crate::Name;
use crate::pipelines::{Id, Sha};

/// What is to be told outside of ZooKeeper.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportRecord {
    /// The entry of the history.
    #[serde(default)]
    pub history: Option<HistoryRecord>,
    /// Notes on patchsets.
    #[serde(default)]
    pub notes: Vec<Note>,
}

/// A note to be written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// The repository.
    pub source: Source,
    /// The commit that it is about.
    pub patchset: Sha,
    /// What it says. `id` tells whether it stands there already.
    pub line: NoteLine,
}

/// A line of a note: a vote, a comment or a report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NoteLine {
    /// Tells it from all others.
    pub id: String,
    /// The change; the same commit may be proposed twice.
    pub change: String,
    /// Who says it.
    pub by: String,
    /// When.
    pub at_ms: i64,
    /// Votes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub votes: BTreeMap<String, i64>,
    /// Text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// The tenant and pipeline whose report it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pipeline: Option<String>,
    /// The result that it reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
}

/// A buildset that has ended, in the history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HistoryRecord {
    /// The buildset.
    pub uuid: Id,
    /// The tenant.
    pub tenant: Name,
    /// The pipeline.
    pub pipeline: Name,
    /// The queue.
    pub queue: String,
    /// `SUCCESS`, `FAILURE`, `MERGE_CONFLICT`, `CONFIG_ERROR`, `NO_JOBS`, `DEQUEUED`, `CANCELED`.
    pub result: String,
    /// Why, in words.
    #[serde(default)]
    pub message: Option<String>,
    /// Rises in the order of the ends.
    pub ltime: i64,
    /// When it ended.
    pub end_ms: i64,
    /// What was tested.
    pub refs: Vec<HistoryRef>,
    /// The commit of each branch that jobs could see, by project.
    pub state: BTreeMap<String, BTreeMap<String, Sha>>,
    /// All builds.
    pub builds: Vec<HistoryBuild>,
}

/// What was tested.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HistoryRef {
    /// The project.
    pub project: String,
    /// The target branch.
    pub branch: Option<String>,
    /// `propose/TARGET/TOPIC`.
    pub change: Option<String>,
    /// The patchset.
    pub patchset: Option<Sha>,
    /// The full name of the ref.
    #[serde(rename = "ref")]
    pub reference: String,
    /// What it was before.
    pub oldrev: Option<Sha>,
    /// What it is now.
    pub newrev: Option<Sha>,
    /// What the change was merged into.
    pub parent: Option<Sha>,
    /// The commit that was tested.
    pub commit: Option<Sha>,
    /// Whether that was pushed.
    pub merged: bool,
}

/// A build, in the history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HistoryBuild {
    /// Its id.
    pub uuid: Id,
    /// The job.
    pub job_name: String,
    /// How it ended; `None` if the job never ran.
    pub result: Option<String>,
    /// Whether its failure fails the item.
    pub voting: bool,
    /// Whether it decided.
    #[serde(rename = "final")]
    pub is_final: bool,
    /// From 1.
    pub attempt: u32,
    /// When it began: milliseconds since 1970.
    pub start_time: Option<i64>,
    /// When it ended.
    pub end_time: Option<i64>,
    /// Which executor ran it.
    pub executor: Option<String>,
}
