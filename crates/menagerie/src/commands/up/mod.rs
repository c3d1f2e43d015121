//! `menagerie up`: everything on this machine, in one process.
//!
//! - this file: the list of roles. `servers.rs`: keeper and journal, which the others need. `pipelines.rs`: the roles of
//!   pipelines, if there are any. `secret.rs` and `access.rs`: who may use the namespace. `addresses.rs`: what listens
//!   where. `dashboard.rs`: the web server, and its user's token. `demo/`: `--demo`.

mod access;
mod addresses;
mod dashboard;
mod demo;
mod pipelines;
mod secret;
pub mod servers;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use menagerie_journal::server::Failure;
use menagerie_journal_directory::register::{self, Registrant};
use menagerie_queue_http::metrics::Metrics;
use menagerie_queue_http::server::BODY_BYTES_MAX;
use menagerie_queue_http::service::Options;
use menagerie_queues::Journals;
use menagerie_znodes::Name;
use menagerie_znodes::flows::Deployment;
use prometheus_client::registry::Registry;

use self::addresses::{ADDRESSES, Addresses};
use self::demo::{Demo, Gate};
use self::servers::{Local, Servers};
use super::data::DataArgs;
use super::flow::JournalSource;
use super::journal::serve::{self as journal};
use super::journal::{OnTaken, Registration};
use super::keeper::{serve as keeper, words};
use super::queue::serve::{self as queue, Parts};
use super::slots::fleetlock;
use super::slots::serve::{self as slots, Waiting};
use super::{coordinator, executor, peer, web};
use crate::allow::{everybody, this_machine};
use crate::config::Settings;
use crate::exit::CliError;
use crate::files::Shares;
use crate::listener::{Endpoint, Limits};
use crate::logging::LogProfile;
use crate::role::host::{Signals, print};
use crate::role::{Host, Role};
use crate::who::this_host;
use crate::{config, ports};

/// Run all servers on this machine in one process: the keeper, the journal, queues over HTTP, FleetLock for slots, the dashboard,
/// coordinator and peers for flows; and scheduler, merger and executor for pipelines if the configuration has [pipelines].
#[derive(Debug, Args)]
pub struct Up {
    #[command(flatten)]
    data: DataArgs,
    /// Run a demo: hosts queue for slots, workers share a queue, peers count words, a gate merges what passes its tests. Data
    /// goes to a temporary folder unless --data (or MENAGERIE_DATA) names one.
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
    /// Address on which the dashboard and REST serve this machine; port 0 picks a free one. For other machines, run
    /// `menagerie web`.
    #[arg(long, value_name = "HOST:PORT", value_parser = ports::address, default_value = "127.0.0.1:8090", env = "MENAGERIE_WEB_LISTEN")]
    web_listen: SocketAddr,
    /// Address on which the executor of pipelines serves logs to this machine; port 0 picks a free one.
    #[arg(long, value_name = "HOST:PORT", value_parser = ports::address, default_value = "127.0.0.1:0", env = "MENAGERIE_EXECUTOR_LISTEN")]
    executor_listen: SocketAddr,
    /// Configuration file: the applications that may use queues over HTTP, and [pipelines] [env: MENAGERIE_CONFIG].
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

/// Virtual peers: a machine has a few processors.
const PEERS: u16 = 4;

/// `menagerie up` serves one machine and speaks no TLS.
const TLS: &str = "run `menagerie keeper` with --tls-listen and certificates";
/// The same for the journal.
const JOURNAL_TLS: &str = "run `menagerie journal` with certificates";

/// All roles in the order of their start: each needs those before it.
struct Plan {
    /// Each with a line on what it is for.
    roles: Vec<(Role, &'static str)>,
    local: Local,
    /// For the demo's workers, which are clients like any other.
    token_file: PathBuf,
    /// The repositories of the demo, if it has any.
    gate: Option<Gate>,
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
        let Plan { roles, local, token_file, gate } = self.plan(root, &mut host.registry)?;
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
        let is_default = DataArgs { data: None }.root().is_ok_and(|default| default == root);
        addresses.token = dashboard::token_file(root).read()?;
        print(addresses.text(root, is_default, self.open));
        host.announce()?;
        let demo = self.demo.then(|| Demo::start(&local, &token_file, root, gate)).transpose()?;
        if host.wait() {
            demo.into_iter().for_each(Demo::stop);
        }
        Ok(())
    }

