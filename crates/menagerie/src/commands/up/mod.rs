//! `menagerie up`: everything on this machine, in one process.
//!
//! - this file: the list of roles. `secret.rs` and `access.rs`: who may use the namespace. `addresses.rs`: what
//!   listens where. `demo/`: `--demo`.

mod access;
mod addresses;
mod demo;
mod secret;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use menagerie_journal::server::Failure;
use menagerie_journal_directory::register::{self, Registrant};
use menagerie_keeper::{Config, Keeper};
use menagerie_kernel::local_secret::{self, Owner};
use menagerie_kernel::session::Auth;
use menagerie_queue_http::metrics::Metrics;
use menagerie_queue_http::server::BODY_BYTES_MAX;
use menagerie_queue_http::service::Options;
use menagerie_queues::Journals;
use menagerie_znodes::Name;
use prometheus_client::registry::Registry;
use tracing::warn;

use self::addresses::{ADDRESSES, Addresses};
use self::demo::Demo;
use super::data::DataArgs;
use super::journal::serve::{self as journal, Running};
use super::journal::{OnTaken, Registration};
use super::keeper::{serve as keeper, words};
use super::queue::serve::{self as queue, Parts};
use super::slots::fleetlock;
use super::slots::serve::{self as slots, Waiting};
use crate::allow::{everybody, this_machine};
use crate::client::Connection;
use crate::config::{Origin, Secret};
use crate::exit::CliError;
use crate::files::Shares;
use crate::listener::{Endpoint, Limits};
use crate::logging::LogProfile;
use crate::role::host::{Signals, print};
use crate::role::{Host, Role};
use crate::who::this_host;
use crate::{client, config, ports};

/// Namespace of the engines on our own keeper.
const NAMESPACE: &str = "/menagerie";

/// Run all servers on this machine in one process: so far the keeper, the journal, queues over HTTP, and FleetLock for
/// slots.
#[derive(Debug, Args)]
pub struct Up {
    #[command(flatten)]
    data: DataArgs,
    /// Run a demo: hosts queue for slots, workers share a queue. Data goes to a temporary folder unless --data (or
    /// MENAGERIE_DATA) names one.
    #[arg(long)]
    demo: bool,
    /// Address on which the keeper listens; port 0 picks a free one.
    #[arg(long, value_name = "HOST:PORT", value_parser = ports::address, default_value = "127.0.0.1:2181", env = "MENAGERIE_KEEPER_LISTEN")]
    keeper_listen: SocketAddr,
    /// Four-letter words the keeper answers besides srvr, ruok, isro, mntr, stat, conf and envi; `*` for all. Some show
    /// paths and sessions to anybody, regardless of access lists.
    #[arg(long, value_name = "WORD,…", value_delimiter = ',', value_parser = words::known, env = "MENAGERIE_KEEPER_WORDS")]
    keeper_words: Vec<String>,
    /// Address on which the journal listens; port 0 picks a free one.
    #[arg(long, value_name = "HOST:PORT", value_parser = ports::address, default_value = "127.0.0.1:2188", env = "MENAGERIE_JOURNAL_LISTEN")]
    journal_listen: SocketAddr,
    /// Address on which FleetLock serves this machine; port 0 picks a free one. For other machines, run `menagerie
    /// slots serve`.
    #[arg(long, value_name = "HOST:PORT", value_parser = ports::address, default_value = "127.0.0.1:3333", env = "MENAGERIE_SLOTS_LISTEN")]
    slots_listen: SocketAddr,
    /// Address on which queues over HTTP serve this machine; port 0 picks a free one. For other machines, run
    /// `menagerie queue serve`.
    #[arg(long, value_name = "HOST:PORT", value_parser = ports::address, default_value = "127.0.0.1:5000", env = "MENAGERIE_QUEUE_LISTEN")]
    queue_listen: SocketAddr,
    /// Configuration file: the applications that may use queues over HTTP [env: MENAGERIE_CONFIG].
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Serve /metrics and /healthz on this address.
    #[arg(long, value_name = "HOST:PORT", value_parser = ports::address)]
    metrics: Option<SocketAddr>,
    /// Allow unencrypted connections from other machines.
    #[arg(long)]
    insecure: bool,
    /// Let anybody who can reach the keeper use the namespace. Without it, only commands of this user and clients that
    /// know the secret in DATA/zookeeper.auth can.
    #[arg(long)]
    open: bool,
}

