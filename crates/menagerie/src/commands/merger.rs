//! `menagerie merger`: merges changes speculatively, and reads configuration files.

use std::net::SocketAddr;

use clap::Args;
use menagerie_kernel::Session;
use menagerie_kernel::session::Rights::Owner;
use menagerie_pipelines::merger::Merger as Engine;
use menagerie_pipelines::{Folder, Settings};
use serde_json::Map;

use super::data::DataArgs;
use super::pipeline::settings;
use crate::client::{ClientArgs, Connection};
use crate::exit::{CliError, cannot};
use crate::ports;
use crate::role::host::Signals;
use crate::role::{Host, Life, Ready, Role};
use crate::who::this_process;

/// Merge changes for pipelines, so that they can be tested as they will be, and read the configuration files of
/// repositories. Run several, on any number of machines.
#[derive(Debug, Args)]
pub struct Merger {
    #[command(flatten)]
    data: DataArgs,
    #[command(flatten)]
    client: ClientArgs,
    /// Serve /metrics and /healthz on this address.
    #[arg(long, value_name = "HOST:PORT", value_parser = ports::address)]
    metrics: Option<SocketAddr>,
    /// Allow unencrypted connections from other machines to --metrics.
    #[arg(long)]
    insecure: bool,
}

impl Merger {
    /// Serves until it is stopped.
    pub fn run(self) -> Result<(), CliError> {
        let host = Host::new(self.metrics, self.insecure, Signals::Host)?;
        let config = self.client.settings()?;
        let settings = settings::without_tenants(settings::required(&config)?);
        let folder = settings::folder(&self.data.root()?);
        host.run(role(Connection::within(&config, Owner)?, settings, folder))
    }
}

/// The role of a merger.
pub fn role(connection: Connection, settings: Settings, folder: Folder) -> Role {
    Role::with_session("merger", connection, Map::new(), async move |session: &Session, life: &Life| {
        let engine = Engine { session: session.clone(), settings, folder, name: this_process() };
        let ready = async || life.ready(Ready::plain()).await;
        let stop = async {
            life.stopping().await;
            life.draining().await;
        };
        engine.run(ready, stop).await.map_err(cannot("merge changes"))
    })
}
