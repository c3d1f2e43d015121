//! Builds of pipelines, and their logs. A log is read from the executor that has it; only registered executors are asked.

use std::sync::Arc;

use menagerie_pipelines::client::logs::{self, BuildId, LogServer, Search};
use menagerie_pipelines::history::{self, Filter};
use menagerie_pipelines::view::{self, BuildState, BuildView};
use menagerie_types::Name;
use schemars::JsonSchema;
use serde::Serialize;

use super::pipelines::require_tenant;
use crate::builds::search::LogSearch;
use crate::builds::text::{from_line_start, plain, whole_chars};
use crate::params::Params;
use crate::problem::Problem;
use crate::sources::Sources;

/// Bytes of a log that a page shows.
const TAIL: u64 = 64 << 10;
/// Bytes of a log that one look searches at most; the next one goes on.
const SEARCHED: u64 = 16 << 20;

/// A build, and whether its log can be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct BuildReply {
    /// The build.
    #[serde(flatten)]
    pub build: BuildView,
    /// Bytes that its log has now; `null` if no executor has it.
    pub log_bytes: Option<u64>,
    /// Why no log can be read.
    pub log_missing: Option<String>,
}

/// A piece of a log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LogPiece {
    /// The piece: whole characters, at most a mebibyte. What is no UTF-8 is replaced by U+FFFD.
    pub text: String,
    /// `offset` of the next piece, in bytes.
    pub next_offset: u64,
    /// Whether this is the end of the log of a build that has ended.
    pub is_ended: bool,
}

/// What a page shows of a log.
pub enum Shown {
    /// Its end, as text that begins with a line; and whether that is all of it.
    Tail(String, bool),
    /// The lines with what was asked for, and up to which byte the log was read.
    Found(LogSearch, u64),
}

/// A build.
pub async fn build(sources: Arc<Sources>, params: Params) -> Result<BuildReply, Problem> {
    Ok(look(&sources, &params).await?.1)
}

/// A piece of the log of a build.
pub async fn log(sources: Arc<Sources>, params: Params) -> Result<LogPiece, Problem> {
    let (build, view) = find(&sources, &params).await?;
    let offset = params.query::<u64>("offset")?.unwrap_or(0);
    match logs::find(&sources.session.term(), &build, offset).await? {
        Search::Found(_, chunk) => {
            let is_last = chunk.end >= chunk.size && !chunk.is_running;
            let whole = if is_last { chunk.bytes.len() } else { whole_chars(&chunk.bytes) };
            let cut = u64::try_from(chunk.bytes.len() - whole).unwrap_or(0);
            let text = String::from_utf8_lossy(&chunk.bytes[..whole]).into_owned();
            Ok(LogPiece { text, next_offset: chunk.end - cut, is_ended: is_last })
        }
        Search::Nowhere(silent) => match view.state {
            BuildState::Waiting | BuildState::Running => {
                Ok(LogPiece { text: String::new(), next_offset: offset, is_ended: false })
            }
            BuildState::Ended => Err(missing(&silent)),
        },
    }
}

/// A build, and what its page shows of its log.
pub async fn with_log(sources: &Sources, params: &Params) -> Result<(BuildReply, Option<Shown>), Problem> {
    let (build, reply, server) = look(sources, params).await?;
    let (Some(server), Some(size)) = (server, reply.log_bytes) else { return Ok((reply, None)) };
    let shown = match params.text("q") {
        Some(wanted) => {
            let mut search = sources.builds.take_search(&build, wanted);
            let searched = advance(&server, &build, &mut search).await;
            sources.builds.put_search(&build, wanted, search.clone());
            searched?;
            Shown::Found(search, size)
        }
        None => {
            let from = size.saturating_sub(TAIL);
            let chunk = read(&server, &build, from).await?;
            let bytes = from_line_start(&chunk.bytes, from == 0);
            Shown::Tail(plain(bytes), from == 0)
        }
    };
    Ok((reply, Some(shown)))
}

async fn advance(server: &LogServer, build: &BuildId, search: &mut LogSearch) -> Result<(), Problem> {
    let until = search.next().saturating_add(SEARCHED);
    while search.next() < until {
        let chunk = read(server, build, search.next()).await?;
        if chunk.bytes.is_empty() {
            break;
        }
        search.push(&chunk.bytes, chunk.end);
    }
    Ok(())
}

/// A piece of a log from the executor that has it.
pub async fn read(server: &LogServer, build: &BuildId, offset: u64) -> Result<logs::Chunk, Problem> {
    match server.read(build, offset).await {
        Ok(Some(chunk)) => Ok(chunk),
        Ok(None) => Err(missing(&[])),
        Err(why) => {
            let what = format!("executor {} does not answer any more: {why}", server.name);
            Err(Problem::busy(503, what, 1))
        }
    }
}

/// The executor that has the log of a build, and how many bytes that has.
pub async fn log_server(sources: &Sources, params: &Params) -> Result<(BuildId, LogServer, u64), Problem> {
    let (build, _) = find(sources, params).await?;
    match logs::find(&sources.session.term(), &build, u64::MAX).await? {
        Search::Found(server, chunk) => Ok((build, server, chunk.size)),
        Search::Nowhere(silent) => Err(missing(&silent)),
    }
}

async fn look(
    sources: &Sources,
    params: &Params,
) -> Result<(BuildId, BuildReply, Option<LogServer>), Problem> {
    let (build, view) = find(sources, params).await?;
    let (server, log_bytes, log_missing) = match logs::find(&sources.session.term(), &build, u64::MAX).await?
    {
        Search::Found(server, chunk) => (Some(server), Some(chunk.size), None),
        Search::Nowhere(silent) => {
            let why = match view.state {
                BuildState::Waiting => "it has not begun".to_owned(),
                BuildState::Running | BuildState::Ended => missing(&silent).detail,
            };
            (None, None, Some(why))
        }
    };
    Ok((build, BuildReply { build: view, log_bytes, log_missing }, server))
}

fn missing(silent: &[String]) -> Problem {
    match silent {
        [] => Problem::missing(
            "no executor has this log",
            "logs stay on the machine of their executor, which must run",
        ),
        silent => {
            let what = format!("no executor that answers has this log; silent: {}", silent.join(", "));
            Problem::busy(503, what, 5)
        }
    }
}

/// A build of a tenant: among what is queued, else in the history.
async fn find(sources: &Sources, params: &Params) -> Result<(BuildId, BuildView), Problem> {
    let (tenant, build): (Name, BuildId) = (params.path("tenant")?, params.path("build")?);
    let id = build.id();
    if let Some(view) = sources.builds.ended(&tenant, &build) {
        return Ok((build, view));
    }
    require_tenant(sources, &tenant).await?;
    if let Some(view) = view::queued_build(&sources.session, &tenant, id).await? {
        let estimates = sources.builds.estimates(&sources.journals, &tenant).await;
        let estimated_ms = estimates.of_job(&view.job);
        return Ok((build, BuildView { estimated_ms, ..view }));
    }
    let filter =
        Filter { tenant: Some(tenant.clone()), build: Some(id.clone()), limit: Some(1), ..Filter::default() };
    let records = history::list(&sources.journals, &filter).await?;
    match records.iter().find_map(|record| view::ended_build(record, id)) {
        Some(view) => {
            sources.builds.remember(&build, &view);
            Ok((build, view))
        }
        None => Err(Problem::missing(
            format!("tenant {tenant} has no build {build}"),
            "the history of the tenant lists all that has ended",
        )),
    }
}