/// `menagerie up` serves one machine and speaks no TLS.
const TLS: &str = "run `menagerie keeper` with --tls-listen and certificates";
/// The same for the journal.
const JOURNAL_TLS: &str = "run `menagerie journal` with certificates";

/// How roles and demo reach the keeper in this process.
#[derive(Debug, Clone)]
pub struct Local {
    keeper: SocketAddr,
    /// `None`: the namespace is open to everybody.
    secret: Option<Secret>,
}

impl Local {
    /// Settings of a session in the namespace, with owner's rights.
    fn config(&self) -> menagerie_kernel::Config {
        let mut config = menagerie_kernel::Config::new(self.keeper.to_string(), NAMESPACE);
        config.auth = self.secret.clone().map(|Secret(digest)| Auth { digest });
        config
    }

    /// The same, for a role.
    fn connection(&self) -> Connection {
        Connection { config: self.config(), origin: Origin::Flag("--keeper-listen") }
    }

    /// Our user as access lists name it.
    fn digest(&self) -> Option<String> {
        self.secret.as_ref().map(|Secret(secret)| menagerie_keeper::digest(secret))
    }
}

/// All roles in the order of their start: each needs those before it.
struct Plan {
    /// Each with a line on what it is for.
    roles: Vec<(Role, &'static str)>,
    local: Local,
    /// For the demo's workers, which are clients like any other.
    token_file: PathBuf,
}

impl Up {
    pub fn log_profile(&self) -> LogProfile {
        if self.demo { LogProfile::Demo } else { LogProfile::Server }
    }

    /// Starts everything, prints the addresses and waits for a signal.
    pub fn run(mut self) -> Result<(), CliError> {
        self.refuse_strangers()?;
        // Kept until the end: dropping it removes the folder.
        let _temporary = self.make_temporary()?;
        let root = self.data.root()?;
        let mut host = Host::new(self.metrics, self.insecure, Signals::Host)?;
        let served = self.serve(&root, &mut host);
        host.end(served)
    }

    /// Starts one role after the other, each when those that it needs serve, and waits. The host stops them in
    /// reverse: every other role closes its session before the keeper ends.
    fn serve(&self, root: &Path, host: &mut Host) -> Result<(), CliError> {
        let Plan { roles, local, token_file } = self.plan(root, &mut host.registry)?;
        let mut addresses = Addresses::default();
        for (role, about) in roles {
            let kind = role.kind();
            let Some(ready) = host.start(role)? else { return Ok(()) };
            addresses.add(kind, ready, about);
        }
        addresses.metrics = host.metrics_address();
        let written = addresses.write(root);
        // Removed when everything stops.
        let _file = written.map_err(CliError::io(format!("write {}", root.join(ADDRESSES).display())))?;
        print(addresses.text(root, self.open));
        host.announce()?;
        let demo = self.demo.then(|| Demo::start(&local, &token_file)).transpose()?;
        if host.wait() {
            demo.into_iter().for_each(Demo::stop);
        }
        Ok(())
    }

    /// Checks options, binds sockets and opens the data of all roles.
    fn plan(&self, root: &Path, registry: &mut Registry) -> Result<Plan, CliError> {
        let shares = Shares::of(&[keeper::PORT, journal::PORT, slots::PORT, queue::PORT]);
        let endpoint = |address, flag, allow, limits: Limits, port| {
            let limits = limits.at_most(shares.connections(port));
            ports::bind(address, flag).map(|socket| Endpoint { socket, tls: None, allow, limits })
        };
        let slots_door =
            endpoint(self.slots_listen, "--slots-listen", this_machine(), fleetlock::LIMITS, slots::PORT)?;
        let queue_door =
            endpoint(self.queue_listen, "--queue-listen", everybody(), queue::LIMITS, queue::PORT)?;
        let options = self.queue_options()?;
        let (keeper, local) = self.start_keeper(root, &shares, registry)?;
        let journal = self.start_journal(&shares, registry)?;
        let token_file = journal.server.token_file().to_owned();
        // The journal is in this process: use its store directly, without a socket.
        let store = journal.store.clone();
        let journals = Journals::from([(register::NAME.to_owned(), Arc::new(store) as _)]);
        let name = Name::new(register::NAME).expect("it is a name");
        let registrant =
            Registrant::new(&journal.store, &name, this_host(), journal.server.address().to_string(), false)
                .map_err(Failure::from)?;
        let registration =
            Registration { connection: local.connection(), journal: registrant, on_taken: OnTaken::Serve };
        let metrics = Metrics::new(registry);
        let parts = Parts {
            endpoint: queue_door,
            metrics,
            access_log: None,
            body_bytes_max: BODY_BYTES_MAX,
            options,
        };
        let slots_metrics = slots::Metrics::new(registry);
        let roles = vec![
            (keeper::role(keeper, Some(local.connection())), "any ZooKeeper client: zkCli, kazoo, Curator"),
            (journal::role(journal, Some(registration)), "messages of queues and flows"),
            (
                queue::role(local.connection(), parts, async move |_: &_| Ok(journals)),
                "queues over HTTP: curl http://ADDRESS/v1/…",
            ),
            (
                slots::role(local.connection(), slots_door, slots_metrics, Waiting::default()),
                "FleetLock, for hosts that ask before they reboot",
            ),
        ];
        Ok(Plan { roles, local, token_file })
    }

