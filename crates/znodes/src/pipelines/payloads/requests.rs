//! Requests to mergers and executors, and their results.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{BranchState, FrozenJob, RepoState, Subject};
use crate::Name;
use crate::pipelines::{Change, Id, Sha};

/// A job request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// How far it is.
    pub state: RequestState,
    /// Lower comes first.
    pub precedence: u32,
    /// Whom the result is for; `None` if the submitter waits for it itself.
    #[serde(default)]
    pub pipeline: Option<PipelineRef>,
    /// Who works on it.
    #[serde(default)]
    pub worker: Option<Worker>,
}

/// A pipeline of a tenant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PipelineRef {
    /// The tenant.
    pub tenant: Name,
    /// The pipeline.
    pub pipeline: Name,
}

/// How far a job request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RequestState {
    /// Nobody works on it.
    Requested,
    /// Somebody works on it.
    Running,
    /// Its result was put.
    Completed,
}

/// Who works on a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Worker {
    /// Its name under `/components`.
    pub name: String,
    /// Since when.
    pub since_ms: i64,
}

/// The parameters of a job request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Params {
    /// Merge a change.
    Merge(MergeParams),
    /// Look where branches are.
    Tips(TipsParams),
    /// Read the configuration files of a branch.
    Cat(CatParams),
    /// Run a job.
    Build(Box<BuildParams>),
}

/// A repository.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Source {
    /// The connection.
    pub connection: String,
    /// The project.
    pub project: String,
}

/// Merge a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MergeParams {
    /// The buildset that needs it.
    pub buildset: Id,
    /// Where.
    pub source: Source,
    /// What.
    pub change: Change,
    /// Its patchset.
    pub patchset: Sha,
    /// Onto this; `None`: onto the branch as it is.
    pub onto: Option<BranchState>,
}

/// Look where branches are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TipsParams {
    /// The buildset that needs it.
    pub buildset: Id,
    /// Projects and branches.
    pub wanted: Vec<(Source, String)>,
}

/// Read the configuration files of a branch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CatParams {
    /// Where.
    pub source: Source,
    /// The commit.
    pub commit: Sha,
}

/// Files of a commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilesRead {
    /// By path; or why they could not be read.
    pub files: Result<BTreeMap<String, String>, String>,
}

/// Run a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuildParams {
    /// The tenant.
    pub tenant: Name,
    /// The pipeline.
    pub pipeline: Name,
    /// The buildset.
    pub buildset: Id,
    /// The job.
    pub job: FrozenJob,
    /// From 1.
    pub attempt: u32,
    /// What is tested.
    pub subject: Subject,
    /// The commit that is tested.
    pub commit: Sha,
    /// What it was merged into.
    pub parent: Sha,
    /// The repositories to check out.
    pub checkouts: Vec<Checkout>,
    /// The repository that has the program; `None` if the tenant has lost it.
    pub run_from: Option<Checkout>,
    /// Their states.
    pub state: RepoState,
}

/// A repository to check out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkout {
    /// Where it is.
    pub source: Source,
    /// The host in its canonical name.
    pub host: String,
    /// The branch to check out.
    pub branch: String,
}

/// A result event of a pipeline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Of a merge.
    Merge {
        /// The request.
        request: Id,
        /// The buildset.
        buildset: Id,
        /// How it ended.
        result: MergeResult,
    },
    /// Of a look at branches.
    Tips {
        /// The request.
        request: Id,
        /// The buildset.
        buildset: Id,
        /// Where they are; or why that is not known.
        tips: Result<Vec<(String, String, Sha)>, String>,
    },
    /// Of a build.
    Build {
        /// The build.
        build: Id,
        /// The buildset.
        buildset: Id,
        /// `SUCCESS`, `FAILURE`, `TIMED_OUT`, `ERROR`, `CANCELED`, `ABORTED`.
        result: String,
        /// When it began.
        start_ms: i64,
        /// When it ended.
        end_ms: i64,
        /// Which executor ran it.
        executor: String,
        /// What went wrong, in words.
        #[serde(default)]
        detail: Option<String>,
    },
}

/// How a merge ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MergeResult {
    /// It is merged.
    Merged {
        /// The branch with the change.
        state: BranchState,
        /// What it was merged into.
        parent: Sha,
        /// The files that it changes; `None` if they are too many to list.
        files: Option<Vec<String>>,
        /// The configuration files with the change in them, if it touches them.
        config: Option<BTreeMap<String, String>>,
    },
    /// It clashes with what it was to be merged into.
    Conflict {
        /// Where.
        message: String,
    },
    /// It could not be tried: the repository or the patchset is gone, say.
    Failed {
        /// Why.
        message: String,
    },
}
