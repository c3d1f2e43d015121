//! Jobs as users see them.

use menagerie_znodes::Name;
use menagerie_znodes::flows::{Answer, JobRecord, JobState, PeerState, Plan, TaskRecord};
use schemars::JsonSchema;
use serde::Serialize;

use crate::links::FULL_BYTES;

/// A job in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct JobRow {
    /// Its id.
    pub id: String,
    /// What people call it.
    pub name: String,
    /// How it stands.
    pub state: Standing,
    /// Why it failed or was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Tasks that are complete.
    pub complete: u32,
    /// All its tasks; 0 before it is planned.
    pub tasks: u32,
    /// When it was submitted, in milliseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub submitted_ms: Option<u64>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_ms: Option<u64>,
}

/// A job with its tasks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct JobView {
    /// The job.
    pub job: JobRow,
    /// Its tasks, by number.
    pub tasks: Vec<TaskRow>,
    /// The links between them, by the numbers of their tasks.
    pub edges: Vec<EdgeView>,
}

/// A task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
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
    /// The same peers, with their names.
    pub workers: Vec<PeerView>,
}

/// A peer that works on a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PeerView {
    /// Its name.
    pub peer: String,
    /// The machine that it runs on; `null` if that is not known.
    pub host: Option<String>,
    /// Its state.
    pub state: PeerState,
    /// Since when, in milliseconds since 1970.
    pub since_ms: u64,
}

/// A link between two tasks. What the journal knows of it is `null` if the journal does not answer, and when the job has
/// ended: then its links are deleted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct EdgeView {
    /// Number of the task that writes it.
    pub from: u32,
    /// Number of the task that reads it.
    pub to: u32,
    /// Its partitions.
    pub partitions: u32,
    /// Batches of segments that its reader has not consumed yet.
    pub lag: Option<u64>,
    /// About how many bytes they have.
    pub lag_bytes: Option<u64>,
    /// With this many unread bytes the link is full: its writer waits while the reader is at work.
    pub full_bytes: u64,
    /// Whether the link is full, and peers of both tasks are at work: the reader is too slow for the writer.
    pub is_held_back: Option<bool>,
    /// When the newest batch was written, in milliseconds since 1970; `null` before the first, too.
    pub written_ms: Option<u64>,
}

/// How a job stands, as users see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "JobStanding")]
pub enum Standing {
    /// No coordinator has planned it yet.
    Submitted,
    /// Peers work on it, or will.
    Running,
    /// All its tasks are complete.
    Complete,
    /// A task cannot be done.
    Failed,
    /// Somebody ended it.
    Killed,
    /// It cannot be planned.
    Refused,
    /// Its znodes cannot be read.
    Damaged,
}

impl Standing {
    /// What plan and job say.
    pub fn of(plan: &Plan, job: Option<&JobRecord>) -> Self {
        match (job.map(|job| job.state), &plan.answer) {
            (Some(JobState::Running), _) => Self::Running,
            (Some(JobState::Complete), _) => Self::Complete,
            (Some(JobState::Failed), _) => Self::Failed,
            (Some(JobState::Killed), _) => Self::Killed,
            (None, Some(Answer::Refused(_))) if plan.kill => Self::Killed,
            (None, Some(Answer::Refused(_))) => Self::Refused,
            (None, Some(Answer::Accepted) | None) => Self::Submitted,
        }
    }

    /// As tables and JSON spell it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Submitted => "submitted",
            Self::Running => "running",
            Self::Complete => "complete",
            Self::Failed => "failed",
            Self::Killed => "killed",
            Self::Refused => "refused",
            Self::Damaged => "damaged",
        }
    }
}

impl JobRow {
    /// What plan and job say.
    pub fn new(id: &Name, plan: &Plan, job: Option<&JobRecord>, complete: u32) -> Self {
        let state = Standing::of(plan, job);
        let refusal = match &plan.answer {
            Some(Answer::Refused(why)) if state == Standing::Refused => Some(why.clone()),
            Some(Answer::Refused(_) | Answer::Accepted) | None => None,
        };
        Self {
            id: id.as_str().to_owned(),
            name: plan.job["name"].as_str().unwrap_or_default().to_owned(),
            state,
            why: refusal.or_else(|| job?.why.clone()),
            complete,
            tasks: job.map_or(0, |job| job.tasks),
            submitted_ms: Some(plan.submitted_ms),
            ended_ms: job.and_then(|job| job.ended_ms),
        }
    }

    /// A job whose znodes cannot be read.
    pub fn damaged(id: &Name, why: String) -> Self {
        Self {
            id: id.as_str().to_owned(),
            name: String::new(),
            state: Standing::Damaged,
            why: Some(why),
            complete: 0,
            tasks: 0,
            submitted_ms: None,
            ended_ms: None,
        }
    }
}

impl TaskRow {
    /// What its record says, and who works on it.
    pub fn new(number: u32, record: TaskRecord, is_complete: bool, workers: Vec<PeerView>) -> Self {
        Self {
            number,
            name: record.name.as_str().to_owned(),
            task_type: record.task_type,
            partitions: record.partitions,
            is_complete,
            peers: workers.iter().map(|worker| worker.state).collect(),
            workers,
        }
    }
}

impl EdgeView {
    /// A link of which nobody has asked the journal yet.
    pub fn new(from: u32, to: u32, partitions: u32) -> Self {
        Self {
            from,
            to,
            partitions,
            lag: None,
            lag_bytes: None,
            full_bytes: FULL_BYTES,
            is_held_back: None,
            written_ms: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use menagerie_testkit::assert_described;

    use super::*;

    #[test]
    fn views_are_as_their_schemas_say() {
        let id = Name::new("j1").unwrap();
        let damaged = JobRow::damaged(&id, "it is no JSON".to_owned());
        let ended = JobRow { submitted_ms: Some(1), ended_ms: Some(2), ..damaged.clone() };
        let task = TaskRow {
            number: 1,
            name: "read".to_owned(),
            task_type: "input".to_owned(),
            partitions: 2,
            is_complete: false,
            peers: vec![PeerState::Active],
            workers: vec![PeerView {
                peer: "p1".to_owned(),
                host: Some("h1".to_owned()),
                state: PeerState::Active,
                since_ms: 3,
            }],
        };
        let edge = EdgeView::new(1, 2, 16);
        let measured = EdgeView {
            lag: Some(7),
            lag_bytes: Some(8),
            is_held_back: Some(false),
            written_ms: Some(9),
            ..edge.clone()
        };
        assert_described(&JobRow { why: None, ..damaged.clone() });
        for job in [damaged, ended] {
            let edges = vec![edge.clone(), measured.clone()];
            assert_described(&JobView { job, tasks: vec![task.clone()], edges });
        }
    }
}
