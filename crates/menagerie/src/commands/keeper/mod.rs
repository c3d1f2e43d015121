//! `menagerie keeper`: the embedded ZooKeeper-compatible server.

mod backup;
mod restore;
pub mod serve;
pub mod words;

use clap::{Args, Subcommand};

use crate::exit::CliError;

/// Run the embedded ZooKeeper-compatible server, or back up and restore its data.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Keeper {
    #[command(flatten)]
    serve: serve::Serve,
    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Backup(backup::Backup),
    Restore(restore::Restore),
}

impl Keeper {
    /// Serves, unless another verb was given.
    pub fn run(self) -> Result<(), CliError> {
        match self.verb {
            None => self.serve.run(),
            Some(Verb::Backup(backup)) => backup.run(),
            Some(Verb::Restore(restore)) => restore.run(),
        }
    }
}
