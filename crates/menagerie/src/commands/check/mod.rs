//! `menagerie check`: a monitoring plugin. It only reads, prints one line, and exits with 0, 1, 2 or 3, whatever
//! happens.
//!
//! - `range.rs`, `report.rs`: thresholds, states, the line and its performance data; pure.
//! - One file per check: its arguments, one read, and a pure `judge`.
//! - `plugin.rs`: what surrounds them all: the time-out, signals, bad arguments, panics.

mod lag;
mod node;
mod plugin;
mod range;
mod report;
mod slots;
mod thresholds;
mod workers;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use menagerie_kernel::session::Rights;

use self::plugin::{Plugin, TimeOut};
use self::report::Report;
use crate::client::{self, Client, ClientArgs};
use crate::config::Settings;
use crate::exit::CliError;

pub use plugin::{arguments, fail, is_meant, refuse};

/// Run a read-only check as a monitoring plugin: exits with 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN.
#[derive(Debug, Args)]
#[command(
    version,
    propagate_version = true,
    arg_required_else_help = true,
    before_help = concat!("menagerie ", env!("CARGO_PKG_VERSION"))
)]
pub struct Check {
    #[command(flatten)]
    client: ClientArgs,
    /// Time-out, and the state to report when it passes [default state: UNKNOWN].
    #[arg(short, long, global = true, value_name = "SECONDS[:STATE]", default_value = "10", value_parser = TimeOut::parse)]
    timeout: TimeOut,
    /// Print more: -v a few lines, -vv which servers were asked, -vvv everything.
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    verbose: u8,
    #[command(subcommand)]
    probe: Probe,
}

#[derive(Debug, Subcommand)]
enum Probe {
    Node(node::Node),
    Slots(slots::Slots),
    Lag(lag::Lag),
    Workers(workers::Workers),
}

impl Probe {
    fn service(&self) -> &'static str {
        match self {
            Self::Node(_) => node::SERVICE,
            Self::Slots(_) => slots::SERVICE,
            Self::Lag(_) => lag::SERVICE,
            Self::Workers(_) => workers::SERVICE,
        }
    }

    /// Checks of engines connect within the namespace; checks of znodes see the ensemble from its root.
    async fn connect(&self, settings: Settings) -> Result<Client, CliError> {
        match self {
            Self::Node(_) => Client::connect(settings).await,
            Self::Slots(_) | Self::Lag(_) | Self::Workers(_) => {
                Client::connect_within(settings, Rights::Observer).await
            }
        }
    }

    async fn inspect(&self, client: &Client) -> Result<Report, CliError> {
        match self {
            Self::Node(node) => node.inspect(client).await,
            Self::Slots(slots) => slots.inspect(client).await,
            Self::Lag(lag) => lag.inspect(client).await,
            Self::Workers(workers) => workers.inspect(client).await,
        }
    }
}

impl Check {
    /// Runs the check, prints its line and returns the exit code.
    pub fn run(self) -> ExitCode {
        let plugin = Plugin::start(self.probe.service(), self.timeout, self.verbose);
        plugin.finish(|| {
            let settings = self.client.settings()?;
            client::block_on(async {
                let client = self.probe.connect(settings).await?;
                let mut report = self.probe.inspect(&client).await?;
                let servers = &client.settings.servers;
                report.detail(2, format!("asked {} (from {})", servers.value, servers.origin));
                client::close(client.session).await;
                Ok(report)
            })
        })
    }
}
