//! `menagerie status`: who is there.

use clap::Args;
use menagerie_kernel::session::State;
use menagerie_kernel::{CallError, Term, subtree};
use menagerie_znodes::{Kind, Znode, components, kernel};
use serde::Serialize;
use serde_json::Value;

use crate::client::{self, Client, ClientArgs};
use crate::exit::{CliError, cannot};
use crate::output::{OutputArgs, Show, Table};
use crate::survey::{self, Server};
use crate::{clock, durations};

/// Show the registered components and the state of ZooKeeper.
#[derive(Debug, Args)]
pub struct Status {
    #[command(flatten)]
    client: ClientArgs,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, Serialize)]
struct View {
    servers: Vec<Server>,
    session: SessionView,
    namespace: String,
    /// `null` when nobody has lived in the namespace yet.
    generation: Option<u64>,
    /// Whether an import is not finished.
    importing: bool,
    components: Vec<Component>,
}

#[derive(Debug, Serialize)]
struct SessionView {
    id: String,
    state: &'static str,
    timeout_ms: u128,
}

/// Somebody who registered, as far as they tell.
#[derive(Debug, Serialize)]
struct Component {
    kind: String,
    name: String,
    host: Option<String>,
    state: Option<String>,
    version: Option<String>,
    since_ms: i64,
}

impl Status {
    /// Looks and prints.
    pub fn run(self) -> Result<(), CliError> {
        let output = self.output;
        client::run(self.client, async |client| output.print(async || look(client).await).await)
    }
}

async fn look(client: &Client) -> Result<View, CliError> {
    let (term, namespace) = (client.term(), client.namespace());
    let failed = |source: CallError| cannot(format!("read the namespace {namespace}"))(source);
    let servers = survey::servers(&client.settings).await;
    let state = match *term.state().borrow() {
        State::Connected => "connected",
        State::Suspended => "suspended",
        State::Lost => "lost",
    };
    let session = SessionView {
        id: format!("{:#x}", term.session_id()),
        state,
        timeout_ms: term.timeout().as_millis(),
    };
    let generation: Znode<u64> =
        Znode::foreign(within(namespace, kernel::generation().path()), Kind::Persistent);
    let generation = term.read(&generation.maybe_damaged()).await.map_err(failed)?;
    let importing = term.stat(&within(namespace, kernel::importing().path())).await.map_err(failed)?;
    Ok(View {
        servers,
        session,
        namespace: namespace.to_owned(),
        generation: generation.and_then(|found| found.value.sound()),
        importing: importing.is_some(),
        components: registered(&term, namespace).await.map_err(failed)?,
    })
}

async fn registered(term: &Term, namespace: &str) -> Result<Vec<Component>, CallError> {
    let root = subtree::join(namespace, components::root().path().trim_start_matches('/'));
    let mut components = Vec::new();
    for kind in names(term, &root).await? {
        let folder = subtree::join(&root, &kind);
        for name in names(term, &folder).await? {
            let found = optional(term.get(&subtree::join(&folder, &name)).await)?;
            let Some((data, stat)) = found else { continue };
            let said: Value = serde_json::from_slice(&data).unwrap_or_default();
            components.push(Component {
                kind: kind.clone(),
                host: word(&said, &["host", "hostname"]),
                state: word(&said, &["state"]),
                version: word(&said, &["version"]),
                since_ms: stat.ctime_ms,
                name,
            });
        }
    }
    Ok(components)
}

/// In order; none where there is nothing.
async fn names(term: &Term, path: &str) -> Result<Vec<String>, CallError> {
    let mut names = optional(term.children(path).await)?.unwrap_or_default();
    names.sort_unstable();
    Ok(names)
}

fn optional<T>(found: Result<T, CallError>) -> Result<Option<T>, CallError> {
    match found {
        Err(CallError::NoZnode { .. }) => Ok(None),
        found => found.map(Some),
    }
}

fn word(said: &Value, keys: &[&str]) -> Option<String> {
    match keys.iter().find_map(|key| said.get(key))? {
        Value::String(word) => Some(word.clone()),
        Value::Null => None,
        other => Some(other.to_string()),
    }
}

fn within(namespace: &str, path: &str) -> String {
    subtree::join(namespace, path.trim_start_matches('/'))
}

impl Show for View {
    fn show(&self) -> String {
        let mut facts = Table::default();
        for (at, server) in self.servers.iter().enumerate() {
            let head = if at == 0 { "zookeeper" } else { "" };
            facts.row([head.to_owned(), format!("{}  {}", server.address, said(server))]);
        }
        let SessionView { id, state, timeout_ms } = &self.session;
        facts.row(["session".to_owned(), format!("{id}  {state}, time-out {timeout_ms} ms")]);
        let generation = match (self.generation, self.importing) {
            (_, true) => {
                "an import is not finished: engines wait for it; run `menagerie zk import` again with the same file"
                    .to_owned()
            }
            (Some(generation), false) => format!("generation {generation}"),
            (None, false) => "no engine has used it yet".to_owned(),
        };
        facts.row(["namespace".to_owned(), format!("{}  {generation}", self.namespace)]);
        if self.components.is_empty() {
            return facts.text() + "\nnobody is registered\n";
        }
        let mut table = Table::new(["KIND", "NAME", "HOST", "STATE", "VERSION", "SINCE"]);
        for component in &self.components {
            // Whatever they say of themselves must do nothing to a terminal.
            let told = |word: &Option<String>| {
                word.as_ref().map_or("-".to_owned(), |word| word.escape_debug().to_string())
            };
            table.row([
                component.kind.clone(),
                component.name.clone(),
                told(&component.host),
                told(&component.state),
                told(&component.version),
                durations::age(clock::since(component.since_ms)),
            ]);
        }
        format!("{}\n{}", facts.text(), table.text())
    }
}

fn said(server: &Server) -> String {
    match (&server.version, &server.mode, &server.note) {
        (Some(version), Some(mode), _) => format!("{version}, {mode}"),
        (_, _, Some(note)) => note.clone(),
        _ => String::new(),
    }
}
