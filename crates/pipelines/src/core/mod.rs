//! What a pipeline decides, pure: [`step`] takes its state and what has happened, and returns the next state and what is to
//! be done.
//!
//! - this file: the state and the facts. `enqueue.rs`: changes come in, with their dependencies. `outcome.rs`: results of
//!   mergers, executors and pushes. `process.rs`: goes through the queues until nothing changes. `prepare.rs`: merge, jobs
//!   and builds of one item. `report.rs`: what is told when an item ends. `refs.rs`: which events a change of refs means.
//!   `knowledge.rs`: what is known about changes and configuration. `abolish.rs`: the end of a pipeline. `invariants.rs`: what
//!   must hold after each step.

mod abolish;
mod enqueue;
pub mod invariants;
pub mod knowledge;
mod outcome;
mod prepare;
mod process;
pub mod refs;
mod report;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use menagerie_znodes::pipelines::{
    BuildRecord, BuildsetRecord, Id, ItemRecord, JobQueue, JobRecord, JobsStep, Management, MergeStep,
    Outcome, Params, PipelineRecord, PipelineRef, QueueRecord, RepoState, ReportRecord, Trigger,
};

pub use knowledge::{Refs, TenantConfig};

use crate::config::Pipeline;

/// The state of a pipeline, as the tree of znodes has it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct State {
    /// The pipeline itself.
    pub record: PipelineRecord,
    /// Its queues.
    pub queues: BTreeMap<Id, QueueRecord>,
    /// All items of all queues.
    pub items: BTreeMap<Id, Item>,
    /// What is still to be told outside of ZooKeeper.
    pub reports: BTreeMap<Id, ReportRecord>,
}

/// An item with its buildset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// The item itself.
    pub record: ItemRecord,
    /// The buildset that its record names.
    pub buildset: Buildset,
}

/// A buildset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Buildset {
    /// The buildset itself.
    pub record: BuildsetRecord,
    /// The repositories that it sees; known once it is merged.
    pub state: Option<RepoState>,
    /// Its jobs, in order.
    pub jobs: Vec<Job>,
}

/// A job of a buildset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// The job itself.
    pub record: JobRecord,
    /// Its builds, the newest last.
    pub builds: Vec<Build>,
}

/// A build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Build {
    /// Its id, and that of its request.
    pub id: Id,
    /// The build itself.
    pub record: BuildRecord,
}

impl Buildset {
    fn new() -> Self {
        let record = BuildsetRecord { merge: MergeStep::New, jobs: JobsStep::New, config: None };
        Self { record, state: None, jobs: Vec::new() }
    }

    /// Whether every job has ended.
    pub fn is_complete(&self) -> bool {
        matches!(self.record.jobs, JobsStep::Ready { .. })
            && self.jobs.iter().all(|job| job.result().is_some())
    }

    /// Gives up all builds that run; whether there were any.
    fn cancel_builds(&mut self, now_ms: i64) -> bool {
        let mut has_changed = false;
        for job in &mut self.jobs {
            if let Some(build) = job.builds.last_mut().filter(|build| build.record.result.is_none()) {
                build.record.result = Some("CANCELED".to_owned());
                build.record.is_final = true;
                build.record.end_ms = Some(now_ms);
                has_changed = true;
            }
        }
        has_changed
    }
}

impl Job {
    /// How it ended; `None` while it may still run.
    pub fn result(&self) -> Option<&str> {
        if self.record.is_skipped {
            return Some("SKIPPED");
        }
        let last = self.builds.last().filter(|build| build.record.is_final)?;
        last.record.result.as_deref()
    }

    /// The build that runs or waits for an executor.
    pub fn in_flight(&self) -> Option<&Build> {
        self.builds.last().filter(|build| build.record.result.is_none())
    }

    fn has_failed(&self) -> bool {
        self.result().is_some_and(|result| !matches!(result, "SUCCESS" | "SKIPPED"))
    }
}

