//! `menagerie up`: everything on this machine, in one process.
//!
//! - `secret.rs` and `access.rs`: who may use the namespace. `beside.rs`: a server of ours with a session of its own; `queue.rs`,
//!   `slots.rs`: those there are. `demo/`: `--demo`.

mod access;
mod beside;
mod demo;
mod queue;
mod secret;
mod slots;

use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use clap::Args;
use menagerie_journal::server::Failure;
use menagerie_keeper::{Config, Keeper};
use menagerie_kernel::local_secret::{self, Owner};
use menagerie_kernel::session::Auth;
use menagerie_queues::http::service::Options;
use menagerie_znodes::Name;
use prometheus_client::registry::Registry;
use serde::Serialize;
use tracing::warn;

use self::demo::Demo;
use super::data::DataArgs;
use super::journal::Refusal;
use super::journal::register::{self, Entry, Registration};
use super::journal::serve::Running;
use super::keeper::{serve, words};
use super::queue::serve as queue_serve;
use super::slots::fleetlock;
use crate::config::Secret;
use crate::exit::CliError;
use crate::files::{Port, Shares};
use crate::logging::Talk;
use crate::observe::Observer;
use crate::{client, config, ports, signals};

/// Where engines live on a keeper of our own.
const NAMESPACE: &str = "/menagerie";

/// Run everything on this machine in one process: so far, the keeper, the journal, queues over HTTP
/// and FleetLock for slots.
#[derive(Debug, Args)]
pub struct Up {
    #[command(flatten)]
    data: DataArgs,
    /// Try it out: hosts queue for slots, workers share a queue, in a temporary folder, unless --data (or MENAGERIE_DATA) names one.
    #[arg(long)]
    demo: bool,
    /// Where the keeper takes connections; port 0 picks a free one.
    #[arg(long, value_name = "HOST:PORT", value_parser = ports::address, default_value = "127.0.0.1:2181", env = "MENAGERIE_KEEPER_LISTEN")]
    keeper_listen: SocketAddr,
    /// Have the keeper answer more four-letter words than srvr, ruok, isro, mntr, stat, conf and envi; `*` for all. Some show
    /// paths and sessions to everybody, whatever access lists say.
    #[arg(long, value_name = "WORD,…", value_delimiter = ',', value_parser = words::known, env = "MENAGERIE_KEEPER_WORDS")]
    keeper_words: Vec<String>,
    /// Where the journal takes connections; port 0 picks a free one.
    #[arg(long, value_name = "HOST:PORT", value_parser = ports::address, default_value = "127.0.0.1:2188", env = "MENAGERIE_JOURNAL_LISTEN")]
    journal_listen: SocketAddr,
    /// Where FleetLock takes requests of this machine; port 0 picks a free one. For other machines there is
    /// `menagerie slots serve`.
    #[arg(long, value_name = "HOST:PORT", value_parser = ports::address, default_value = "127.0.0.1:3333", env = "MENAGERIE_SLOTS_LISTEN")]
    slots_listen: SocketAddr,
    /// Where queues take HTTP requests of this machine; port 0 picks a free one. For other machines there is
    /// `menagerie queue serve`.
    #[arg(long, value_name = "HOST:PORT", value_parser = ports::address, default_value = "127.0.0.1:5000", env = "MENAGERIE_QUEUE_LISTEN")]
    queue_listen: SocketAddr,
    /// The configuration, for the applications that may use queues [env: MENAGERIE_CONFIG].
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Serve /metrics and /healthz there.
    #[arg(long, value_name = "HOST:PORT", value_parser = ports::address)]
    metrics: Option<SocketAddr>,
    /// Allow plain connections from other machines.
    #[arg(long)]
    insecure: bool,
    /// Let everybody who reaches the keeper use our namespace. Without it, only commands of this user, and clients that
    /// know the secret in DATA/zookeeper.auth.
    #[arg(long)]
    open: bool,
}

/// What runs all on one machine speaks no TLS.
const TLS: &str = "run `menagerie keeper` with --tls-listen and certificates";
/// The same for the journal.
const JOURNAL_TLS: &str = "run `menagerie journal` with certificates";

/// How what runs here reaches its keeper.
#[derive(Debug, Clone)]
pub struct Local {
    keeper: SocketAddr,
    /// `None`: the namespace is everybody's.
    secret: Option<Secret>,
}

impl Local {
    /// A session in the namespace, as an owner.
    fn config(&self) -> menagerie_kernel::Config {
        let mut config = menagerie_kernel::Config::new(self.keeper.to_string(), NAMESPACE);
        config.auth = self.secret.clone().map(|Secret(digest)| Auth { digest });
        config
    }

