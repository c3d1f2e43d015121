//! `menagerie peer`: virtual peers that run the tasks of flows.

use std::net::SocketAddr;

use clap::Args;
use menagerie_flows::peer::Peers;
use menagerie_kernel::Session;
use menagerie_kernel::session::Rights::Owner;
use menagerie_znodes::flows::{Deployment, PeerRecord};
use serde_json::Map;
use tokio::runtime;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::client::{self, Connection};
use crate::commands::flow::{DeploymentArg, JournalSource};
use crate::exit::{CliError, cannot};
use crate::ports;
use crate::role::host::Signals;
use crate::role::{Host, Life, Ready, Role};
use crate::stores::StoreArgs;
use crate::who::this_host;

/// Most virtual peers of a process: each has a ZooKeeper session.
pub const COUNT_MAX: u16 = 1_000;

/// Run tasks of flows as virtual peers, each with one task at a time. Peers may be started and stopped at any time, on any
/// number of machines that see the same files.
#[derive(Debug, Args)]
pub struct Peer {
    /// Number of virtual peers in this process.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=i64::from(COUNT_MAX)))]
    count: u16,
    #[command(flatten)]
    deployment: DeploymentArg,
    #[command(flatten)]
    stores: StoreArgs,
    /// Serve /metrics and /healthz on this address.
    #[arg(long, value_name = "HOST:PORT", value_parser = ports::address)]
    metrics: Option<SocketAddr>,
    /// Allow unencrypted connections from other machines to --metrics.
    #[arg(long)]
    insecure: bool,
}

impl Peer {
    /// Works until it is stopped.
    pub fn run(self) -> Result<(), CliError> {
        let host = Host::new(self.metrics, self.insecure, Signals::Host)?;
        let settings = self.stores.client.settings()?;
        let access = self.stores.access.access(&settings);
        let connection = Connection::within(&settings, Owner)?;
        host.run(role(
            connection,
            JournalSource::Registered(access),
            self.deployment.deployment(),
            self.count,
        ))
    }
}

/// The role of a number of virtual peers. It is ready when all have registered.
pub fn role(connection: Connection, journals: JournalSource, deployment: Deployment, count: u16) -> Role {
    let details = Map::from_iter([
        ("deployment".to_owned(), deployment.name().as_str().into()),
        ("peers".to_owned(), count.into()),
    ]);
    Role::with_session("peer", connection.clone(), details, async move |session: &Session, life: &Life| {
        let journals = tokio::select! {
            journals = journals.open(session) => journals?,
            () = life.stopping() => return Ok(()),
        };
        let record = PeerRecord { host: this_host(), pid: std::process::id() };
        let peers = Peers { journals, deployment, record };
        // Work on segments needs all processors, and roles have one thread each.
        let workers = runtime::Builder::new_multi_thread().thread_name("peer").enable_all().build();
        let workers = workers.map_err(CliError::io("start the threads of peers"))?;
        let served = serve(life, &workers, &connection, &peers, count).await;
        workers.shutdown_background();
        served
    })
}

async fn serve(
    life: &Life,
    workers: &runtime::Runtime,
    connection: &Connection,
    peers: &Peers,
    count: u16,
) -> Result<(), CliError> {
    let (stop, _) = watch::channel(false);
    let (registered, mut registrations) = mpsc::channel(usize::from(count));
    let mut running = JoinSet::new();
    for _ in 0..count {
        let peer = run_one(connection.clone(), peers.clone(), registered.clone(), stop.subscribe());
        running.spawn_on(peer, workers.handle());
    }
    drop(registered);
    let all_registered = async {
        for _ in 0..count {
            registrations.recv().await;
        }
    };
    let served = tokio::select! {
        () = all_registered => {
            life.ready(Ready::plain()).await;
            tokio::select! {
                ended = first_end(&mut running) => ended,
                () = life.stopping() => Ok(()),
            }
        }
        ended = first_end(&mut running) => ended,
        () = life.stopping() => Ok(()),
    };
    life.draining().await;
    // What was not committed is done by others; their sessions are closed, so that these need not wait for that.
    stop.send_replace(true);
    while running.join_next().await.is_some() {}
    served
}

async fn run_one(
    connection: Connection,
    peers: Peers,
    registered: mpsc::Sender<()>,
    mut stop: watch::Receiver<bool>,
) -> Result<(), CliError> {
    let session = tokio::select! {
        session = connection.open() => session?,
        _ = stop.wait_for(|stop| *stop) => return Ok(()),
    };
    let tell = move || {
        // There is room for one of each peer.
        let _ = registered.try_send(());
    };
    let lived = tokio::select! {
        lived = peers.run(&session, tell) => lived.map_err(cannot("run tasks")),
        _ = stop.wait_for(|stop| *stop) => Ok(()),
    };
    client::close(session).await;
    lived
}

/// How the first peer ended: while they are not told to, none should.
async fn first_end(running: &mut JoinSet<Result<(), CliError>>) -> Result<(), CliError> {
    match running.join_next().await {
        Some(Ok(ended)) => ended,
        Some(Err(error)) => Err(CliError::Refused {
            what: format!("a peer has panicked: {error}"),
            help: "that is a bug: start it again, and report what it printed before this line".to_owned(),
        }),
        None => Ok(()),
    }
}
