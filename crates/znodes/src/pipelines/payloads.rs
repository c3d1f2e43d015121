//! What the znodes of pipelines and the entries of their queues hold.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Change, Id, Sha};
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
    BranchFiles: "the cached configuration of a branch",
    LayoutRecord: "a layout",
    ManagementAnswer: "the answer to a management event",
    SystemConf: "the system configuration",
    PipelineRecord: "a pipeline",
    QueueRecord: "a queue of a pipeline",
    ItemRecord: "an item of a pipeline",
    BuildsetRecord: "a buildset",
    RepoState: "the state of repositories",
    JobRecord: "a frozen job",
    BuildRecord: "a build",
    ReportRecord: "a report",
    Request: "a job request",
    Params: "the parameters of a job request",
    ConnectionRefs: "the refs of a connection",
    Events: "events of a connection",
    Triggers: "trigger events of a pipeline",
    Management: "a management event of a pipeline",
    Outcome: "a result event of a pipeline",
    FilesRead: "the files that a merger has read",
);

/// The tenant file, and what all must agree on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SystemConf {
    /// The text of the tenant file.
    pub tenants: String,
    /// The host name of each connection, as it is in canonical names.
    pub hosts: BTreeMap<String, String>,
    /// The votes that a merge takes, by connection.
    pub submit: BTreeMap<String, BTreeMap<String, i64>>,
}

/// The cached configuration of a branch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BranchFiles {
    /// The commit that the files were read from.
    pub commit: Sha,
    /// Their names.
    pub files: BTreeSet<String>,
    /// Rises whenever their contents change.
    pub edition: u64,
}

/// The current layout of a tenant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayoutRecord {
    /// Changes with the configuration.
    pub uuid: Id,
    /// Who made it.
    pub host: String,
    /// When.
    pub at_ms: i64,
    /// For each project and branch the edition of the cached files that it was made of.
    pub branches: BTreeMap<String, BTreeMap<String, u64>>,
    /// The tenant as the tenant file had it: a change of that is another layout, too.
    pub tenant: Value,
    /// The pipelines that it defines.
    #[serde(default)]
    pub pipelines: Vec<String>,
    /// What was left out, and why.
    #[serde(default)]
    pub problems: Vec<String>,
    /// Which repositories could not be read, and why.
    #[serde(default)]
    pub trouble: Vec<String>,
}

/// All repositories of a connection.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectionRefs {
    /// By the project's name.
    pub projects: BTreeMap<String, ProjectRefs>,
}

/// A repository as it was seen last.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProjectRefs {
    /// All refs that matter.
    pub refs: BTreeMap<String, Sha>,
    /// The open changes, by their branch.
    pub changes: BTreeMap<String, ChangeRecord>,
    /// Why the repository could not be read lately.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

/// An open change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeRecord {
    /// Its name.
    pub change: Change,
    /// The head of its branch.
    pub patchset: Sha,
    /// The first line of its newest commit.
    pub subject: String,
    /// What its footers `Depends-On:` name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<String>,
    /// The votes on this patchset that stand: the newest of each voter and label.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub votes: Vec<Vote>,
}

/// A vote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vote {
    /// What was judged.
    pub label: String,
    /// How.
    pub value: i64,
    /// By whom.
    pub by: String,
}

/// What happened in a repository, in Gerrit's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EventKind {
    /// A proposal was made or moved.
    PatchsetCreated,
    /// A proposal was deleted.
    ChangeAbandoned,
    /// A proposal was merged.
    ChangeMerged,
    /// Somebody voted or commented.
    CommentAdded,
    /// Another branch or a tag was made, moved or deleted.
    RefUpdated,
}

/// An event of a connection, on its way to tenants and pipelines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// What happened.
    pub kind: EventKind,
    /// Where.
    pub connection: String,
    /// In which project.
    pub project: String,
    /// The ref: of the proposal, or the one that moved.
    pub reference: String,
    /// The change, unless it is about another ref.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<Change>,
    /// What the ref was before; zero if it is new.
    pub oldrev: Sha,
    /// What it is now: the patchset; zero if it was deleted.
    pub newrev: Sha,
    /// The votes that were added.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub votes: Vec<Vote>,
    /// The comment that was added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// Who voted or commented.
    #[serde(default)]
    pub by: String,
    /// The tenant and pipeline whose report it is: that pipeline is not triggered by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pipeline: Option<String>,
}

/// Events that were seen together, as one entry of a queue: a push may move thousands of refs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Events(pub Vec<Event>);

/// The same for a pipeline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Triggers(pub Vec<Trigger>);

/// An event in the trigger queue of a pipeline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trigger {
    /// The event.
    pub event: Event,
    /// Whether the pipeline is to enqueue the change; otherwise it only learns of the event.
    pub enqueues: bool,
}

/// An event in the management queue of a pipeline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Management {
    /// Where the answer goes.
    pub answer: Id,
    /// What is to be done.
    pub action: Action,
    /// With which change.
    pub change: Change,
}

/// What an operator asks of a pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// Enqueue a change, whatever the pipeline's requirements.
    Enqueue,
    /// Dequeue it.
    Dequeue,
}

/// The answer to an operator.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManagementAnswer {
    /// Whether it is answered.
    pub is_done: bool,
    /// Why it was refused.
    #[serde(default)]
    pub error: Option<String>,
}

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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
