//! From the state of a pipeline to what users see. Pure.

use menagerie_znodes::pipelines::{Id, QueueRecord, RequestState, Subject};

use super::fleet::Fleet;
use super::waits::{self, ItemWait, JobWait};
use super::{ChangeQueueView, ItemView, JobView, PipelineView, RefView, Requests};
use crate::core::{Item, Job, State};

/// A pipeline as users see it. Event queues are not part of its state: whoever reads them fills in their lengths.
pub fn pipeline_view(name: &str, state: &State, requests: &Requests, fleet: &Fleet) -> PipelineView {
    let queues = state.record.queues.iter().filter_map(|id| state.queues.get(id));
    PipelineView {
        name: name.to_owned(),
        manager: state.record.manager.clone(),
        change_queues: queues.map(|queue| queue_view(state, queue, requests, fleet)).collect(),
        reports: state.reports.len(),
        ..PipelineView::default()
    }
}

fn queue_view(state: &State, queue: &QueueRecord, requests: &Requests, fleet: &Fleet) -> ChangeQueueView {
    let mut heads: Vec<Vec<ItemView>> = Vec::new();
    for (id, item) in queue.items.iter().filter_map(|id| Some((id, state.items.get(id)?))) {
        let view = item_view((state, queue), id, item, requests, fleet);
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

fn item_view(
    (state, queue): (&State, &QueueRecord),
    id: &Id,
    item: &Item,
    requests: &Requests,
    fleet: &Fleet,
) -> ItemView {
    let wait = waits::of_item(state, queue, id, item);
    let jobs = item.buildset.jobs.iter().map(|job| job_view(item, job, wait.as_ref(), requests, fleet));
    let jobs = jobs.collect();
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
        waiting_status: wait.as_ref().map(|wait| wait.word().to_owned()),
        why: wait.map(|wait| wait.why(fleet)),
        jobs,
    }
}

/// A job; `wait` is what the item as a whole waits for.
pub fn job_view(
    item: &Item,
    job: &Job,
    wait: Option<&ItemWait>,
    requests: &Requests,
    fleet: &Fleet,
) -> JobView {
    let newest = job.builds.last();
    let request = newest.and_then(|build| requests.get(&build.id));
    let record = newest.map(|build| &build.record);
    let job_wait = waits::of_job(item, job, request.map(|request| request.state));
    JobView {
        name: job.record.job.name.clone(),
        uuid: newest.map(|build| build.id.clone()),
        result: job.result().map(str::to_owned),
        voting: job.record.job.is_voting,
        tries: job.builds.len(),
        waiting_status: job_wait.as_ref().map(JobWait::word),
        why: job_wait.and_then(|waits| waits.why(wait, fleet)),
        executor: record
            .and_then(|build| build.executor.clone())
            .or_else(|| request.and_then(|request| request.worker.clone())),
        start_time: record
            .and_then(|build| build.start_ms)
            .or_else(|| request.filter(|request| request.state != RequestState::Requested)?.since_ms),
        end_time: record.and_then(|build| build.end_ms),
        estimated_ms: None,
        detail: record.and_then(|build| build.detail.clone()),
    }
}
