//! `menagerie up`: everything on this machine, in one process.

mod beside;
mod demo;
mod queue;
mod slots;

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::Args;
use menagerie_keeper::Config;
use menagerie_queues::http::service::Options;
use menagerie_znodes::Name;
use prometheus_client::registry::Registry;
use serde::Serialize;

use self::demo::Demo;
use super::data::DataArgs;
use super::journal::register::{self, Entry, Registration};
use super::journal::serve::Running;
use super::keeper::{serve, words};
use super::queue::serve as queue_serve;
use crate::exit::CliError;
use crate::logging::Talk;
use crate::observe::Observer;
use crate::{config, ports, signals};

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
    /// Have the keeper answer more four-letter words than srvr, ruok, isro, mntr, stat and conf; `*` for all. Some show
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
}

/// What runs all on one machine speaks no TLS.
const TLS: &str = "run `menagerie keeper` with --tls-listen and certificates";
/// The same for the journal.
const JOURNAL_TLS: &str = "run `menagerie journal` with certificates";

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
        let observer = self.metrics.map(Observer::bind).transpose()?;
        let slots_socket = ports::bind(self.slots_listen, "--slots-listen")?;
        let queue_socket = ports::bind(self.queue_listen, "--queue-listen")?;
        let queue_address = queue_socket.local_addr().map_err(CliError::io("look at the listener"))?;
        let options = self.options()?;
        let slots_address = slots_socket.local_addr().map_err(CliError::io("look at the listener"))?;
        let stop = signals::Stop::install()?;
        let mut registry = Registry::default();
        let config = Config {
            words: words::allowed(&self.keeper_words),
            ..Config::new(self.data.keeper()?, self.keeper_listen)
        };
        let keeper = serve::start(config, &mut registry, "--keeper-listen")?;
        let listen = menagerie_journal::server::Listen { address: self.journal_listen, tls: None };
        let config = menagerie_journal::Config::new(self.data.journal()?);
        let journal = Running::start(config, &listen, &mut registry, "--journal-listen")?;
        let registration = register(keeper.address(), &journal)?;
        let slots = slots::start(slots_socket, keeper.address(), NAMESPACE, &mut registry)?;
        let queue = queue::start(
            queue_socket,
            keeper.address(),
            NAMESPACE,
            journal.store.clone(),
            options,
            &mut registry,
        )?;
        let metrics = observer.as_ref().map(Observer::address);
        if let Some(observer) = observer {
            observer.serve(registry)?;
        }
        let addresses = Addresses {
            pid: std::process::id(),
            keeper: keeper.address(),
            journal: journal.server.address(),
            queue: queue_address,
            slots: slots_address,
            metrics,
        };
        write_addresses(&root, &addresses)
            .map_err(CliError::io(format!("write {}", root.join("addresses.json").display())))?;
        addresses.print(&root);
        let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
        let demo = self.demo.then(|| Demo::start(keeper.address(), NAMESPACE)).transpose()?;
        // The keeper last: the others take leave of it.
        let (stopper, store) = (keeper.stopper(), journal.store.clone());
        let keeper_stopper = stopper.clone();
        stop.then(move || {
            demo.into_iter().for_each(Demo::stop);
            queue.stop();
            slots.stop();
            drop(registration);
            store.stop();
            stopper.stop();
        });
        // When one of them fails, both end: each is told to stop when the other has.
        let (store, closed) = (
            journal.store.clone(),
            std::thread::spawn(move || {
                let ended = journal.wait();
                keeper_stopper.stop();
                ended
            }),
        );
        let ended = keeper.wait();
        store.stop();
        let journal_ended = closed.join().unwrap_or(Ok(()));
        let _ = fs::remove_file(root.join("addresses.json"));
        ended.map_err(CliError::from).and(journal_ended)
    }
}

impl Up {
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

/// Says in the keeper where the journal is, as long as the value lives.
fn register(keeper: SocketAddr, journal: &Running) -> Result<Registration, CliError> {
    let mut member = menagerie_kernel::Config::new(keeper.to_string(), NAMESPACE);
    member.role = menagerie_kernel::session::Role::Owner;
    let entry = Entry {
        name: Name::new(register::NAME).expect("it is a name"),
        address: journal.server.address().to_string(),
        token: journal.server.token_file().to_owned(),
        tls: false,
    };
    // Everything of ours speaks to it directly; whoever looks for it is told of both.
    let taken = || tracing::error!("another journal is registered here by our name: this one is not");
    Registration::begin(member, entry, taken).map_err(CliError::io("start a thread"))
}

impl Addresses {
    fn print(&self, root: &Path) {
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
