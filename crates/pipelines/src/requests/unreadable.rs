//! The answer to a request whose parameters do not decode (pure): whoever waits for it must not wait for ever.

use menagerie_znodes::pipelines::{FilesRead, Id, JobQueue, MergeResult, Outcome, Request};
use serde_json::Value;

use super::claim::Answer;
use super::now_ms;

/// The answer that fails a request. `None` if its buildset is not to be found in the damaged parameters: then nobody
/// would recognise the answer.
pub(super) fn refusal(
    queue: JobQueue,
    id: &Id,
    request: &Request,
    params: &[u8],
    why: &str,
    worker: &str,
) -> Option<Answer> {
    let message = format!(
        "{worker} cannot read the parameters of request {id}: {why}. Run the same version of menagerie everywhere."
    );
    if request.pipeline.is_none() {
        return Some(Answer::Files(FilesRead { files: Err(message) }));
    }
    let params: Value = serde_json::from_slice(params).ok()?;
    let (kind, fields) = params.as_object()?.iter().next()?;
    let (buildset, request) = (Id::new(fields.get("buildset")?.as_str()?).ok()?, id.clone());
    Some(Answer::Outcome(match (queue, kind.as_str()) {
        (JobQueue::Executor, _) => Outcome::Build {
            build: request,
            buildset,
            result: "ERROR".to_owned(),
            start_ms: now_ms(),
            end_ms: now_ms(),
            executor: worker.to_owned(),
            detail: Some(message),
        },
        (JobQueue::Merger, "tips") => Outcome::Tips { request, buildset, tips: Err(message) },
        (JobQueue::Merger, _) => {
            Outcome::Merge { request, buildset, result: MergeResult::Failed { message } }
        }
    }))
}
