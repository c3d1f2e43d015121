//! `menagerie coordinator`: hands out the tasks of flows.

use std::net::SocketAddr;

use clap::Args;
use menagerie_flows::coordinator::Coordinator as Engine;
use menagerie_kernel::Session;
use menagerie_kernel::session::Rights::Owner;
use menagerie_znodes::flows::Deployment;
use serde_json::Map;

use crate::client::Connection;
use crate::commands::flow::{DeploymentArg, JournalSource};
use crate::exit::{CliError, cannot};
use crate::ports;
use crate::role::host::Signals;
use crate::role::{Host, Life, Ready, Role};
use crate::stores::StoreArgs;
use crate::who::this_host;

/// Hand out the tasks of flows to peers. Run several: one of them leads, the others stand by.
#[derive(Debug, Args)]
pub struct Coordinator {
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

impl Coordinator {
    /// Serves until it is stopped.
    pub fn run(self) -> Result<(), CliError> {
        let host = Host::new(self.metrics, self.insecure, Signals::Host)?;
        let settings = self.stores.client.settings()?;
        let access = self.stores.access.access(&settings);
        let connection = Connection::within(&settings, Owner)?;
        host.run(role(connection, JournalSource::Registered(access), self.deployment.deployment()))
    }
}

/// The role of a coordinator. It is ready when it stands for election, also if another one leads.
pub fn role(connection: Connection, journals: JournalSource, deployment: Deployment) -> Role {
    let details = Map::from_iter([("deployment".to_owned(), deployment.name().as_str().into())]);
    Role::with_session("coordinator", connection, details, async move |session: &Session, life: &Life| {
        let journals = tokio::select! {
            journals = journals.open(session) => journals?,
            () = life.stopping() => return Ok(()),
        };
        let engine = Engine { session: session.clone(), journals, deployment };
        let identifier = format!("{}-{}", this_host(), std::process::id());
        let ready = async || life.ready(Ready::plain()).await;
        let stop = async {
            life.stopping().await;
            life.draining().await;
        };
        engine.run(&identifier, ready, stop).await.map_err(cannot("coordinate flows"))
    })
}
