//! What runs where, and how ZooKeeper is.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use menagerie_kernel::recipes::membership::{ComponentView, components};
use menagerie_kernel::session::State;
use menagerie_kernel::words;
use schemars::JsonSchema;
use serde::Serialize;

use super::Listing;
use crate::params::Params;
use crate::problem::Problem;
use crate::sources::Sources;

/// A healthy server answers at once.
const PATIENCE: Duration = Duration::from_secs(2);

/// All registered processes, by kind and name.
pub async fn all_components(
    sources: Arc<Sources>,
    params: Params,
) -> Result<Listing<ComponentView>, Problem> {
    let found = components(&sources.session.term(), "/").await?;
    let found = found.into_iter().filter(|one| params.wants(&one.kind) || params.wants(&one.name));
    Ok(Listing::page(found, |one| format!("{}/{}", one.kind, one.name), &params))
}

/// How ZooKeeper is, as its servers say.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct KeeperView {
    /// Id of this web server's session.
    pub session: String,
    /// `connected`, `suspended` or `lost`.
    pub state: String,
    /// Its time-out.
    pub timeout_ms: u64,
    /// All servers.
    pub servers: Vec<ServerView>,
}

/// A ZooKeeper server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ServerView {
    /// `HOST:PORT`.
    pub address: String,
    /// What `mntr` answers: names and values, without `zk_`. Empty if it does not answer.
    pub facts: Vec<(String, String)>,
    /// Why it does not answer.
    pub note: Option<String>,
}

impl ServerView {
    /// The value of a fact.
    pub fn fact(&self, name: &str) -> Option<&str> {
        self.facts.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }
}

/// Asks all servers for their status.
pub async fn keeper(sources: Arc<Sources>, _: Params) -> Result<KeeperView, Problem> {
    let term = sources.session.term();
    let state = match *term.state().borrow() {
        State::Connected => "connected",
        State::Suspended => "suspended",
        State::Lost => "lost",
    };
    let servers = sources.servers.iter().map(|address| ask(address, sources.speaks_words));
    Ok(KeeperView {
        session: format!("{:#x}", term.session_id()),
        state: state.to_owned(),
        timeout_ms: u64::try_from(term.timeout().as_millis()).unwrap_or(u64::MAX),
        servers: join_all(servers).await,
    })
}

async fn ask(address: &str, speaks_words: bool) -> ServerView {
    let silent =
        |note: String| ServerView { address: address.to_owned(), facts: Vec::new(), note: Some(note) };
    if !speaks_words {
        return silent("not asked: four-letter words are not encrypted".to_owned());
    }
    let answer = match words::ask(address, "mntr", PATIENCE).await {
        Ok(answer) => answer,
        Err(error) => return silent(error.to_string()),
    };
    let fact = |line: &str| {
        let (name, value) = line.split_once('\t')?;
        Some((name.strip_prefix("zk_")?.to_owned(), value.trim().to_owned()))
    };
    let facts: Vec<(String, String)> = answer.lines().filter_map(fact).collect();
    match facts.is_empty() {
        true => {
            silent("it does not answer mntr: its operator does not allow it, or it has no quorum".to_owned())
        }
        false => ServerView { address: address.to_owned(), facts, note: None },
    }
}
