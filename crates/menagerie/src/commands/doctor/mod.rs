//! `menagerie doctor`: is ZooKeeper fit for us, and if not, what to do?
//!
//! - `finding.rs`: findings, and checks of settings and files; `servers.rs`: each server; `session.rs`: what a
//!   session gets; `access.rs`: access lists; `tree/`: stored data.

mod access;
mod finding;
mod servers;
mod session;
mod tree;

use clap::Args;

use self::finding::{Findings, Health};
use menagerie_types::exit_code;

use crate::client::{self, Client, ClientArgs};
use crate::config::Settings;
use crate::exit::CliError;
use crate::output::FormatArg;

/// Diagnose everything between this host and ZooKeeper: servers, versions, latencies, clocks, watches, access rights,
/// whether stored znodes are readable, and whether this host has a machine id. Exits with 0 if nothing fails, 69 if no
/// server can be reached, else 1.
#[derive(Debug, Args)]
pub struct Doctor {
    #[command(flatten)]
    client: ClientArgs,
    #[command(flatten)]
    format: FormatArg,
}

impl Doctor {
    /// Runs all checks and prints their findings.
    pub fn run(self) -> Result<(), CliError> {
        let settings = self.client.settings()?;
        let (findings, unreachable) = client::block_on(client::until_stopped(examine(settings)))?;
        self.format.print(&findings)?;
        match findings.count(Health::Fail) {
            0 => Ok(()),
            fails => Err(CliError::Diagnosed {
                what: format!("{fails} of the checks failed"),
                because: None,
                help: "follow the advice beside each of them".to_owned(),
                code: if unreachable { exit_code::UNAVAILABLE } else { exit_code::FAILED },
            }),
        }
    }
}

async fn examine(settings: Settings) -> Result<(Findings, bool), CliError> {
    let mut findings = Findings::default();
    finding::settings(&settings, &mut findings);
    finding::host(&mut findings);
    if !finding::files(&settings, &mut findings) {
        return Ok((findings, false));
    }
    servers::examine(&settings, &mut findings).await?;
    match Client::connect(settings).await {
        Ok(client) => {
            session::examine(&client, &mut findings).await;
            client::close(client.session).await;
            Ok((findings, false))
        }
        Err(CliError::Connect { source, .. }) => {
            let unreachable = matches!(source, menagerie_kernel::ConnectError::Unreachable { .. });
            findings.fail("session", source.to_string(), "see the findings for each server above");
            Ok((findings, unreachable))
        }
        Err(error) => Err(error),
    }
}