    /// Our user as access lists name it.
    fn digest(&self) -> Option<String> {
        self.secret.as_ref().map(|Secret(secret)| menagerie_keeper::digest(secret))
    }
}

/// Ports that are ours, before anything else starts.
struct Sockets {
    observer: Option<Observer>,
    metrics_address: Option<SocketAddr>,
    slots: TcpListener,
    slots_address: SocketAddr,
    queue: TcpListener,
    queue_address: SocketAddr,
}

/// What runs where; also the content of `addresses.json`, by which commands on this machine find it.
#[derive(Debug, Serialize)]
struct Addresses {
    pid: u32,
    keeper: SocketAddr,
    journal: SocketAddr,
    queue: SocketAddr,
    slots: SocketAddr,
    #[serde(skip_serializing_if = "Option::is_none")]
    metrics: Option<SocketAddr>,
}

impl Up {
    /// What is logged unless the user says otherwise.
    pub fn talk(&self) -> Talk {
        if self.demo { Talk::Demo } else { Talk::Server }
    }

    /// Starts everything, says where it is, and waits for a signal.
    pub fn run(mut self) -> Result<(), CliError> {
        self.refuse_strangers()?;
        // Kept until the end: dropping it removes the folder.
        let _temporary = self.make_temporary()?;
        let root = self.data.root()?;
        let sockets = self.bind()?;
        let options = self.options()?;
        let stop = signals::Stop::install()?;
        let shares = Shares::of(&[Port::Keeper, Port::Journal, Port::Queue, Port::Slots]);
        let mut registry = Registry::default();
        let (keeper, local) = self.start_keeper(&root, &shares, &mut registry)?;
        let journal = self.start_journal(&shares, &mut registry)?;
        let refused = Refused::default();
        let registration = register(&local, &journal, refused.clone())?;
        refused.check()?;
        let limits = fleetlock::LIMITS.at_most(shares.connections(Port::Slots));
        let slots = slots::start(sockets.slots, &local, limits, &mut registry)?;
        let limits = queue_serve::LIMITS.at_most(shares.connections(Port::Queue));
        let queue =
            queue::start(sockets.queue, &local, journal.store.clone(), options, limits, &mut registry)?;
        if let Some(observer) = sockets.observer {
            observer.serve(registry)?;
        }
        let addresses = Addresses {
            pid: std::process::id(),
            keeper: keeper.address(),
            journal: journal.server.address(),
            queue: sockets.queue_address,
            slots: sockets.slots_address,
            metrics: sockets.metrics_address,
        };
        write_addresses(&root, &addresses)
            .map_err(CliError::io(format!("write {}", root.join("addresses.json").display())))?;
        addresses.print(&root, self.open);
        let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
        let demo = || Demo::start(&local, journal.server.token_file());
        let demo = self.demo.then(demo).transpose()?;
        // The keeper last: the others take leave of it.
        let (stopper, store) = (keeper.stopper(), journal.store.clone());
        stop.then(move || {
            demo.into_iter().for_each(Demo::stop);
            queue.stop();
            slots.stop();
            drop(registration);
            store.stop();
            stopper.stop();
        });
        let ended = wait_for_both(keeper, journal);
        let _ = fs::remove_file(root.join("addresses.json"));
        ended.and(refused.check())
    }

    /// Takes the addresses of what is started last, before anything is.
    fn bind(&self) -> Result<Sockets, CliError> {
        let address =
            |socket: &TcpListener| socket.local_addr().map_err(CliError::io("look at the listener"));
        let observer = self.metrics.map(Observer::bind).transpose()?;
        let slots = ports::bind(self.slots_listen, "--slots-listen")?;
        let queue = ports::bind(self.queue_listen, "--queue-listen")?;
        Ok(Sockets {
            metrics_address: observer.as_ref().map(Observer::address),
            slots_address: address(&slots)?,
            queue_address: address(&queue)?,
            observer,
            slots,
            queue,
        })
    }

