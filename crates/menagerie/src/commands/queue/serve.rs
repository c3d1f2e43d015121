//! `menagerie queue serve`: queues over HTTP.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use menagerie_kernel::Session;
use menagerie_kernel::recipes::settle::Rule;
use menagerie_kernel::session::Rights::Owner;
use menagerie_queue_http::keyring::Application;
use menagerie_queue_http::memory::IN_FLIGHT_BYTES_MAX;
use menagerie_queue_http::metrics::Metrics;
use menagerie_queue_http::receive::workers::ReceiveOptions;
use menagerie_queue_http::server::{AccessLog, BODY_BYTES_MAX, Line, Server};
use menagerie_queue_http::service::{Options, Service};
use menagerie_queues::QueueError;
use menagerie_queues::journals::Journals;
use menagerie_queues::metrics::Metrics as WorkerMetrics;
use prometheus_client::registry::Registry;
use serde_json::Map;

use super::periodic::put_periodic;
use crate::allow::everybody;
use crate::client::Connection;
use crate::commands::worker::SETTLE_CAP;
use crate::config::Settings;
use crate::exit::{CliError, cannot};
use crate::files::{Port, Shares};
use crate::host::full_name;
use crate::listener::{Endpoint, Limits, TlsArgs};
use crate::ports;
use crate::role::host::Signals;
use crate::role::{Host, Ready, Role};
use crate::stores::StoreArgs;
use crate::who;

/// Long polls hold a connection for up to a minute.
pub const LIMITS: Limits =
    Limits { connections: 16_384, exchange: Duration::from_secs(90), reading_counts: false };

/// Serve queues over HTTP with Queuey's API: anything that can POST can enqueue work.
#[derive(Debug, Args)]
pub struct Serve {
    /// Address to listen on; port 0 picks a free one.
    #[arg(long, value_name = "HOST:PORT", value_parser = ports::address, default_value = "127.0.0.1:5000", env = "MENAGERIE_QUEUE_LISTEN")]
    listen: SocketAddr,
    #[command(flatten)]
    tls: TlsArgs,
    /// Allow unencrypted connections from other machines; keys can then be overheard.
    #[arg(long)]
    insecure: bool,
    /// Journal that stores new queues [default: the only registered one].
    #[arg(long, value_name = "NAME")]
    journal: Option<String>,
    /// Maximum requests per second with one key, or from one address without a key; further ones are told to come again
    /// later. Each server counts for itself [default: unlimited].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rate_limit: Option<u32>,
    /// Maximum size of a request, in bytes.
    #[arg(long, value_name = "BYTES", default_value_t = BODY_BYTES_MAX as u32, value_parser = clap::value_parser!(u32).range(1..=BODY_BYTES_MAX as i64))]
    body_bytes_max: u32,
    /// Maximum bytes of requests and answers in flight; one key may use half of it. Requests that do not fit are told
    /// to come again.
    #[arg(long, value_name = "BYTES", default_value_t = IN_FLIGHT_BYTES_MAX as u64, value_parser = clap::value_parser!(u64).range(1..))]
    in_flight_bytes_max: u64,
    /// Append one JSON line per request to this file; it never contains keys.
    #[arg(long, value_name = "FILE")]
    access_log: Option<PathBuf>,
    /// Serve /metrics and /healthz on this address.
    #[arg(long, value_name = "HOST:PORT", value_parser = ports::address)]
    metrics: Option<SocketAddr>,
}

/// Long polls hold their connections.
pub const PORT: Port = Port { kind: KIND, own_files: 16, weight: 4 };

const KIND: &str = "queue";

/// On stop, requests in flight are answered, but long polls are cut off: their clients ask again.
const DRAIN_MAX: Duration = Duration::from_secs(2);