    /// Starts the keeper, and sets the namespace's access list before any role of ours connects.
    fn start_keeper(
        &self,
        root: &Path,
        shares: &Shares,
        registry: &mut Registry,
    ) -> Result<(Keeper, Local), CliError> {
        let folder = self.data.keeper()?;
        let fresh = !folder.exists();
        let secret = if self.open { None } else { Some(secret::load_or_draw(root)?) };
        let superuser = secret::random("super")?;
        let mut config = Config::new(folder, self.keeper_listen);
        config.words = words::allowed(&self.keeper_words);
        config.connections_max = shares.connections(keeper::PORT);
        config.superuser_digest = Some(menagerie_keeper::digest(&superuser.0));
        let keeper = keeper::start(config, registry, "--keeper-listen")?;
        let local = Local { keeper: keeper.address(), secret };
        client::block_on(access::establish(&local, Auth { digest: superuser.0 }, fresh))?;
        if let Some(Secret(secret)) = local.secret.clone()
            && let Err(error) = local_secret::serve(&Owner::keeper(keeper.address()), secret)
        {
            let file = secret::path(root);
            warn!(%error, "commands of this user need MENAGERIE_ZOOKEEPER_AUTH_FILE={}", file.display());
        }
        Ok((keeper, local))
    }

    fn start_journal(&self, shares: &Shares, registry: &mut Registry) -> Result<Running, CliError> {
        let listen = menagerie_journal::server::Listen {
            address: self.journal_listen,
            tls: None,
            connections_max: Some(shares.connections(journal::PORT)),
        };
        let config = menagerie_journal::Config::new(self.data.journal()?);
        Running::start(config, &listen, registry, "--journal-listen")
    }

    /// Refuses options that would let other machines in by accident.
    fn refuse_strangers(&self) -> Result<(), CliError> {
        ports::require_loopback(self.keeper_listen, self.insecure, "--keeper-listen", Some(TLS))?;
        ports::require_loopback(self.journal_listen, self.insecure, "--journal-listen", Some(JOURNAL_TLS))?;
        if !self.slots_listen.ip().is_loopback() {
            return Err(CliError::Usage {
                what: format!("--slots-listen {} would let other machines in", self.slots_listen),
                help: "for them run `menagerie slots serve` with TLS and --allow".to_owned(),
            });
        }
        if !self.queue_listen.ip().is_loopback() {
            return Err(CliError::Usage {
                what: format!("--queue-listen {} would let other machines in", self.queue_listen),
                help: "for them run `menagerie queue serve` with TLS".to_owned(),
            });
        }
        if let Some(address) = self.metrics {
            ports::require_loopback(address, self.insecure, "--metrics", None)?;
        }
        Ok(())
    }

    /// A demo uses a temporary folder unless --data is given.
    fn make_temporary(&mut self) -> Result<Option<tempfile::TempDir>, CliError> {
        if !self.demo || self.data.data.is_some() {
            return Ok(None);
        }
        let folder = tempfile::tempdir().map_err(CliError::io("make a temporary folder"))?;
        self.data.data = Some(folder.path().to_owned());
        Ok(Some(folder))
    }

    /// The configuration's applications, for queues over HTTP.
    fn queue_options(&self) -> Result<Options, CliError> {
        let inputs = config::gather::gather(None, None, self.config.clone())?;
        let applications = queue::applications(&config::resolve(&inputs)?);
        Ok(Options { journal: Some(register::NAME.to_owned()), applications, ..Options::default() })
    }
}
