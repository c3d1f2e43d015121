//! `menagerie journal`: serves until it is stopped.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use menagerie_journal::server::{Failure, Listen, TlsFiles, admin};
use menagerie_journal::{Config, Metrics, Server, Store};
use menagerie_journal_directory::register::{self, Registrant, Standing};
use menagerie_kernel::local_secret;
use menagerie_kernel::session::Rights::Owner;
use menagerie_types::Explain as _;
use menagerie_znodes::Name;
use prometheus_client::registry::Registry;
use tokio::sync::{OnceCell, watch};
use tokio::time::timeout;
use tracing::warn;

use super::registration::{OnTaken, Registration};
use super::target::{ADDRESS_FILE, TLS};
use crate::client::{self, ClientArgs, Connection};
use crate::commands::data::DataArgs;
use crate::exit::CliError;
use crate::files::{Port, Shares};
use crate::host::full_name;
use crate::ports;
use crate::role::host::Signals;
use crate::role::{Host, Ready, Role, wait_on_thread};
use crate::who::this_host;

const KIND: &str = "journal";

/// Longest wait to learn whether another journal holds our name; if ZooKeeper does not answer in time, we serve and
/// wait in the background.
const VERDICT_MAX: Duration = Duration::from_secs(4);

/// Own files: segments being read and written, log, snapshots.
pub const PORT: Port = Port { kind: KIND, own_files: 320, weight: 2 };

/// How the journal is to run.
#[derive(Debug, Args)]
pub struct Serve {
    /// Address to listen on; port 0 picks a free one.
    #[arg(long, value_name = "HOST:PORT", value_parser = ports::address, default_value = "127.0.0.1:2188", env = "MENAGERIE_JOURNAL_LISTEN")]
    listen: SocketAddr,
    #[command(flatten)]
    data: DataArgs,
    #[command(flatten)]
    client: ClientArgs,
    /// Refuse appends when the journal uses this many bytes of the disk.
    #[arg(long, value_name = "BYTES")]
    quota: Option<u64>,
    /// Refuse appends when the disk has less than this many bytes left.
    #[arg(long, value_name = "BYTES", default_value_t = 64 << 20)]
    reserve: u64,
    /// Maximum size of a message, in bytes.
    #[arg(long, value_name = "BYTES", default_value_t = 16 << 20, value_parser = clap::value_parser!(u32).range(1..=1 << 30))]
    message_max: u32,
    /// Server certificate chain, PEM; accept TLS only.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Server private key, PEM.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Name by which queues refer to this journal: unique in the fleet, and permanent.
    #[arg(long, value_name = "NAME", default_value = register::NAME, env = "MENAGERIE_JOURNAL_NAME")]
    name: Name,
    /// Address that clients use to reach this journal [default: the --listen address; if that is a wildcard, this
    /// host's full name].
    #[arg(long, value_name = "HOST:PORT", value_parser = reachable)]
    advertise: Option<String>,
    /// Do not register in ZooKeeper.
    #[arg(long)]
    unregistered: bool,
    /// Serve /metrics and /healthz on this address.
    #[arg(long, value_name = "HOST:PORT", value_parser = ports::address)]
    metrics: Option<SocketAddr>,
    /// Allow unencrypted connections from other machines.
    #[arg(long)]
    insecure: bool,
}

/// Parses an address whose host may be a name.
fn reachable(text: &str) -> Result<String, String> {
    match text.rsplit_once(':') {
        Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0) => {
            Ok(text.to_owned())
        }
        _ => Err(format!("{text:?} is no address: write HOST:PORT")),
    }
}

/// The address to advertise for this listener; a wildcard address becomes this host's name.
fn reached_at(address: SocketAddr) -> String {
    if address.ip().is_unspecified() {
        format!("{}:{}", full_name(), address.port())
    } else {
        address.to_string()
    }
}

/// A running journal.
pub struct Running {
    /// For clients in this process.
    pub store: Store,
    /// For all other clients.
    pub server: Server,
    address_file: PathBuf,
}

impl Running {
    /// Opens the data and listens. If the port is taken, the error names its owner and the flag that changes it.
    pub fn start(
        config: Config,
        listen: &Listen,
        registry: &mut Registry,
        flag: &'static str,
    ) -> Result<Self, CliError> {
        let address_file = config.data.join(ADDRESS_FILE);
        let store = Store::open(config, Metrics::new(registry)).map_err(Failure::from)?;
        let server = Server::start(store.clone(), listen).map_err(|failure| match failure {
            Failure::Listen { address, source } if source.kind() == std::io::ErrorKind::AddrInUse => {
                CliError::Taken { address, owner: ports::owner(address), flag }
            }
            other => other.into(),
        })?;
        admin::serve(store.clone()).map_err(CliError::io("open the administration socket"))?;
        let tls = if listen.tls.is_some() { format!("{TLS}\n") } else { String::new() };
        fs::write(&address_file, format!("{}\n{tls}", server.address()))
            .map_err(CliError::io(format!("write {}", address_file.display())))?;
        // Without it, clients must be given the token file.
        if let Err(error) = tell_token(&store, &server) {
            warn!(%error, "programs of this user are not told the token");
        }
        Ok(Self { store, server, address_file })
    }

