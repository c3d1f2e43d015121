//! `menagerie web`: REST, live values and pages.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use menagerie_kernel::Session;
use menagerie_kernel::session::Rights::Owner;
use menagerie_pipelines::git::Caches;
use menagerie_web::access::token;
use menagerie_web::builds;
use menagerie_web::history::History;
use menagerie_web::metrics::Metrics;
use menagerie_web::server::{Options, STREAMS_MAX, Server};
use menagerie_web::sources::{Git, Sources};
use menagerie_znodes::Name;
use menagerie_znodes::flows::Deployment;
use menagerie_znodes::web::Rights;
use serde_json::Map;

use super::data::DataArgs;
use super::flow::{DeploymentArg, JournalSource};
use super::pipeline::approve::cache_folder;
use super::secret_file::SecretFile;
use crate::allow::everybody;
use crate::client::Connection;
use crate::config::Settings;
use crate::exit::{CliError, cannot};
use crate::files::{Port, Shares};
use crate::listener::{Endpoint, Limits, TlsArgs};
use crate::ports;
use crate::role::host::Signals;
use crate::role::{Host, Ready, Role};
use crate::stores::StoreArgs;

/// A stream sends something every 15 s.
pub const LIMITS: Limits =
    Limits { connections: 4_096, exchange: Duration::from_secs(60), reading_counts: true };
/// Streams hold their connections, and so do browsers between requests.
pub const PORT: Port = Port { kind: KIND, own_files: 16, weight: 4 };

const KIND: &str = "web";
/// On stop, requests in flight are answered and streams end.
const DRAIN_MAX: Duration = Duration::from_secs(2);
/// The name of the token that `menagerie up` makes for its own user.
const OWN_TOKEN: &str = "up";
/// Who has made it, as `token list` shows.
const OWN_TOKEN_BY: &str = "menagerie up";

/// Serve the dashboard and the REST interface: what the fleet is doing, and acts on it. Any number of them.
#[derive(Debug, Args)]
pub struct Web {
    /// Address to listen on; port 0 picks a free one.
    #[arg(long, value_name = "HOST:PORT", value_parser = ports::address, default_value = "127.0.0.1:8090", env = "MENAGERIE_WEB_LISTEN")]
    listen: SocketAddr,
    #[command(flatten)]
    tls: TlsArgs,
    /// Allow unencrypted connections from other machines; tokens can then be overheard.
    #[arg(long)]
    insecure: bool,
    #[command(flatten)]
    deployment: DeploymentArg,
    #[command(flatten)]
    data: DataArgs,
    #[command(flatten)]
    stores: StoreArgs,
    /// Serve /metrics and /healthz on this address.
    #[arg(long, value_name = "HOST:PORT", value_parser = ports::address)]
    metrics: Option<SocketAddr>,
}

impl Web {
    /// Serves until it is stopped.
    pub fn run(self) -> Result<(), CliError> {
        if !self.tls.is_given() {
            let instead = Some("give --tls-cert and --tls-key");
            ports::require_loopback(self.listen, self.insecure, "--listen", instead)?;
        }
        let mut host = Host::new(self.metrics, self.insecure, Signals::Host)?;
        let settings = self.stores.client.settings()?;
        let (folder, _temporary) = cache_folder(&self.data)?;
        let parts = Parts {
            endpoint: Endpoint {
                socket: ports::bind(self.listen, "--listen")?,
                tls: self.tls.listener()?,
                allow: everybody(),
                limits: LIMITS.at_most(Shares::of(&[PORT]).connections(PORT)),
            },
            metrics: Metrics::new(&mut host.registry),
            deployment: self.deployment.deployment(),
            servers: settings.servers.value.hosts().to_vec(),
            speaks_words: settings.tls_ca.is_none(),
            git: git(&settings, folder),
            own_token: None,
        };
        let access = self.stores.access.access(&settings);
        let connection = Connection::within(&settings, Owner)?;
        host.run(role(connection, parts, JournalSource::Registered(access)))
    }
}

/// What votes are made with.
fn git(settings: &Settings, folder: PathBuf) -> Option<Git> {
    let connections = settings.pipelines.as_ref()?.plain_connections();
    Some(Git { connections, caches: Caches::new(folder) })
}

/// What the web server needs, stand-alone and in `menagerie up`.
pub struct Parts {
    pub endpoint: Endpoint,
    pub metrics: Metrics,
    pub deployment: Deployment,
    /// The ZooKeeper servers, for their status.
    pub servers: Vec<String>,
    pub speaks_words: bool,
    pub git: Option<Git>,
    /// The file with the token of the user of `menagerie up`.
    pub own_token: Option<SecretFile>,
}

/// The role of the web server.
pub fn role(connection: Connection, parts: Parts, journals: JournalSource) -> Role {
    Role::with_session(KIND, connection, Map::new(), async move |session, life| {
        let Parts { endpoint, metrics, deployment, servers, speaks_words, git, own_token } = parts;
        let (is_tls, streams_max) =
            (endpoint.tls.is_some(), STREAMS_MAX.min(endpoint.limits.connections / 2));
        let begin = async {
            if let Some(file) = &own_token {
                ensure_own_token(session, file).await?;
            }
            let journals = journals.open(session).await?;
            let (listener, address) = endpoint.open()?;
            let sources = Sources {
                session: session.clone(),
                journals,
                deployment,
                servers,
                speaks_words,
                git,
                builds: builds::Memory::default(),
                history: History::default(),
            };
            let options = Options { sources, address, is_tls, streams_max, metrics };
            let server = Server::new(options, life.stop_signal()).await;
            Ok::<_, CliError>((server.map_err(cannot("follow tokens"))?, listener, address))
        };
        // ZooKeeper may be silent for long.
        let (server, listener, address) = tokio::select! {
            begun = begin => begun?,
            () = life.stopping() => return Ok(()),
        };
        life.ready(Ready::on(address)).await;
        let served = life.drain(DRAIN_MAX, server.serve(listener)).await;
        served.unwrap_or(Ok(())).map_err(CliError::io("serve pages"))
    })
}

/// Makes sure that the file has a valid token, and that no earlier token of this kind is.
async fn ensure_own_token(session: &Session, file: &SecretFile) -> Result<(), CliError> {
    let doing = || cannot("make a token for this user");
    let mut valid = None;
    if let Some(token) = file.read()? {
        let hash = token::Hash::of(&token);
        let stored = token::look_up(session, &hash).await.map_err(doing())?;
        valid = stored.filter(|stored| stored.rights == Rights::ALL).map(|_| hash.id());
    }
    if valid.is_none() {
        let name = Name::new(OWN_TOKEN).expect("it is a name");
        let made = token::create(session, &name, Rights::ALL, OWN_TOKEN_BY).await;
        let (token, id) = made.map_err(doing())?;
        file.write(&token)?;
        valid = Some(id);
    }
    let others = token::list(session).await.map_err(doing())?;
    for other in others.iter().filter(|other| other.by == OWN_TOKEN_BY && other.name == OWN_TOKEN) {
        if let Ok(id) = Name::new(other.id.clone())
            && valid.as_ref() != Some(&id)
        {
            token::revoke(session, &id).await.map_err(doing())?;
        }
    }
    Ok(())
}
