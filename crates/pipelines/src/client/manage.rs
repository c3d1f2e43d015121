//! Enqueue and dequeue: a request to the pipeline, and its answer.

use std::time::Duration;

use menagerie_kernel::recipes::sequence_queue::SequenceQueue;
use menagerie_kernel::{CallError, Session, Term, retry, unique};
use menagerie_znodes::pipelines::{
    self as znodes, Action, Change, Id, Management, ManagementAnswer, PipelineZnodes,
};
use menagerie_znodes::{Name, Payload as _};
use tokio::time::{Instant, sleep, timeout};

use super::approve::unknown;
use super::{ChangeName, LOOK_EVERY, poke, require_pipeline};
use crate::core::knowledge::Refs;
use crate::{PipelineError, view};

/// Longest wait for a scheduler.
const PATIENCE: Duration = Duration::from_secs(10);
/// Longest wait for the watcher to see a change that was pushed a moment ago.
const WATCHER_PATIENCE: Duration = Duration::from_secs(5);
/// More requests than this mean that nobody handles them.
const BACKLOG_MAX: usize = 10_000;

/// Has a pipeline enqueue or dequeue a change, and waits for its answer.
pub async fn manage(
    session: &Session,
    tenant: &Name,
    pipeline: &Name,
    action: Action,
    change: &ChangeName,
) -> Result<Change, PipelineError> {
    let term = session.term();
    require_pipeline(session, tenant, pipeline).await?;
    let at = PipelineZnodes { tenant: tenant.clone(), pipeline: pipeline.clone() };
    let change = resolve(session, &at, action, change).await?;
    let id = Id::new(unique::hex()).expect("hexadecimal digits are a name");
    let answer = znodes::management_result(&id);
    retry::ensure(&term, znodes::management_results().path(), b"").await?;
    retry::create(&term, answer.path(), &ManagementAnswer::default().encode()).await?;
    let request = Management { answer: id.clone(), action, change: change.clone() };
    SequenceQueue::new(session, at.management(), BACKLOG_MAX).put(&request.encode()).await?;
    let answered = timeout(PATIENCE, wait_for_answer(&term, &id)).await;
    // The end of the session removes it, too.
    let _ = retry::delete(&term, answer.path()).await;
    match answered {
        Ok(answered) => match answered?.error {
            Some(why) => Err(PipelineError::Refused {
                why,
                help: "see with `menagerie pipeline status` what is queued".to_owned(),
            }),
            None => Ok(change),
        },
        Err(_) => Err(PipelineError::TooLate {
            what: format!("no scheduler has answered within {} s; it may still happen", PATIENCE.as_secs()),
            help: "see with `menagerie status` whether a scheduler runs, and read its log".to_owned(),
        }),
    }
}

async fn wait_for_answer(term: &Term, id: &Id) -> Result<ManagementAnswer, CallError> {
    let term = term.patient();
    loop {
        match term.read_watched(&znodes::management_result(id)).await? {
            Some((answer, _)) if answer.value.is_done => return Ok(answer.value),
            Some((_, watch)) => drop(watch.changed().await),
            None => return Err(CallError::Expired),
        }
    }
}

/// The change that is meant: one in the pipeline, or an open one.
async fn resolve(
    session: &Session,
    at: &PipelineZnodes,
    action: Action,
    name: &ChangeName,
) -> Result<Change, PipelineError> {
    let term = session.term().patient();
    if action == Action::Dequeue {
        let state = view::read_state(&term, at).await?;
        let changes = state.items.values().filter_map(|item| item.record.subject.change());
        let mut changes: Vec<&Change> = changes.collect();
        if let Some(found) = changes.iter().find(|change| name.is(change)) {
            return Ok((*found).clone());
        }
        changes.sort_unstable();
        changes.dedup();
        let queued: Vec<String> = changes.iter().map(ToString::to_string).collect();
        return Err(PipelineError::Unknown {
            what: format!("{name} is not in pipeline {}", at.pipeline),
            help: match queued.is_empty() {
                true => "nothing is queued there".to_owned(),
                false => format!("queued are: {}", queued.join(", ")),
            },
        });
    }
    let connections = view::connections(&term).await?;
    let deadline = Instant::now() + WATCHER_PATIENCE;
    let mut is_poked = false;
    loop {
        let refs = view::refs(session, &connections).await?;
        if let Some(found) = name.find(&refs) {
            return Ok(found.change.clone());
        }
        let has_it = |connection: &&String| refs.project(connection, &name.project).is_some();
        let Some(connection) = connections.iter().find(has_it).filter(|_| Instant::now() < deadline) else {
            return Err(unknown(name, &open_changes(&refs)));
        };
        // It may have been pushed a moment ago.
        if !std::mem::replace(&mut is_poked, true) {
            poke(session, connection, &name.project).await?;
        }
        sleep(LOOK_EVERY).await;
    }
}

fn open_changes(refs: &Refs) -> Vec<String> {
    refs.0.keys().flat_map(|connection| refs.open(connection)).map(|open| open.change.to_string()).collect()
}
