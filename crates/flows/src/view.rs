//! Jobs as users see them.

use menagerie_znodes::Name;
use menagerie_znodes::flows::{Answer, JobRecord, JobState, PeerState, Plan, TaskRecord};
use serde::Serialize;

/// A job in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct JobRow {
    /// Its id.
    pub id: String,
    /// What people call it.
    pub name: String,
    /// submitted, running, complete, failed, killed, refused; or damaged, if its znodes cannot be read.
    pub state: &'static str,
    /// Why it failed or was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Tasks that are complete.
    pub complete: u32,
    /// All its tasks; 0 before it is planned.
    pub tasks: u32,
    /// When it was submitted, in milliseconds since 1970.
    pub submitted_ms: u64,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_ms: Option<u64>,
}

/// A job with its tasks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct JobView {
    /// The job.
    pub job: JobRow,
    /// Its tasks, by number.
    pub tasks: Vec<TaskRow>,
}

/// A task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TaskRow {
    /// Its number.
    pub number: u32,
    /// Its name in the catalogue.
    pub name: String,
    /// Its type in the catalogue.
    #[serde(rename = "type")]
    pub task_type: String,
    /// Partitions that peers can share.
    pub partitions: u32,
    /// Whether it is complete.
    pub is_complete: bool,
    /// The states of its peers.
    pub peers: Vec<PeerState>,
}

/// The name of a state.
pub fn state_name(state: Option<JobState>) -> &'static str {
    match state {
        None => "submitted",
        Some(JobState::Running) => "running",
        Some(JobState::Complete) => "complete",
        Some(JobState::Failed) => "failed",
        Some(JobState::Killed) => "killed",
    }
}

impl JobRow {
    /// What plan and job say.
    pub fn new(id: &Name, plan: &Plan, job: Option<&JobRecord>, complete: u32) -> Self {
        let (state, refusal) = match (&plan.answer, job) {
            (Some(Answer::Refused(_)), _) if plan.kill => ("killed", None),
            (Some(Answer::Refused(why)), _) => ("refused", Some(why.clone())),
            (_, job) => (state_name(job.map(|job| job.state)), None),
        };
        Self {
            id: id.as_str().to_owned(),
            name: plan.job["name"].as_str().unwrap_or_default().to_owned(),
            state,
            why: refusal.or_else(|| job?.why.clone()),
            complete,
            tasks: job.map_or(0, |job| job.tasks),
            submitted_ms: plan.submitted_ms,
            ended_ms: job.and_then(|job| job.ended_ms),
        }
    }
}

impl JobRow {
    /// A job whose znodes cannot be read.
    pub fn damaged(id: &Name, why: String) -> Self {
        Self {
            id: id.as_str().to_owned(),
            name: String::new(),
            state: "damaged",
            why: Some(why),
            complete: 0,
            tasks: 0,
            submitted_ms: 0,
            ended_ms: None,
        }
    }
}

impl TaskRow {
    /// What its record says, and who works on it.
    pub fn new(number: u32, record: TaskRecord, is_complete: bool, peers: Vec<PeerState>) -> Self {
        Self {
            number,
            name: record.name.as_str().to_owned(),
            task_type: record.task_type,
            partitions: record.partitions,
            is_complete,
            peers,
        }
    }
}
