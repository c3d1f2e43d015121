//! The submitter's side of a job request queue, for requests whose submitter waits for the result.

use std::collections::BTreeMap;
use std::time::Duration;

use menagerie_kernel::recipes::blob::{Blob, Expect};
use menagerie_kernel::{CallError, Session, Term, Transaction, retry, unique};
use menagerie_znodes::pipelines::{
    CatParams, FilesRead, Id, JobQueue, Params, Request, RequestState, Sha, Source,
};
use menagerie_znodes::{Name, Payload as _};
use tokio::time::timeout;
use tracing::debug;

use crate::PipelineError;

/// Longest wait for a merger.
const PATIENCE: Duration = Duration::from_secs(120);
/// The precedence of requests that others wait for: before all of pipelines.
const FIRST: u32 = 0;

/// A new id.
pub fn draw_id() -> Id {
    Name::new(unique::hex()).expect("hexadecimal digits are a name")
}

/// Has a merger read the configuration files of a commit.
pub async fn cat(
    session: &Session,
    source: Source,
    commit: Sha,
) -> Result<BTreeMap<String, String>, PipelineError> {
    let (queue, id) = (JobQueue::Merger, draw_id());
    let term = session.term();
    let project = source.project.clone();
    let params = Params::Cat(CatParams { source, commit });
    let read = timeout(PATIENCE, request(session, &term, queue, &id, &params)).await;
    clean_up(session, &term, queue, &id).await;
    let help = "see with `menagerie status` whether a merger runs, and read its log".to_owned();
    match read {
        Ok(read) => {
            read?.files.map_err(|why| PipelineError::Refused { why: format!("{project}: {why}"), help })
        }
        Err(_) => {
            let what =
                format!("no merger has read the configuration of {project} within {} s", PATIENCE.as_secs());
            Err(PipelineError::TooLate { what, help })
        }
    }
}

async fn request(
    session: &Session,
    term: &Term,
    queue: JobQueue,
    id: &Id,
    params: &Params,
) -> Result<FilesRead, PipelineError> {
    // In this order: a merger that finds no waiter drops the result.
    retry::create(term, queue.waiter(id).path(), b"").await?;
    let request = Request { state: RequestState::Requested, precedence: FIRST, pipeline: None, worker: None };
    let transaction =
        Transaction::new(term).create(&queue.param(id), params).create(&queue.request(id), &request);
    let there = term.patient();
    let proof = || async { Ok(there.stat(queue.request(id).path()).await?.map(|_| Vec::new())) };
    retry::commit(transaction, proof).await?;
    loop {
        let (found, watch) = there.stat_watched(queue.result(id).path()).await?;
        if found.is_some() {
            break;
        }
        watch.changed().await;
        if !term.is_valid() {
            term.trusted().await?;
        }
    }
    let data =
        Blob::new(session, queue.result_data(id)).read().await?.map(|(data, _)| data).unwrap_or_default();
    FilesRead::decode(&data).map_err(|error| {
        CallError::Payload { path: queue.result_data(id).path().to_owned(), why: error.source.to_string() }
            .into()
    })
}

/// Removes what belongs to a request. What is left when this fails is garbage that nobody waits for.
async fn clean_up(session: &Session, term: &Term, queue: JobQueue, id: &Id) {
    let blob = Blob::new(session, queue.result_data(id));
    let _ = blob.delete_fenced(Transaction::new(term), Expect::Anything).await;
    for path in [
        queue.request(id).path(),
        queue.param(id).path(),
        queue.result(id).path(),
        queue.waiter(id).path(),
        queue.lock(id).path(),
    ] {
        match term.delete(path, None).await {
            Ok(()) | Err(CallError::NoZnode { .. }) => {}
            Err(error) => debug!(path, %error, "cannot remove what belongs to a request"),
        }
    }
}