    /// Checks options, binds sockets and opens the data of all roles.
    fn plan(&self, root: &Path, registry: &mut Registry) -> Result<Plan, CliError> {
        let shares =
            Shares::of(&[keeper::PORT, journal::PORT, slots::PORT, queue::PORT, executor::PORT, web::PORT]);
        let endpoint = |address, flag, allow, limits: Limits, port| {
            let limits = limits.at_most(shares.connections(port));
            ports::bind(address, flag).map(|socket| Endpoint { socket, tls: None, allow, limits })
        };
        let slots_door =
            endpoint(self.slots_listen, "--slots-listen", this_machine(), fleetlock::LIMITS, slots::PORT)?;
        let queue_door =
            endpoint(self.queue_listen, "--queue-listen", everybody(), queue::LIMITS, queue::PORT)?;
        let web_door = endpoint(self.web_listen, "--web-listen", this_machine(), web::LIMITS, web::PORT)?;
        let config = self.settings()?;
        let gate = self.demo_gate(root, &config)?;
        let pipelines = match &gate {
            Some(gate) => Some(gate.settings()),
            None => config.pipelines.clone(),
        };
        let servers = Servers {
            data: &self.data,
            keeper_listen: self.keeper_listen,
            keeper_words: &self.keeper_words,
            journal_listen: self.journal_listen,
            is_open: self.open,
        };
        let (keeper, local) = servers.start_keeper(root, &shares, registry)?;
        let journal = servers.start_journal(&shares, registry)?;
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
        let parts = queue_parts(queue_door, &config, registry);
        let slots_metrics = slots::Metrics::new(registry);
        let in_process = || JournalSource::InProcess(journals.clone());
        let mut roles = vec![
            (keeper::role(keeper, Some(local.connection())), "any ZooKeeper client: zkCli, kazoo, Curator"),
            (journal::role(journal, Some(registration)), "messages of queues and flows"),
            (
                queue::role(local.connection(), parts, {
                    let journals = journals.clone();
                    async move |_: &_| Ok(journals)
                }),
                "queues over HTTP: curl http://ADDRESS/v1/…",
            ),
            (
                slots::role(local.connection(), slots_door, slots_metrics, Waiting::default()),
                "FleetLock, for hosts that ask before they reboot",
            ),
        ];
        roles.extend(flow_roles(&local, &in_process));
        let dashboard = dashboard::parts(root, &local, web_door, deployment(), pipelines.as_ref(), registry);
        if let Some(pipelines) = pipelines {
            let limits = executor::logs::LIMITS;
            let logs =
                endpoint(self.executor_listen, "--executor-listen", this_machine(), limits, executor::PORT)?;
            roles.extend(pipelines::roles(&local, in_process(), &pipelines, root, logs)?);
        }
        let dashboard = web::role(local.connection(), dashboard, in_process());
        roles.push((dashboard, "dashboard and REST: http://ADDRESS/"));
        Ok(Plan { roles, local, token_file, gate })
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
        if !self.web_listen.ip().is_loopback() {
            return Err(CliError::Usage {
                what: format!("--web-listen {} would let other machines in", self.web_listen),
                help: "for them run `menagerie web` with TLS".to_owned(),
            });
        }
        if !self.executor_listen.ip().is_loopback() {
            return Err(CliError::Usage {
                what: format!("--executor-listen {} would let other machines in", self.executor_listen),
                help: "for them run `menagerie executor`".to_owned(),
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

    /// The configuration: applications for queues over HTTP, and pipelines.
    fn settings(&self) -> Result<Settings, CliError> {
        let inputs = config::gather::gather(None, None, self.config.clone())?;
        Ok(config::resolve(&inputs)?)
    }

    /// A demo without pipelines of the user's own makes some.
    fn demo_gate(&self, root: &Path, config: &Settings) -> Result<Option<Gate>, CliError> {
        match self.demo && config.pipelines.is_none() {
            true => Gate::make(root),
            false => Ok(None),
        }
    }
}

/// The deployment of flows on this machine.
fn deployment() -> Deployment {
    Deployment::new(Name::new("default").expect("it is a name"))
}

fn flow_roles(local: &Local, journals: &dyn Fn() -> JournalSource) -> [(Role, &'static str); 2] {
    [
        (coordinator::role(local.connection(), journals(), deployment()), "hands out the tasks of flows"),
        (peer::role(local.connection(), journals(), deployment(), PEERS), "run them: four virtual peers"),
    ]
}

/// Queues over HTTP, with the journal of this process.
fn queue_parts(endpoint: Endpoint, config: &Settings, registry: &mut Registry) -> Parts {
    let options = Options {
        journal: Some(register::NAME.to_owned()),
        applications: queue::applications(config),
        receive: queue::receive_options(config, registry),
        ..Options::default()
    };
    let metrics = Metrics::new(registry);
    Parts { endpoint, metrics, access_log: None, body_bytes_max: BODY_BYTES_MAX, options }
}