impl Serve {
    /// Serves until it is stopped.
    pub fn run(self, stores: StoreArgs) -> Result<(), CliError> {
        if !self.tls.is_given() {
            let instead = Some("give --tls-cert and --tls-key");
            ports::require_loopback(self.listen, self.insecure, "--listen", instead)?;
        }
        let mut host = Host::new(self.metrics, self.insecure, Signals::Host)?;
        let limits = LIMITS.at_most(Shares::of(&[PORT]).connections(PORT));
        let settings = stores.client.settings()?;
        let parts = Parts {
            endpoint: Endpoint {
                socket: ports::bind(self.listen, "--listen")?,
                tls: self.tls.listener()?,
                allow: everybody(),
                limits,
            },
            metrics: Metrics::new(&mut host.registry),
            access_log: self.access_log.as_deref().map(access_log).transpose()?,
            body_bytes_max: self.body_bytes_max as usize,
            options: Options {
                journal: self.journal,
                applications: applications(&settings),
                rate_limit: self.rate_limit,
                in_flight_bytes_max: usize::try_from(self.in_flight_bytes_max).ok(),
                receive: receive_options(&settings, &mut host.registry),
            },
        };
        let access = stores.access.access(&settings);
        let connection = Connection::within(&settings, Owner)?;
        let journals = async move |session: &Session| {
            let journals = Journals::registered(session, access).await;
            journals.map_err(cannot("look for journals"))
        };
        host.run(role(connection, parts, journals))
    }
}

/// What the HTTP server needs, stand-alone and in `menagerie up`.
pub struct Parts {
    pub endpoint: Endpoint,
    pub metrics: Metrics,
    pub access_log: Option<AccessLog>,
    pub body_bytes_max: usize,
    pub options: Options,
}

/// The role that serves queues over HTTP, with these journals.
pub fn role(
    connection: Connection,
    parts: Parts,
    journals: impl AsyncFnOnce(&Session) -> Result<Journals, CliError> + Send + 'static,
) -> Role {
    Role::with_session(KIND, connection, Map::new(), async move |session, life| {
        let Parts { endpoint, metrics, access_log, body_bytes_max, options } = parts;
        let follow = async {
            let journals = journals(session).await?;
            let service = Service::new(session, journals.clone(), options).await;
            let service =
                service.map_err(|error| cannot("follow queues and keys")(QueueError::from(error)))?;
            Ok::<_, CliError>((service, journals))
        };
        // ZooKeeper may be silent for long.
        let (service, journals) = tokio::select! {
            followed = follow => followed?,
            () = life.stopping() => return Ok(()),
        };
        let receiving = service.receiving();
        let server = Server { service, metrics, access_log, body_bytes_max };
        let (listener, address) = endpoint.open()?;
        life.ready(Ready::on(address)).await;
        let serve = life.drain(DRAIN_MAX, server.serve(listener, life.stop_signal()));
        let name = who::this_process();
        let served = tokio::select! {
            served = serve => served,
            never = put_periodic(session, &journals, &name, life) => match never {},
        };
        // Before the session ends: so other workers know at once that nothing has killed this one.
        receiving.stop().await;
        served.unwrap_or(Ok(())).map_err(CliError::io("serve queues"))
    })
}

/// How clients receive messages: as workers do, under a name of this process.
pub fn receive_options(settings: &Settings, registry: &mut Registry) -> ReceiveOptions {
    let usual = ReceiveOptions::default();
    let quiet = settings.worker.settle.as_ref().map_or(usual.settle.quiet, |settle| settle.value);
    ReceiveOptions {
        name: format!("{}-{}", full_name(), std::process::id()),
        settle: Rule { quiet, cap: quiet.saturating_mul(SETTLE_CAP) },
        metrics: WorkerMetrics::new(registry),
        ..usual
    }
}

/// The applications in the configuration.
pub fn applications(settings: &Settings) -> BTreeMap<String, Application> {
    let each = settings.applications.iter().map(|one| &one.value);
    each.map(|one| (one.name.clone(), one.application.clone())).collect()
}

/// Opens the access log. A thread writes it, so that no request waits for the disk.
fn access_log(path: &Path) -> Result<AccessLog, CliError> {
    let file = OpenOptions::new().append(true).create(true).open(path);
    let file = file.map_err(CliError::io(format!("write {}", path.display())))?;
    let (writer, guard) = tracing_appender::non_blocking(file);
    Ok(Box::new(move |line: &Line<'_>| {
        let _kept = &guard;
        if let Ok(mut text) = serde_json::to_vec(line) {
            text.push(b'\n');
            // When the writer cannot keep up, lines are dropped.
            let _ = writer.clone().write_all(&text);
        }
    }))
}
