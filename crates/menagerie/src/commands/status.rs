//! `menagerie status`: which components are registered, and how ZooKeeper is.

use clap::Args;
use menagerie_kernel::recipes::membership::{ComponentView, components};
use menagerie_kernel::session::State;
use menagerie_kernel::{CallError, subtree};
use menagerie_znodes::{Kind, Znode, kernel};
use serde::Serialize;

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
struct StatusView {
    servers: Vec<Server>,
    session: SessionView,
    namespace: String,
    /// `null` if no engine has used the namespace yet.
    generation: Option<u64>,
    /// Whether an import is unfinished.
    importing: bool,
    components: Vec<ComponentView>,
}

#[derive(Debug, Serialize)]
struct SessionView {
    id: String,
    state: &'static str,
    timeout_ms: u128,
}

impl Status {
    pub fn run(self) -> Result<(), CliError> {
        let output = self.output;
        client::run(self.client, async |client| output.print(async || read_status(client).await).await)
    }
}

async fn read_status(client: &Client) -> Result<StatusView, CliError> {
    let (term, namespace) = (client.term(), client.namespace());
    let unreadable = |source: CallError| cannot(format!("read the namespace {namespace}"))(source);
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
    let generation = term.read(&generation.maybe_damaged()).await.map_err(unreadable)?;
    let importing = term.stat(&within(namespace, kernel::importing().path())).await.map_err(unreadable)?;
    Ok(StatusView {
        servers,
        session,
        namespace: namespace.to_owned(),
        generation: generation.and_then(|found| found.value.sound()),
        importing: importing.is_some(),
        components: components(&term, namespace).await.map_err(unreadable)?,
    })
}

fn within(namespace: &str, path: &str) -> String {
    subtree::join(namespace, path.trim_start_matches('/'))
}

impl Show for StatusView {
    fn show(&self) -> String {
        let mut facts = Table::default();
        for (at, server) in self.servers.iter().enumerate() {
            let head = if at == 0 { "zookeeper" } else { "" };
            facts.row([head.to_owned(), format!("{}  {}", server.address, describe_server(server))]);
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
            // Components write these themselves: escape them for the terminal.
            let escaped = |word: &Option<String>| {
                word.as_ref().map_or("-".to_owned(), |word| word.escape_debug().to_string())
            };
            table.row([
                component.kind.clone(),
                component.name.clone(),
                escaped(&component.host),
                escaped(&component.state),
                escaped(&component.version),
                durations::age(clock::since(component.since_ms)),
            ]);
        }
        format!("{}\n{}", facts.text(), table.text())
    }
}

fn describe_server(server: &Server) -> String {
    match (&server.version, &server.mode, &server.note) {
        (Some(version), Some(mode), _) => format!("{version}, {mode}"),
        (_, _, Some(note)) => note.clone(),
        _ => String::new(),
    }
}
