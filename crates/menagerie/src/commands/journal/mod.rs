//! `menagerie journal`: the message log.

mod backup;
mod cat;
mod registration;
mod renew;
mod restore;
pub mod serve;
mod stat;
mod target;
mod topics;
mod verify;

use clap::{Args, Subcommand};

pub use registration::{OnTaken, Registration};

use crate::exit::CliError;
use crate::logging::LogProfile;

/// Run the message log, or inspect, verify, back up and restore it.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Journal {
    #[command(flatten)]
    serve: serve::Serve,
    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Topics(topics::Topics),
    Cat(cat::Cat),
    Tail(cat::Tail),
    Stat(stat::Stat),
    Verify(verify::Verify),
    Backup(backup::Backup),
    Restore(restore::Restore),
    Renew(renew::Renew),
}

impl Journal {
    pub fn log_profile(&self) -> LogProfile {
        if self.verb.is_none() { LogProfile::Server } else { LogProfile::Command }
    }

    /// Serves, unless another verb was given.
    pub fn run(self) -> Result<(), CliError> {
        match self.verb {
            None => self.serve.run(),
            Some(Verb::Topics(topics)) => topics.run(),
            Some(Verb::Cat(cat)) => cat.run(),
            Some(Verb::Tail(tail)) => tail.run(),
            Some(Verb::Stat(stat)) => stat.run(),
            Some(Verb::Verify(verify)) => verify.run(),
            Some(Verb::Backup(backup)) => backup.run(),
            Some(Verb::Restore(restore)) => restore.run(),
            Some(Verb::Renew(renew)) => renew.run(),
        }
    }
}