/// What is known at the time of a step.
pub struct Facts<'a> {
    /// The wall clock.
    pub now_ms: i64,
    /// Logical time: what ends in this step is after all that ended before it, everywhere.
    pub ltime: i64,
    /// Whose step it is.
    pub pipeline: &'a PipelineRef,
    /// The configuration.
    pub config: &'a TenantConfig,
    /// Refs and changes of all connections.
    pub refs: &'a Refs,
    /// The votes that a merge takes, by connection.
    pub submit: &'a BTreeMap<String, BTreeMap<String, i64>>,
}

/// What has happened since the last step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// An event of a connection.
    Trigger(Trigger),
    /// An operator asks for something.
    Management(Management),
    /// A merger or an executor has a result.
    Outcome(Outcome),
    /// A push has ended.
    Pushed {
        /// The buildset whose commit it was.
        buildset: Id,
        /// How it ended.
        result: PushResult,
    },
    /// A report was made.
    Reported(Id),
}

/// How a push ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PushResult {
    /// The commit that was tested is on its branch.
    Merged,
    /// Somebody else has moved the branch: test anew on its tip.
    TargetMoved,
    /// It cannot be merged.
    Refused(String),
}

/// What is to be done besides writing the state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Create a request, together with the state.
    Submit {
        /// The queue.
        queue: JobQueue,
        /// Its id.
        id: Id,
        /// Lower comes first.
        precedence: u32,
        /// Its parameters.
        params: Params,
    },
    /// Answer an operator, once the state is written.
    Answer {
        /// Where.
        id: Id,
        /// Why it was refused.
        error: Option<String>,
    },
}

/// Draws ids. The core draws no random numbers itself, so whoever calls it gives them.
pub type DrawId<'a> = &'a mut dyn FnMut() -> Id;

/// One step: takes in what has happened, and goes through the queues until nothing changes.
pub fn step(state: State, inputs: Vec<Input>, facts: &Facts<'_>, draw: DrawId<'_>) -> (State, Vec<Effect>) {
    let name = facts.pipeline.pipeline.as_str();
    let Some(pipeline) = facts.config.layout().pipeline(name) else {
        return abolish::abolish(state, inputs, facts, draw);
    };
    let mut pass = Pass { state, facts, pipeline, effects: Vec::new(), draw, ended: 0 };
    pass.state.record.layout = facts.config.id().to_owned();
    pass.state.record.manager = pipeline.manager.as_str().to_owned();
    for input in inputs {
        pass.take(input);
    }
    pass.process();
    debug_assert!(invariants::all(&pass.state).is_ok(), "{:?}", invariants::all(&pass.state));
    (pass.state, pass.effects)
}

/// A step under way.
struct Pass<'a, 'd> {
    state: State,
    facts: &'a Facts<'a>,
    pipeline: &'a Pipeline,
    effects: Vec<Effect>,
    draw: DrawId<'d>,
    /// Buildsets that ended in this step.
    ended: i64,
}

impl Pass<'_, '_> {
    fn take(&mut self, input: Input) {
        match input {
            Input::Trigger(trigger) => self.on_trigger(&trigger),
            Input::Management(request) => self.on_management(request),
            Input::Outcome(outcome) => self.on_outcome(outcome),
            Input::Pushed { buildset, result } => self.on_pushed(&buildset, result),
            Input::Reported(report) => drop(self.state.reports.remove(&report)),
        }
    }

    fn item(&self, id: &Id) -> &Item {
        &self.state.items[id]
    }

    fn item_mut(&mut self, id: &Id) -> &mut Item {
        self.state.items.get_mut(id).expect("items are named by their queue only while they exist")
    }

    /// The queue that an item is in.
    fn queue_of(&self, item: &Id) -> Option<&Id> {
        self.state.queues.iter().find(|(_, queue)| queue.items.contains(item)).map(|(id, _)| id)
    }
}
