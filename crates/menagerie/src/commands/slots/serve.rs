//! `menagerie slots serve`: FleetLock over HTTP.

use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;
use menagerie_kernel::session::Rights::Owner;
use menagerie_kernel::{Session, whole};
use menagerie_slots::core::Limits;
use menagerie_slots::poll::{LAPSE, Sweeper};
use serde_json::Map;
use tracing::warn;

pub use super::fleetlock::metrics::Metrics;
use super::fleetlock::{self, Service};
use crate::allow::{self, Network};
use crate::client::{ClientArgs, Connection};
use crate::exit::CliError;
use crate::files::{Port, Shares};
use crate::listener::{Endpoint, TlsArgs};
use crate::role::host::Signals;
use crate::role::{Host, Ready, Role};
use crate::{durations, ports};

/// Interval between two sweeps for silent clients, and between two samples of metrics.
const SWEEP_EVERY: Duration = Duration::from_secs(5);

/// Waiting clients per pool: more hosts than anybody reboots one by one, yet few enough to read all their names on
/// each request.
const WAITERS_MAX: usize = 1_000;

/// Waiting clients per address: enough for a few dozen hosts behind one router.
const WAITERS_PER_ADDRESS: usize = 64;

/// How clients may wait.
#[derive(Debug, Clone, Copy)]
pub struct Waiting {
    pub limits: Limits,
    /// A waiting client that has not asked for this long loses its place.
    pub lapse: Duration,
}

impl Default for Waiting {
    fn default() -> Self {
        let limits = Limits { waiters: WAITERS_MAX, per_source: WAITERS_PER_ADDRESS };
        Self { limits, lapse: LAPSE }
    }
}

/// Serve FleetLock, the protocol by which Zincati on Fedora CoreOS asks for permission to reboot: a group is a pool.
/// FleetLock clients send no token, so serving other machines requires TLS (or --insecure) and --allow.
#[derive(Debug, Args)]
pub struct Serve {
    /// Address to listen on; port 0 picks a free one.
    #[arg(long, value_name = "HOST:PORT", value_parser = ports::address, default_value = "127.0.0.1:3333", env = "MENAGERIE_SLOTS_LISTEN")]
    listen: SocketAddr,
    /// Clients to accept: addresses or networks, such as 10.2.0.0/16 [default: this machine].
    #[arg(long, value_name = "CIDR", value_delimiter = ',', value_parser = allow::parse)]
    allow: Vec<Network>,
    #[command(flatten)]
    tls: TlsArgs,
    /// Allow unencrypted connections from other machines.
    #[arg(long)]
    insecure: bool,
    /// Drop a silent client's place in the queue after this long; at most 10m, when other processes would drop it
    /// anyway.
    #[arg(long, value_name = "DURATION", value_parser = lapse, default_value = "10m")]
    lapse: Duration,
    /// Maximum number of clients waiting in a pool's queue; further ones are told to ask again later.
    #[arg(long, value_name = "N", default_value_t = WAITERS_MAX)]
    waiters_max: usize,
    /// Maximum number of waiting clients per address, or per IPv6 /64 network.
    #[arg(long, value_name = "N", default_value_t = WAITERS_PER_ADDRESS)]
    waiters_per_address: usize,
    /// Serve /metrics and /healthz on this address.
    #[arg(long, value_name = "HOST:PORT", value_parser = ports::address)]
    metrics: Option<SocketAddr>,
}

fn lapse(text: &str) -> Result<Duration, String> {
    match durations::parse(text)? {
        Duration::ZERO => Err("nobody asks all the time: write at least 1s".to_owned()),
        lapse if lapse > LAPSE => Err("at most 10m".to_owned()),
        lapse => Ok(lapse),
    }
}

/// Connections are few and short.
pub const PORT: Port = Port { kind: KIND, own_files: 16, weight: 1 };

const KIND: &str = "slots";

/// Requests take less than ten seconds, and a client that asks again loses nothing.
const DRAIN_MAX: Duration = Duration::from_secs(2);

impl Serve {
    /// Serves until it is stopped.
    pub fn run(self, client: ClientArgs) -> Result<(), CliError> {
        self.check()?;
        let mut host = Host::new(self.metrics, self.insecure, Signals::Host)?;
        let limits = fleetlock::LIMITS.at_most(Shares::of(&[PORT]).connections(PORT));
        let endpoint = Endpoint {
            socket: ports::bind(self.listen, "--listen")?,
            tls: self.tls.listener()?,
            allow: if self.allow.is_empty() { allow::this_machine() } else { self.allow },
            limits,
        };
        let limits = Limits { waiters: self.waiters_max, per_source: self.waiters_per_address };
        let waiting = Waiting { limits, lapse: self.lapse };
        let connection = Connection::within(&client.settings()?, Owner)?;
        let role = role(connection, endpoint, Metrics::new(&mut host.registry), waiting);
        host.run(role)
    }

    fn check(&self) -> Result<(), CliError> {
        if !self.tls.is_given() {
            ports::require_loopback(
                self.listen,
                self.insecure,
                "--listen",
                Some("give --tls-cert and --tls-key"),
            )?;
        }
        if !self.listen.ip().is_loopback() && self.allow.is_empty() {
            return Err(CliError::Usage {
                what: format!("--listen {} without --allow would let anybody take slots", self.listen),
                help: "say who may ask, such as --allow 10.2.0.0/16".to_owned(),
            });
        }
        Ok(())
    }
}

/// The role that serves FleetLock and sweeps clients that have gone silent.
pub fn role(connection: Connection, endpoint: Endpoint, metrics: Metrics, waiting: Waiting) -> Role {
    Role::with_session(KIND, connection, Map::new(), async move |session, life| {
        let allow = endpoint.allow.clone();
        let (listener, address) = endpoint.open()?;
        let service = Service::new(session.clone(), allow, waiting, metrics.clone());
        life.ready(Ready::on(address)).await;
        let served = tokio::select! {
            served = life.drain(DRAIN_MAX, fleetlock::serve(listener, service, life.stop_signal())) => served,
            () = sweep_and_sample(session, waiting.lapse, &metrics) => None,
        };
        served.unwrap_or(Ok(())).map_err(CliError::io("serve FleetLock"))
    })
}

async fn sweep_and_sample(session: &Session, lapse: Duration, metrics: &Metrics) {
    let mut sweeper = Sweeper::default();
    let mut ticks = tokio::time::interval(SWEEP_EVERY.min(lapse));
    loop {
        ticks.tick().await;
        if let Err(error) = sweeper.sweep(session, lapse, std::time::Instant::now()).await {
            warn!(error = %whole(&error), "cannot look who still asks");
        }
        if let Err(error) = metrics.sample(session).await {
            warn!(error = %whole(&error), "cannot look at the pools");
        }
    }
}
