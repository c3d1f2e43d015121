//! `menagerie config`: the resolved settings.

mod show;

use clap::{Args, Subcommand};

use crate::client::ClientArgs;
use crate::exit::CliError;

/// Show the effective configuration.
#[derive(Debug, Args)]
pub struct Config {
    #[command(flatten)]
    client: ClientArgs,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Show(show::Show),
}

impl Config {
    pub fn run(self) -> Result<(), CliError> {
        match self.verb {
            Verb::Show(show) => show.run(self.client),
        }
    }
}
