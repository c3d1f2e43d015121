//! `menagerie scheduler`: decides what is tested and merged.

use std::net::SocketAddr;

use clap::Args;
use menagerie_kernel::Session;
use menagerie_kernel::session::Rights::Owner;
use menagerie_pipelines::scheduler::Scheduler as Engine;
use menagerie_pipelines::{Folder, Settings};
use serde_json::Map;

use super::data::DataArgs;
use super::flow::JournalSource;
use super::pipeline::settings;
use crate::client::Connection;
use crate::exit::{CliError, cannot};
use crate::ports;
use crate::role::host::Signals;
use crate::role::{Host, Life, Ready, Role};
use crate::stores::StoreArgs;
use crate::who::this_process;

/// Watch repositories, run changes through pipelines, and merge those that pass. Run several: they share the pipelines, and
/// stand in for each other.
#[derive(Debug, Args)]
pub struct Scheduler {
    #[command(flatten)]
    data: DataArgs,
    #[command(flatten)]
    stores: StoreArgs,
    /// Serve /metrics and /healthz on this address.
    #[arg(long, value_name = "HOST:PORT", value_parser = ports::address)]
    metrics: Option<SocketAddr>,
    /// Allow unencrypted connections from other machines to --metrics.
    #[arg(long)]
    insecure: bool,
}

impl Scheduler {
    /// Serves until it is stopped.
    pub fn run(self) -> Result<(), CliError> {
        let host = Host::new(self.metrics, self.insecure, Signals::Host)?;
        let config = self.stores.client.settings()?;
        let settings = settings::with_tenants(settings::required(&config)?)?;
        let folder = settings::folder(&self.data.root()?);
        let journals = JournalSource::Registered(self.stores.access.access(&config));
        host.run(role(Connection::within(&config, Owner)?, journals, settings, folder))
    }
}

/// The role of a scheduler. It is ready when it contends with others for pipelines.
pub fn role(connection: Connection, journals: JournalSource, settings: Settings, folder: Folder) -> Role {
    Role::with_session("scheduler", connection, Map::new(), async move |session: &Session, life: &Life| {
        let journals = tokio::select! {
            journals = journals.open(session) => journals?,
            () = life.stopping() => return Ok(()),
        };
        let engine = Engine { session: session.clone(), journals, settings, folder, name: this_process() };
        let ready = async || life.ready(Ready::plain()).await;
        let stop = async {
            life.stopping().await;
            life.draining().await;
        };
        engine.run(ready, stop).await.map_err(cannot("run pipelines"))
    })
}
