//! `menagerie executor`: runs the jobs of pipelines. `logs.rs`: serves their logs.

pub mod logs;

use std::net::SocketAddr;
use std::num::NonZeroUsize;

use clap::Args;
use menagerie_kernel::session::Rights::Owner;
use menagerie_kernel::{Session, guard, unique};
use menagerie_pipelines::client::logs::{ADDRESS, EXECUTOR, KEY};
use menagerie_pipelines::executor::Executor as Engine;
use menagerie_pipelines::{Folder, Settings};
use serde_json::Map;

use super::data::DataArgs;
use super::pipeline::settings;
use crate::allow::everybody;
use crate::client::{ClientArgs, Connection};
use crate::exit::{CliError, cannot};
use crate::files::{Port, Shares};
use crate::host::full_name;
use crate::listener::Endpoint;
use crate::ports;
use crate::role::host::Signals;
use crate::role::{Host, Life, Ready, Role};
use crate::who::this_process;

/// Its name in its ready line and under `/components`.
const KIND: &str = EXECUTOR;

/// Each build has its log, a pipe to its guard, and git open.
pub const PORT: Port = Port { kind: KIND, own_files: 256, weight: 1 };

/// Run the jobs of pipelines: programs from the repositories, each in a folder of its own. Run several, on any number of
/// machines.
#[derive(Debug, Args)]
pub struct Executor {
    /// Jobs to run at a time [default: the number of processors].
    #[arg(long, value_name = "N")]
    jobs: Option<NonZeroUsize>,
    /// Address on which logs are served; port 0 picks a free one.
    #[arg(long, value_name = "HOST:PORT", value_parser = ports::address, default_value = "127.0.0.1:0", env = "MENAGERIE_EXECUTOR_LISTEN")]
    listen: SocketAddr,
    #[command(flatten)]
    data: DataArgs,
    #[command(flatten)]
    client: ClientArgs,
    /// Serve /metrics and /healthz on this address.
    #[arg(long, value_name = "HOST:PORT", value_parser = ports::address)]
    metrics: Option<SocketAddr>,
    /// Allow unencrypted connections from other machines to --listen and --metrics; logs can then be overheard.
    #[arg(long)]
    insecure: bool,
}

impl Executor {
    /// Serves until it is stopped.
    pub fn run(self) -> Result<(), CliError> {
        ports::require_loopback(self.listen, self.insecure, "--listen", None)?;
        let host = Host::new(self.metrics, self.insecure, Signals::Host)?;
        let config = self.client.settings()?;
        let limits = logs::LIMITS.at_most(Shares::of(&[PORT]).connections(PORT));
        let parts = Parts {
            settings: settings::without_tenants(settings::required(&config)?),
            folder: settings::folder(&self.data.root()?),
            jobs: self.jobs.map_or_else(processors, NonZeroUsize::get),
            endpoint: Endpoint {
                socket: ports::bind(self.listen, "--listen")?,
                tls: None,
                allow: everybody(),
                limits,
            },
        };
        host.run(role(Connection::within(&config, Owner)?, parts)?)
    }
}

/// Number of processors that this process may use.
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

/// What an executor needs, stand-alone and in `menagerie up`.
pub struct Parts {
    /// Where repositories are.
    pub settings: Settings,
    /// Caches, work trees and logs.
    pub folder: Folder,
    /// Jobs to run at a time.
    pub jobs: usize,
    /// Where logs are served.
    pub endpoint: Endpoint,
}

/// The role of an executor. It tells others under `/components` where logs are, and the key that it has drawn for them.
pub fn role(connection: Connection, parts: Parts) -> Result<Role, CliError> {
    let Parts { settings, folder, jobs, endpoint } = parts;
    let key = format!("{}{}", unique::hex(), unique::hex());
    let address = endpoint.socket.local_addr().map_err(CliError::io("look where logs are served"))?;
    let reached_at = match address.ip().is_unspecified() {
        true => format!("{}:{}", full_name(), address.port()),
        false => address.to_string(),
    };
    let details = Map::from_iter([
        (ADDRESS.to_owned(), reached_at.into()),
        (KEY.to_owned(), key.clone().into()),
        ("jobs".to_owned(), jobs.into()),
    ]);
    Ok(Role::with_session(KIND, connection, details, async move |session: &Session, life: &Life| {
        let (listener, address) = endpoint.open()?;
        let engine = Engine {
            session: session.clone(),
            settings,
            folder: folder.clone(),
            name: this_process(),
            jobs,
            guard: guard::this_program().to_owned(),
        };
        let ready = async || life.ready(Ready::on(address)).await;
        let stop = async {
            life.stopping().await;
            life.draining().await;
        };
        tokio::select! {
            ended = engine.run(ready, stop) => ended.map_err(cannot("run jobs")),
            served = logs::serve(listener, folder, &key) => served.map_err(CliError::io("serve logs")),
        }
    }))
}