    /// Starts the keeper, and sees to who may use the namespace before anybody of ours does.
    fn start_keeper(
        &self,
        root: &Path,
        shares: &Shares,
        registry: &mut Registry,
    ) -> Result<(Keeper, Local), CliError> {
        let folder = self.data.keeper()?;
        let fresh = !folder.exists();
        let secret = if self.open { None } else { Some(secret::of(root)?) };
        let superuser = secret::random("super")?;
        let mut config = Config::new(folder, self.keeper_listen);
        config.words = words::allowed(&self.keeper_words);
        config.connections_max = shares.connections(Port::Keeper);
        config.superuser_digest = Some(menagerie_keeper::digest(&superuser.0));
        let keeper = serve::start(config, registry, "--keeper-listen")?;
        let local = Local { keeper: keeper.address(), secret };
        client::block_on(access::establish(&local, Auth { digest: superuser.0 }, fresh))?;
        if let Some(Secret(secret)) = local.secret.clone()
            && let Err(error) = local_secret::tell(&Owner::keeper(keeper.address()), secret)
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
            connections_max: Some(shares.connections(Port::Journal)),
        };
        let config = menagerie_journal::Config::new(self.data.journal()?);
        Running::start(config, &listen, registry, "--journal-listen")
    }

    /// Whether nobody is let in from other machines who was not meant.
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

    /// A demo leaves nothing behind, unless it was told where.
    fn make_temporary(&mut self) -> Result<Option<tempfile::TempDir>, CliError> {
        if !self.demo || self.data.data.is_some() {
            return Ok(None);
        }
        let folder = tempfile::tempdir().map_err(CliError::io("make a temporary folder"))?;
        self.data.data = Some(folder.path().to_owned());
        Ok(Some(folder))
    }

    /// Who may use queues over HTTP, as the configuration says.
    fn options(&self) -> Result<Options, CliError> {
        let inputs = config::gather::gather(None, None, self.config.clone())?;
        let applications = queue_serve::applications(&config::resolve(&inputs)?);
        Ok(Options { journal: Some(register::NAME.to_owned()), applications, ..Options::default() })
    }
}

/// Why the journal must not serve, once that is known.
#[derive(Debug, Clone, Default)]
struct Refused(Arc<Mutex<Option<Refusal>>>);

impl Refused {
    fn note(&self, refusal: Refusal) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(refusal);
    }

    fn check(&self) -> Result<(), CliError> {
        let refusal = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        refusal.map_or(Ok(()), |refusal| Err(refusal.into()))
    }
}

/// Says in the keeper where the journal is, as long as the value lives.
fn register(local: &Local, journal: &Running, refused: Refused) -> Result<Registration, CliError> {
    let name = Name::new(register::NAME).expect("it is a name");
    let entry = Entry::new(&journal.store, &name, journal.server.address().to_string(), false)
        .map_err(Failure::from)?;
    let store = journal.store.clone();
    let stop = move |refusal: &Refusal| match refusal {
        // Everything of ours speaks to it directly; whoever looks for it is told of both.
        Refusal::Taken(_) => {
            tracing::error!("another journal is registered here by our name: this one is not");
        }
        Refusal::Copied { .. } => {
            refused.note(refusal.clone());
            store.stop();
        }
    };
    Registration::begin(local.config(), entry, stop).map_err(CliError::io("start a thread"))
}

/// Waits for the end. When one of the two fails, both end: each is told to stop when the other has.
fn wait_for_both(keeper: Keeper, journal: Running) -> Result<(), CliError> {
    let (keeper_stopper, store) = (keeper.stopper(), journal.store.clone());
    let closed = std::thread::spawn(move || {
        let ended = journal.wait();
        keeper_stopper.stop();
        ended
    });
    let ended = keeper.wait();
    store.stop();
    let journal_ended = closed.join().unwrap_or(Ok(()));
    ended.map_err(CliError::from).and(journal_ended)
}

impl Addresses {
    fn print(&self, root: &Path, open: bool) {
        println!("keeper ready on {}", self.keeper);
        println!("journal ready on {}", self.journal);
        println!("queue ready on {}", self.queue);
        println!("slots ready on {}", self.slots);
        println!();
        println!("  keeper    {:<22}any ZooKeeper client: zkCli, kazoo, Curator", self.keeper.to_string());
        println!("  journal   {:<22}messages of queues and flows", self.journal.to_string());
        println!(
            "  queue     {:<22}queues over HTTP: curl http://{}/v1/…",
            self.queue.to_string(),
            self.queue
        );
        println!(
            "  slots     {:<22}FleetLock, for hosts that ask before they reboot",
            self.slots.to_string()
        );
        if let Some(metrics) = self.metrics {
            println!("  metrics   {:<22}/metrics and /healthz", metrics.to_string());
        }
        println!("  data      {}", root.display());
        if open {
            println!("  access    everybody who reaches the keeper");
        } else {
            println!(
                "  access    this user; other clients by the secret in {}",
                secret::path(root).display()
            );
        }
        println!();
        println!("Ctrl-C stops everything.");
    }
}

/// In one step: a reader finds the old file or the new one, never half of one.
fn write_addresses(root: &Path, addresses: &Addresses) -> io::Result<()> {
    let path = root.join("addresses.json");
    let partial = root.join("addresses.json.partial");
    fs::write(&partial, serde_json::to_vec_pretty(addresses)?)?;
    fs::rename(&partial, &path)
}
