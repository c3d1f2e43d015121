//! Events: what happened in repositories, and what operators ask for.

use serde::{Deserialize, Serialize};

use super::Vote;
use crate::pipelines::{Change, Id, Sha};

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
