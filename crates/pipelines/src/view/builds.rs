//! One build: found among what is queued, in a report that is still to be made, or in the history.

use menagerie_kernel::Session;
use menagerie_znodes::Name;
use menagerie_znodes::pipelines::{HistoryRecord, Id, PipelineZnodes};
use schemars::JsonSchema;
use serde::Serialize;

use super::build::{item_name, job_view};
use super::fleet::Fleet;
use super::waits::{self, JobWait};
use super::{Requests, pipelines, read};
use crate::PipelineError;
use crate::core::{Build, Item, Job, State};

/// A build: one attempt to run a job of an item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct BuildView {
    /// Its id.
    pub uuid: Id,
    /// The tenant.
    pub tenant: Name,
    /// The pipeline.
    pub pipeline: Name,
    /// The item: the change `PROJECT:propose/TARGET/TOPIC`, or `PROJECT:REF`.
    pub item: String,
    /// The buildset.
    pub buildset: Id,
    /// The job.
    pub job: String,
    /// How far it is.
    pub state: BuildState,
    /// How it ended.
    pub result: Option<String>,
    /// From 1.
    pub attempt: u32,
    /// Whether the job's failure fails the item.
    pub voting: bool,
    /// Why it does not run, if it waits.
    pub why: Option<String>,
    /// Which executor runs or has run it.
    pub executor: Option<String>,
    /// When it began: milliseconds since 1970.
    pub start_time: Option<i64>,
    /// When it ended.
    pub end_time: Option<i64>,
    /// How long the job usually takes, in milliseconds; `null` if nobody has looked, or it has never succeeded.
    pub estimated_ms: Option<i64>,
    /// What went wrong, in words.
    pub detail: Option<String>,
}

/// How far a build is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum BuildState {
    /// For an executor.
    Waiting,
    /// An executor runs it.
    Running,
    /// It is over.
    Ended,
}

/// A build that is queued, or whose report is still to be made.
pub async fn queued_build(
    session: &Session,
    tenant: &Name,
    build: &Id,
) -> Result<Option<BuildView>, PipelineError> {
    let term = session.term().patient();
    for pipeline in pipelines(&term, tenant).await? {
        let at = PipelineZnodes { tenant: tenant.clone(), pipeline };
        let state = read::read_state(&term, &at).await?;
        if let Some((id, item, job, found)) = find(&state, build) {
            let requests = read::read_requests(&term, &state).await?;
            let fleet = Fleet::read(&term).await?;
            return Ok(Some(build_view(&at, &state, &requests, &fleet, (id, item, job, found))));
        }
        let mut ended = state.reports.values().filter_map(|report| report.history.as_ref());
        if let Some(view) = ended.find_map(|record| ended_build(record, build)) {
            return Ok(Some(view));
        }
    }
    Ok(None)
}

type Found<'a> = (&'a Id, &'a Item, &'a Job, &'a Build);

fn find<'a>(state: &'a State, build: &Id) -> Option<Found<'a>> {
    state.items.iter().find_map(|(id, item)| {
        item.buildset.jobs.iter().find_map(|job| {
            let found = job.builds.iter().find(|found| found.id == *build)?;
            Some((id, item, job, found))
        })
    })
}

fn build_view(
    at: &PipelineZnodes,
    state: &State,
    requests: &Requests,
    fleet: &Fleet,
    (id, item, job, build): Found<'_>,
) -> BuildView {
    let record = &build.record;
    let is_newest = job.builds.last().is_some_and(|newest| newest.id == build.id);
    let queue = state.queues.values().find(|queue| queue.items.contains(id));
    let wait = queue.and_then(|queue| waits::of_item(state, queue, id, item));
    let newest = job_view(item, job, wait.as_ref(), requests, fleet);
    let request = requests.get(&build.id).map(|request| request.state);
    let state = match (&record.result, waits::of_job(item, job, request)) {
        (None, Some(JobWait::Executor)) => BuildState::Waiting,
        (None, Some(JobWait::Running)) => BuildState::Running,
        (Some(_), _) | (None, Some(JobWait::Result | JobWait::Jobs(_) | JobWait::Scheduler) | None) => {
            BuildState::Ended
        }
    };
    BuildView {
        uuid: build.id.clone(),
        tenant: at.tenant.clone(),
        pipeline: at.pipeline.clone(),
        item: item_name(&item.record.subject),
        buildset: item.record.buildset.clone(),
        job: job.record.job.name.clone(),
        state,
        result: record.result.clone(),
        attempt: record.attempt,
        voting: job.record.job.is_voting,
        why: newest.why.filter(|_| is_newest),
        executor: record.executor.clone().or_else(|| newest.executor.filter(|_| is_newest)),
        start_time: record.start_ms.or_else(|| newest.start_time.filter(|_| is_newest)),
        end_time: record.end_ms,
        estimated_ms: None,
        detail: record.detail.clone(),
    }
}

/// A build of a buildset that has ended.
pub fn ended_build(record: &HistoryRecord, build: &Id) -> Option<BuildView> {
    let found = record.builds.iter().find(|found| found.uuid == *build)?;
    let about = record.refs.first();
    let name = about.map(|one| format!("{}:{}", one.project, one.change.as_ref().unwrap_or(&one.reference)));
    Some(BuildView {
        uuid: found.uuid.clone(),
        tenant: record.tenant.clone(),
        pipeline: record.pipeline.clone(),
        item: name.unwrap_or_else(|| record.queue.clone()),
        buildset: record.uuid.clone(),
        job: found.job_name.clone(),
        state: BuildState::Ended,
        result: found.result.clone(),
        attempt: found.attempt,
        voting: found.voting,
        why: None,
        executor: found.executor.clone(),
        start_time: found.start_time,
        end_time: found.end_time,
        estimated_ms: None,
        detail: None,
    })
}
