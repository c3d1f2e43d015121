//! Pipelines as users see them, in the shape of Zuul's status.
//!
//! - this file: the shape. `build.rs`: from the state of a pipeline to the shape, pure. `read.rs`: from the tree of znodes to
//!   the state, for readers: what is missing or damaged is left out. `waits.rs`: why something does not go on, from the state
//!   and the `fleet.rs`, the registered processes. `builds.rs`: one build. `estimates.rs`: how long jobs usually take.

mod build;
mod builds;
mod estimates;
mod fleet;
mod read;
#[cfg(test)]
mod tests;
mod waits;

use std::collections::BTreeMap;

use menagerie_znodes::pipelines::{Id, RequestState, Sha};
use schemars::JsonSchema;
use serde::Serialize;

pub use build::pipeline_view;
pub use builds::{BuildState, BuildView, ended_build, queued_build};
pub use estimates::Estimates;
pub use fleet::{Crew, Fleet};
pub use read::{backlog, connections, pipelines, projects, read_state, refs, status, tenants, unread};

/// A tenant: its pipelines, and what is wrong.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct StatusView {
    /// The tenant.
    pub tenant: String,
    /// Its pipelines, by name.
    pub pipelines: Vec<PipelineView>,
    /// Events that no pipeline has received yet.
    pub trigger_event_queue: EventQueueView,
    /// Events of each connection that no tenant has received yet.
    pub connection_event_queues: BTreeMap<String, EventQueueView>,
    /// What was left out of the configuration, and why.
    pub config_errors: Vec<String>,
    /// Repositories that cannot be read, and why.
    pub connection_errors: Vec<ConnectionErrorView>,
}

/// An event queue.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct EventQueueView {
    /// Number of events.
    pub length: usize,
}

/// A repository that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ConnectionErrorView {
    /// The connection.
    pub connection: String,
    /// The project.
    pub project: String,
    /// Why.
    pub error: String,
}

/// A pipeline.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PipelineView {
    /// Its name.
    pub name: String,
    /// `independent` or `dependent`.
    pub manager: String,
    /// Its queues, in order.
    pub change_queues: Vec<ChangeQueueView>,
    /// Trigger events that it has not handled yet.
    pub trigger_events: usize,
    /// Result events that it has not handled yet.
    pub result_events: usize,
    /// Management events that it has not handled yet.
    pub management_events: usize,
    /// Reports that are still to be made.
    pub reports: usize,
}

/// A queue of a pipeline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ChangeQueueView {
    /// Its name.
    pub name: String,
    /// The branch, if each has a queue of its own.
    pub branch: Option<String>,
    /// How many of its items are active at most; 0: all.
    pub window: u32,
    /// Its items: each list begins with one that has no item ahead.
    pub heads: Vec<Vec<ItemView>>,
}

/// An item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ItemView {
    /// The change `PROJECT:propose/TARGET/TOPIC`, or `PROJECT:REF`.
    pub id: String,
    /// Tells this item from every other that is about the same change.
    pub uuid: Id,
    /// The buildset.
    pub buildset: Id,
    /// Whether it runs jobs and is reported; otherwise it is only a dependency.
    pub live: bool,
    /// Whether it is within the window.
    pub active: bool,
    /// What it is about.
    pub refs: Vec<RefView>,
    /// The item that it is tested on top of.
    pub item_ahead: Option<String>,
    /// The items that are tested on top of it.
    pub items_behind: Vec<String>,
    /// Why it will not succeed.
    pub failing_reasons: Vec<String>,
    /// When it was enqueued: milliseconds since 1970.
    pub enqueue_time: i64,
    /// What it waits for, as a whole.
    pub waiting_status: Option<String>,
    /// Why it does not go on, in a sentence.
    pub why: Option<String>,
    /// Its jobs, in order; none before they are known.
    pub jobs: Vec<JobView>,
}

/// What an item is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RefView {
    /// The project.
    pub project: String,
    /// The full name of the ref.
    #[serde(rename = "ref")]
    pub reference: String,
    /// The patchset, or the commit that the ref has now.
    pub id: Sha,
}

/// A job of an item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "PipelineJobView")]
pub struct JobView {
    /// Its name.
    pub name: String,
    /// Its newest build, if it was started.
    pub uuid: Option<Id>,
    /// How it ended.
    pub result: Option<String>,
    /// Whether its failure fails the item.
    pub voting: bool,
    /// Builds so far.
    pub tries: usize,
    /// What it waits for, or `running`.
    pub waiting_status: Option<String>,
    /// Why it does not run, in a sentence.
    pub why: Option<String>,
    /// Which executor runs or has run it.
    pub executor: Option<String>,
    /// When the newest build began: milliseconds since 1970.
    pub start_time: Option<i64>,
    /// When it ended.
    pub end_time: Option<i64>,
    /// How long it usually takes, in milliseconds; `null` if nobody has looked, or it has never succeeded.
    pub estimated_ms: Option<i64>,
    /// What went wrong, in words.
    pub detail: Option<String>,
}

/// Where a build's request is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestView {
    /// How far it is.
    pub state: RequestState,
    /// Who works on it.
    pub worker: Option<String>,
    /// Since when.
    pub since_ms: Option<i64>,
}

/// The requests of builds in flight, by build.
pub type Requests = BTreeMap<Id, RequestView>;
