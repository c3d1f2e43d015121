//! Votes and comments of people: notes on the patchset.

use std::collections::BTreeMap;

use menagerie_kernel::session::now_ms;
use menagerie_kernel::{Session, unique};
use menagerie_znodes::pipelines::{Change, NoteLine, Sha};
use schemars::JsonSchema;
use serde::Serialize;

use super::{ChangeName, poke};
use crate::git::{Caches, GitError, Repository};
use crate::{Connection, PipelineError, view};

/// What somebody says about a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approval {
    /// The change.
    pub change: ChangeName,
    /// Refuse if this is not its patchset.
    pub patchset: Option<Sha>,
    /// Votes by label; empty: those that a merge takes.
    pub votes: BTreeMap<String, i64>,
    /// A comment.
    pub comment: Option<String>,
    /// Who says it.
    pub by: String,
}

/// What was said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Approved {
    /// The change.
    pub change: String,
    /// The patchset that has the votes.
    pub patchset: Sha,
    /// Votes by label.
    pub votes: BTreeMap<String, i64>,
    /// A comment.
    pub comment: Option<String>,
    /// Who said it.
    pub by: String,
}

/// A change in the repository that has it.
struct Found<'a> {
    connection: &'a str,
    settings: &'a Connection,
    repository: Repository,
    change: Change,
    patchset: Sha,
}

/// Votes on the patchset that the repository has now: what the watcher has seen may be older.
pub async fn approve(
    session: &Session,
    connections: &BTreeMap<String, Connection>,
    caches: &Caches,
    approval: Approval,
) -> Result<Approved, PipelineError> {
    let found = find(session, connections, caches, &approval.change).await?;
    if let Some(expected) = approval.patchset.filter(|expected| *expected != found.patchset) {
        return Err(PipelineError::Refused {
            why: format!("{} is at {}, not at {expected}", approval.change, found.patchset),
            help: "look at what has been pushed since, and approve that".to_owned(),
        });
    }
    let votes = match approval.votes.is_empty() {
        true => found.settings.submit.clone(),
        false => approval.votes,
    };
    let line = NoteLine {
        id: unique::hex(),
        change: found.change.to_string(),
        by: approval.by,
        at_ms: now_ms() as i64,
        votes,
        comment: approval.comment,
        pipeline: None,
        result: None,
    };
    let value = serde_json::to_value(&line).expect("a line has string keys and nothing that can fail");
    // Its id is new: it stands nowhere unless our own push has succeeded unnoticed.
    let is_there = |lines: &[serde_json::Value]| lines.iter().any(|other| other["id"] == value["id"]);
    found.repository.append_note(&found.patchset, &value, is_there).await?;
    poke(session, found.connection, &found.change.project).await?;
    let NoteLine { change, by, votes, comment, .. } = line;
    Ok(Approved { change, patchset: found.patchset, votes, comment, by })
}

/// Looks for the change in the repositories of that name.
async fn find<'a>(
    session: &Session,
    connections: &'a BTreeMap<String, Connection>,
    caches: &Caches,
    change: &ChangeName,
) -> Result<Found<'a>, PipelineError> {
    let names: Vec<String> = connections.keys().cloned().collect();
    let seen = view::refs(session, &names).await?;
    let knows = |name: &str| seen.project(name, &change.project).is_some();
    // Connections that nobody has watched yet may have it, too.
    let is_known = names.iter().any(|name| knows(name));
    let mut found = Vec::new();
    let (mut open, mut failure) = (Vec::new(), None);
    for (connection, settings) in connections.iter().filter(|(name, _)| !is_known || knows(name)) {
        let url = settings.url(&change.project);
        let looked = async {
            let repository = caches.repository(connection, &change.project, &url).await?;
            let refs = repository.remote_refs().await?;
            Ok::<_, GitError>((repository, refs))
        };
        let (repository, refs) = match looked.await {
            Ok(looked) => looked,
            Err(error) => {
                failure = Some(error);
                continue;
            }
        };
        let proposals = refs.keys().filter_map(|name| name.strip_prefix("refs/heads/propose/"));
        open.extend(proposals.map(|rest| format!("{}:propose/{rest}", change.project)));
        let Some(patchset) = refs.get(&format!("refs/heads/{}", change.branch)).cloned() else { continue };
        let is_branch = |_: &str, name: &str| refs.contains_key(&format!("refs/heads/{name}"));
        let change =
            Change::parse(&change.to_string(), is_branch).map_err(|error| PipelineError::Unknown {
                what: error.to_string(),
                help: "TARGET is the branch that the change is to be merged into, and must exist".to_owned(),
            })?;
        found.push(Found { connection, settings, repository, change, patchset });
    }
    if found.len() > 1 {
        let names: Vec<&str> = found.iter().map(|found| found.connection).collect();
        return Err(PipelineError::Unknown {
            what: format!("several connections have {change}: {}", names.join(", ")),
            help: "say which with --connection".to_owned(),
        });
    }
    match (found.pop(), failure) {
        (Some(found), _) => Ok(found),
        (None, Some(error)) if open.is_empty() => Err(error.into()),
        (None, _) => Err(unknown(change, &open)),
    }
}

/// There is no such change; these there are.
pub(super) fn unknown(change: &ChangeName, open: &[String]) -> PipelineError {
    const SHOWN: usize = 10;
    let more = if open.len() > SHOWN { ", …" } else { "" };
    PipelineError::Unknown {
        what: format!("there is no open change {change}"),
        help: match open.is_empty() {
            true => format!("push it first: git push origin HEAD:{}", change.branch),
            false => format!("the open changes are: {}{more}", open[..open.len().min(SHOWN)].join(", ")),
        },
    }
}
