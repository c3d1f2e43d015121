//! From the state of a pipeline to what users see. Pure.

use menagerie_znodes::pipelines::{Id, JobsStep, MergeStep, QueueRecord, RequestState, Subject};

use super::{ChangeQueueView, ItemView, JobView, PipelineView, RefView, Requests};
use crate::core::{Item, Job, State};

/// A pipeline as users see it. Event queues are not part of its state: whoever reads them fills in their lengths.
pub fn pipeline_view(name: &str, state: &State, requests: &Requests) -> PipelineView {
    let queues = state.record.queues.iter().filter_map(|id| state.queues.get(id));
    PipelineView {
        name: name.to_owned(),
        manager: state.record.manager.clone(),
        change_queues: queues.map(|queue| queue_view(state, queue, requests)).collect(),
        reports: state.reports.len(),
        ..PipelineView::default()
    }
}

fn queue_view(state: &State, queue: &QueueRecord, requests: &Requests) -> ChangeQueueView {
    let mut heads: Vec<Vec<ItemView>> = Vec::new();
    for (id, item) in queue.items.iter().filter_map(|id| Some((id, state.items.get(id)?))) {
        let view = item_view(state, queue, id, item, requests);
        match heads.last_mut() {
            Some(chain) if view.item_ahead.is_some() => chain.push(view),
            _ => heads.push(vec![view]),
        }
    }
    ChangeQueueView { name: queue.name.clone(), branch: queue.branch.clone(), window: queue.window, heads }
}

/// The name of an item, as users write it.
pub fn item_name(subject: &Subject) -> String {
    match subject {
        Subject::Change { change, .. } => change.to_string(),
        Subject::Ref { project, reference, .. } => format!("{project}:{reference}"),
    }
}

fn item_view(state: &State, queue: &QueueRecord, id: &Id, item: &Item, requests: &Requests) -> ItemView {
    let record = &item.record;
    let name = |id: &Id| Some(item_name(&state.items.get(id)?.record.subject));
    let is_behind = |other: &&Id| {
        state.items.get(*other).is_some_and(|other| other.record.item_ahead.as_ref() == Some(id))
    };
    let newest = match &record.subject {
        Subject::Change { patchset, .. } => patchset,
        Subject::Ref { newrev, .. } => newrev,
    };
    let reference = RefView {
        project: record.subject.project().to_owned(),
        reference: record.subject.reference(),
        id: newest.clone(),
    };
    ItemView {
        id: item_name(&record.subject),
        uuid: id.clone(),
        buildset: record.buildset.clone(),
        live: record.is_live,
        active: record.is_active,
        refs: vec![reference],
        item_ahead: record.item_ahead.as_ref().and_then(name),
        items_behind: queue.items.iter().filter(is_behind).filter_map(name).collect(),
        failing_reasons: record.failing.iter().chain(&record.push_failure).cloned().collect(),
        enqueue_time: record.enqueued_ms,
        waiting_status: item_waits(item).map(str::to_owned),
        jobs: item.buildset.jobs.iter().map(|job| job_view(item, job, requests)).collect(),
    }
}

/// What the item waits for as a whole; once its jobs may run, they say so themselves.
fn item_waits(item: &Item) -> Option<&'static str> {
    let record = &item.record;
    if !record.is_live {
        return None;
    }
    if !record.is_active {
        return Some("waiting for its turn in the window");
    }
    if record.is_pushing {
        return Some("being merged");
    }
    match (&item.buildset.record.merge, &item.buildset.record.jobs) {
        (MergeStep::New | MergeStep::Pending { .. }, _) => Some("waiting for merger"),
        (MergeStep::Failed { .. }, _) | (_, JobsStep::Failed { .. }) => Some("waiting to be reported"),
        (MergeStep::Done { .. }, JobsStep::New) => Some("waiting for its jobs to be known"),
        (MergeStep::Done { .. }, JobsStep::Tips { .. }) => Some("waiting for merger"),
        (MergeStep::Done { .. }, JobsStep::Ready { .. }) if item.buildset.is_complete() => {
            Some("waiting for the items ahead")
        }
        (MergeStep::Done { .. }, JobsStep::Ready { .. }) => None,
    }
}

fn job_view(item: &Item, job: &Job, requests: &Requests) -> JobView {
    let newest = job.builds.last();
    let request = newest.and_then(|build| requests.get(&build.id));
    let record = newest.map(|build| &build.record);
    JobView {
        name: job.record.job.name.clone(),
        uuid: newest.map(|build| build.id.clone()),
        result: job.result().map(str::to_owned),
        voting: job.record.job.is_voting,
        tries: job.builds.len(),
        waiting_status: job_waits(item, job, requests),
        executor: record
            .and_then(|build| build.executor.clone())
            .or_else(|| request.and_then(|request| request.worker.clone())),
        start_time: record
            .and_then(|build| build.start_ms)
            .or_else(|| request.filter(|request| request.state != RequestState::Requested)?.since_ms),
        end_time: record.and_then(|build| build.end_ms),
        detail: record.and_then(|build| build.detail.clone()),
    }
}

fn job_waits(item: &Item, job: &Job, requests: &Requests) -> Option<String> {
    if job.result().is_some() {
        return None;
    }
    if let Some(build) = job.in_flight() {
        let state = requests.get(&build.id).map(|request| request.state);
        let status = match state {
            Some(RequestState::Requested) => "waiting for executor",
            Some(RequestState::Running) => "running",
            // Its result is on its way to the pipeline.
            Some(RequestState::Completed) | None => "waiting for scheduler",
        };
        return Some(status.to_owned());
    }
    let jobs = &item.buildset.jobs;
    let is_missing =
        |name: &str| jobs.iter().any(|other| other.record.job.name == *name && other.result().is_none());
    let dependencies = job.record.job.dependencies.iter().map(|dependency| dependency.name.as_str());
    let missing: Vec<&str> = dependencies.filter(|name| is_missing(name)).collect();
    Some(match missing.is_empty() {
        true => "waiting for scheduler".to_owned(),
        false => format!("waiting for dependencies: {}", missing.join(", ")),
    })
}
