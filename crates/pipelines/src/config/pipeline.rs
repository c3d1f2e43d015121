//! A pipeline: what starts it, how its items are tested, and what is reported.

use std::collections::BTreeMap;

use menagerie_znodes::pipelines::Vote;
use serde::Serialize;

use super::requirement::Requirement;
use super::trigger::{Event, Trigger};

/// How items of a pipeline relate to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Manager {
    /// Every item is tested alone, with the changes it depends on.
    Independent,
    /// Items are tested on top of those ahead of them, and merged in that order.
    Dependent,
}

impl Manager {
    /// As it is written in configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Independent => "independent",
            Self::Dependent => "dependent",
        }
    }
}

/// Whose jobs are started first when executors are short. The order of the variants is the order of start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Precedence {
    /// Before all others.
    High,
    /// The default.
    Normal,
    /// After all others.
    Low,
}

impl Precedence {
    /// As it is stored: lower comes first.
    pub fn as_number(self) -> u32 {
        match self {
            Self::High => 100,
            Self::Normal => 200,
            Self::Low => 300,
        }
    }
}

/// How the window changes after a success or a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// Add or subtract this many items.
    Linear(u32),
    /// Multiply or divide by this factor.
    Exponential(u32),
}

/// How many items at the head of a queue are tested at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Window {
    /// The window of a new queue; 0 is no limit.
    pub start: u32,
    /// The window never shrinks below this.
    pub floor: u32,
    /// The window never grows beyond this.
    pub ceiling: Option<u32>,
    /// Growth after an item that merged.
    pub increase: Step,
    /// Shrinkage after an item that failed.
    pub decrease: Step,
}

impl Window {
    /// Tests everything at once.
    pub const UNLIMITED: Self = Self { start: 0, floor: 0, ..Self::DEFAULT };
    /// What a dependent pipeline has if its definition says nothing.
    pub const DEFAULT: Self = Self {
        start: 20,
        floor: 3,
        ceiling: None,
        increase: Step::Linear(1),
        decrease: Step::Exponential(2),
    };
}

/// What is told to a connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Reporter {
    /// The votes to cast, by label as it was written.
    pub votes: BTreeMap<String, i64>,
    /// Whether to leave a comment.
    pub comment: bool,
    /// Whether to merge the change.
    pub submit: bool,
}

/// Reporters by connection.
pub type Reporters = BTreeMap<String, Reporter>;

/// A pipeline.
#[derive(Debug, Clone)]
pub struct Pipeline {
    /// Unique in its layout.
    pub name: String,
    /// For people.
    pub description: Option<String>,
    /// How items relate to each other.
    pub manager: Manager,
    /// Whose jobs are started first.
    pub precedence: Precedence,
    /// How many items of a queue are tested at the same time.
    pub window: Window,
    /// Whether it only runs on code that was reviewed.
    pub is_post_review: bool,
    /// Reported when all voting jobs succeeded.
    pub success: Reporters,
    /// Reported when a voting job failed.
    pub failure: Reporters,
    /// Reported when the first job starts.
    pub start: Reporters,
    /// Reported when a change cannot be merged; as `failure` if not configured.
    pub merge_conflict: Reporters,
    /// Reported when the configuration of a change is broken; as `failure` if not configured.
    pub config_error: Reporters,
    /// Reported when an item has no jobs.
    pub no_jobs: Reporters,
    /// Reported when an item leaves the pipeline without a result.
    pub dequeue: Reporters,
    /// Reported when an item enters the pipeline.
    pub enqueue: Reporters,
    /// The first line of a report of success.
    pub success_message: Option<String>,
    /// The first line of a report of failure.
    pub failure_message: Option<String>,
    /// What is said when jobs start.
    pub start_message: Option<String>,
    /// What is said of a merge conflict.
    pub merge_conflict_message: Option<String>,
    /// What is said when there are no jobs.
    pub no_jobs_message: Option<String>,
    /// What is said when an item is removed.
    pub dequeue_message: Option<String>,
    /// What is said when an item is added.
    pub enqueue_message: Option<String>,
    /// The last line of every report.
    pub footer_message: Option<String>,
    /// By connection.
    pub(super) triggers: BTreeMap<String, Vec<Trigger>>,
    /// By connection.
    pub(super) requirements: BTreeMap<String, Requirement>,
}

impl Pipeline {
    /// Whether an event of a connection starts this pipeline. The pipeline's own requirements are not asked.
    pub fn is_triggered_by(&self, connection: &str, event: &Event<'_>) -> bool {
        self.triggers.get(connection).is_some_and(|triggers| triggers.iter().any(|one| one.matches(event)))
    }

    /// Whether the votes on a change of this connection let it in. The error names the vote that is missing, or the
    /// one that is in the way.
    pub fn meets_requirements(&self, connection: &str, votes: &[Vote]) -> Result<(), String> {
        self.requirements.get(connection).map_or(Ok(()), |requirement| requirement.check(votes))
    }
}
