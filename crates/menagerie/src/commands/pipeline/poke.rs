//! `menagerie pipeline poke`: what the hook runs. Quiet, and quick to give up: polling finds the push, too.

use std::time::Duration;

use clap::Args;
use menagerie_kernel::session::Rights::Owner;
use menagerie_pipelines::client as engine;
use menagerie_types::exit_code;

use crate::client::{self, Client, ClientArgs};
use crate::exit::{CliError, cannot};

/// Longest time for all of it.
const PATIENCE: Duration = Duration::from_secs(5);

/// Have a repository looked at now.
#[derive(Debug, Args)]
#[command(hide = true)]
pub struct Poke {
    /// Connection of the repository.
    #[arg(long, value_name = "NAME")]
    connection: String,
    /// Project of the repository.
    #[arg(long, value_name = "NAME")]
    project: String,
}

impl Poke {
    pub fn run(self, client: ClientArgs) -> Result<(), CliError> {
        let settings = client.settings()?;
        let poke = async {
            let client = Client::connect_within(settings, Owner).await?;
            let poked = engine::poke(&client.session, &self.connection, &self.project).await;
            client::close(client.session).await;
            poked.map_err(cannot("have the repository looked at"))
        };
        client::block_on(async {
            tokio::time::timeout(PATIENCE, poke).await.unwrap_or_else(|_| {
                Err(CliError::Diagnosed {
                    what: format!("ZooKeeper has not answered within {} s", PATIENCE.as_secs()),
                    because: None,
                    help: "nothing is lost: the repository is looked at regularly, too".to_owned(),
                    code: exit_code::NOT_NOW,
                })
            })
        })
    }
}
