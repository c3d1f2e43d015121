//! The state of a pipeline: queues, items, buildsets, jobs and builds.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::pipelines::{Change, Id, Sha};

/// A pipeline.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PipelineRecord {
    /// Number of passes: proves whether one was committed.
    pub passes: u64,
    /// The layout of the last pass.
    pub layout: String,
    /// `independent` or `dependent`.
    pub manager: String,
    /// Its queues, in order.
    pub queues: Vec<Id>,
    /// What it has merged lately, the newest last: the refs that are seen may be older.
    #[serde(default)]
    pub merged: Vec<MergedChange>,
}

/// A change that a pipeline has merged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MergedChange {
    /// The change.
    pub change: Change,
    /// Its patchset.
    pub patchset: Sha,
}

/// A queue of a pipeline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueRecord {
    /// The name of the shared queue, or the project.
    pub name: String,
    /// The branch, if each has a queue of its own.
    #[serde(default)]
    pub branch: Option<String>,
    /// Its items, the head first.
    pub items: Vec<Id>,
    /// How many of them are active; 0: all.
    pub window: u32,
}

/// What an item is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Subject {
    /// A patchset of a change.
    Change {
        /// The change.
        change: Change,
        /// The patchset.
        patchset: Sha,
    },
    /// A ref that moved.
    Ref {
        /// The project.
        project: String,
        /// The full name of the ref.
        reference: String,
        /// What it was before.
        oldrev: Sha,
        /// What it is now.
        newrev: Sha,
    },
}

impl Subject {
    /// Its project.
    pub fn project(&self) -> &str {
        match self {
            Self::Change { change, .. } => &change.project,
            Self::Ref { project, .. } => project,
        }
    }

    /// The branch that it is for; `None` for a tag.
    pub fn branch(&self) -> Option<&str> {
        match self {
            Self::Change { change, .. } => Some(&change.target),
            Self::Ref { reference, .. } => reference.strip_prefix("refs/heads/"),
        }
    }

    /// The ref.
    pub fn reference(&self) -> String {
        match self {
            Self::Change { change, .. } => change.proposal_ref(),
            Self::Ref { reference, .. } => reference.clone(),
        }
    }

    /// The change, if it is one.
    pub fn change(&self) -> Option<&Change> {
        match self {
            Self::Change { change, .. } => Some(change),
            Self::Ref { .. } => None,
        }
    }
}

/// An item of a pipeline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ItemRecord {
    /// What it is about.
    pub subject: Subject,
    /// The item that it is tested on top of.
    #[serde(default)]
    pub item_ahead: Option<Id>,
    /// Whether it runs jobs and is reported; otherwise it is only a dependency.
    pub is_live: bool,
    /// Whether it is within the window.
    pub is_active: bool,
    /// When it was enqueued.
    pub enqueued_ms: i64,
    /// Its buildset.
    pub buildset: Id,
    /// Whether its start was reported.
    pub is_start_reported: bool,
    /// Why it will not succeed.
    #[serde(default)]
    pub failing: Vec<String>,
    /// It is being merged: written before the push, so that nobody repeats it blindly.
    #[serde(default)]
    pub is_pushing: bool,
    /// Why the push did not succeed.
    #[serde(default)]
    pub push_failure: Option<String>,
}

/// A buildset: one attempt to test an item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuildsetRecord {
    /// How far its merge is.
    pub merge: MergeStep,
    /// How far its jobs are.
    pub jobs: JobsStep,
    /// The configuration files of the change's branch with the change in them, if the change touches them.
    #[serde(default)]
    pub config: Option<BTreeMap<String, String>>,
}

/// How far the merge of a buildset is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MergeStep {
    /// It has not begun.
    New,
    /// A merger was asked.
    Pending {
        /// The request.
        request: Id,
    },
    /// Done.
    Done {
        /// What is tested, and pushed if it succeeds.
        commit: Sha,
        /// What it was merged into.
        parent: Sha,
        /// The files that differ between the two, unless they are unknown or too many to list.
        files: Option<Vec<String>>,
    },
    /// It could not be merged.
    Failed {
        /// Why.
        message: String,
    },
}

/// How far the jobs of a buildset are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum JobsStep {
    /// They are not known.
    New,
    /// They are known, and a merger was asked for the tips of further projects.
    Tips {
        /// The request.
        request: Id,
        /// Their names, in order.
        names: Vec<String>,
    },
    /// They may run.
    Ready {
        /// Their names, in order.
        names: Vec<String>,
    },
    /// The configuration is wrong.
    Failed {
        /// Why.
        message: String,
    },
}

/// A job of a buildset.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobRecord {
    /// The job.
    pub job: FrozenJob,
    /// A job that it needs was not successful.
    #[serde(default)]
    pub is_skipped: bool,
}

/// A job of one item, with all inheritance and variants resolved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrozenJob {
    /// Its name.
    pub name: String,
    /// The executable to run: a path from the root of `project`.
    pub run: String,
    /// The project whose repository has `run`.
    pub project: String,
    /// The branch of that project on which `run` was set.
    pub branch: String,
    /// Whether that is a config project: then `run` is taken from its branch as it is, without proposed changes.
    pub is_trusted: bool,
    /// Whether its failure fails the item.
    pub is_voting: bool,
    /// Seconds after which it is ended.
    pub timeout_s: u64,
    /// How often it is started at most, if executors are lost.
    pub attempts: u32,
    /// Jobs that must be done before.
    pub dependencies: Vec<JobDependency>,
    /// Further projects whose repositories it needs.
    pub required_projects: Vec<String>,
    /// Its variables.
    pub vars: Map<String, Value>,
}

/// A job that must be done before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobDependency {
    /// Its name.
    pub name: String,
    /// Whether it may be missing.
    pub is_soft: bool,
}

/// A build: one attempt to run a job. Its request has the same id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuildRecord {
    /// From 1.
    pub attempt: u32,
    /// `SUCCESS`, `FAILURE` and the like; `None` while it is not known.
    #[serde(default)]
    pub result: Option<String>,
    /// Whether it decides; a lost one that is tried again does not.
    pub is_final: bool,
    /// When it was requested.
    pub requested_ms: i64,
    /// When it began.
    #[serde(default)]
    pub start_ms: Option<i64>,
    /// When it ended.
    #[serde(default)]
    pub end_ms: Option<i64>,
    /// Which executor ran it.
    #[serde(default)]
    pub executor: Option<String>,
    /// What went wrong, in words.
    #[serde(default)]
    pub detail: Option<String>,
}

/// The repositories that a buildset sees, by project and branch.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RepoState(pub BTreeMap<String, BTreeMap<String, BranchState>>);

/// A branch: a commit of the repository, and changes merged onto it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BranchState {
    /// Where the branch is in the repository.
    pub base: Sha,
    /// What was merged onto it, in order.
    #[serde(default)]
    pub links: Vec<Link>,
}

impl BranchState {
    /// The branch with all its changes.
    pub fn head(&self) -> &Sha {
        self.links.last().map_or(&self.base, |link| &link.commit)
    }
}

/// A change that was merged onto a branch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// The change.
    pub change: Change,
    /// Its patchset.
    pub patchset: Sha,
    /// The merge commit.
    pub commit: Sha,
}

impl RepoState {
    /// A branch of a project.
    pub fn branch(&self, project: &str, branch: &str) -> Option<&BranchState> {
        self.0.get(project)?.get(branch)
    }
}