    /// Waits until the store is closed or has failed.
    pub fn wait(self) -> Result<(), CliError> {
        let ended = self.store.wait();
        let _ = fs::remove_file(&self.address_file);
        self.server.stop();
        ended.map_err(|error| Failure::from(error).into())
    }
}

/// Gives the token to programs of the same user on this machine that ask for it: they need no copy of its file.
fn tell_token(store: &Store, server: &Server) -> std::io::Result<()> {
    let text = fs::read_to_string(server.token_file())?;
    let token = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    local_secret::serve(&local_secret::Owner::journal(&store.identity().folder.to_string()), token.to_owned())
}

impl Serve {
    /// Serves until it is stopped.
    pub fn run(self) -> Result<(), CliError> {
        let files = match (self.tls_cert, self.tls_key) {
            (Some(cert), Some(key)) => Some(TlsFiles { cert, key }),
            _ => None,
        };
        let tls = files.is_some();
        if !tls {
            ports::require_loopback(
                self.listen,
                self.insecure,
                "--listen",
                Some("give --tls-cert and --tls-key"),
            )?;
        }
        let mut host = Host::new(self.metrics, self.insecure, Signals::Host)?;
        let config = Config {
            quota_bytes: self.quota,
            reserve_bytes: self.reserve,
            message_bytes_max: self.message_max,
            ..Config::new(self.data.journal()?)
        };
        let settings = self.client.settings()?;
        let connections_max = Some(Shares::of(&[PORT]).connections(PORT));
        let listen = Listen { address: self.listen, tls: files, connections_max };
        let running = Running::start(config, &listen, &mut host.registry, "--listen")?;
        let registration = if self.unregistered {
            None
        } else {
            let address = self.advertise.unwrap_or_else(|| reached_at(running.server.address()));
            let journal = Registrant::new(&running.store, &self.name, this_host(), address, tls)
                .map_err(Failure::from)?;
            let connection = Connection::within(&settings, Owner)?;
            Some(Registration { connection, journal, on_taken: OnTaken::Stop })
        };
        host.run(role(running, registration))
    }
}

/// The role of a started journal. It serves without ZooKeeper, too, and registers as soon as it can.
pub fn role(running: Running, registration: Option<Registration>) -> Role {
    Role::new(KIND, async move |life| {
        let (store, ready) = (running.store.clone(), Ready::on(running.server.address()));
        let mut waiting = wait_on_thread(move || running.wait())?;
        let sessions = OnceCell::new();
        let (standing, mut decided) = watch::channel(Standing::Undecided);
        let registering = async {
            match &registration {
                Some(registration) => registration.keep(life, &sessions, &standing).await,
                None => std::future::pending().await,
            }
        };
        let serving = async {
            if registration.is_some() {
                let verdict = decided.wait_for(|standing| *standing != Standing::Undecided);
                tokio::select! {
                    // If ZooKeeper does not answer in time, begin without its verdict.
                    _ = timeout(VERDICT_MAX, verdict) => {}
                    () = life.stopping() => return,
                }
            }
            life.ready(ready).await;
            life.stopping().await;
            life.draining().await;
        };
        let mut has_ended = None;
        let served = tokio::select! {
            refusal = registering => Err(CliError::Refused { what: refusal.to_string(), help: refusal.help().into() }),
            ended = &mut waiting => {
                has_ended = Some(ended);
                Ok(())
            }
            () = serving => Ok(()),
        };
        store.stop();
        let ended = match has_ended {
            Some(ended) => ended,
            None => waiting.await,
        };
        life.leave().await;
        if let Some(session) = sessions.into_inner() {
            client::close(session).await;
        }
        served.and(ended.expect("the thread sends before it ends"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_listens_everywhere_is_reached_by_the_name_of_its_host() {
        assert_eq!(reached_at("127.0.0.1:2188".parse().unwrap()), "127.0.0.1:2188");
        for everywhere in ["0.0.0.0:2188", "[::]:2188"] {
            let shown = reached_at(everywhere.parse().unwrap());
            assert!(
                shown.ends_with(":2188") && !shown.contains("0.0.0.0") && !shown.contains('['),
                "{shown}"
            );
        }
    }
}
