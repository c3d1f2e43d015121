//! `menagerie queue resume NAME | --worker NAME`

use clap::Args;
use menagerie_queues::admin;

use super::desk::DeskArgs;
use super::failed;
use super::scope::ScopeArgs;
use crate::exit::CliError;

/// Let a queue or a worker that was paused go on.
#[derive(Debug, Args)]
pub struct Resume {
    #[command(flatten)]
    scope: ScopeArgs,
}

impl Resume {
    /// Lets it go on.
    pub fn run(self, desk: DeskArgs) -> Result<(), CliError> {
        desk.change(async |desk| {
            let (Some(scope), name) = (self.scope.scope(), self.scope.name()) else { return Ok(()) };
            let resumed = admin::resume(&desk.session, &scope).await;
            match resumed.map_err(failed(format!("resume {name}")))? {
                true => eprintln!("{name} goes on"),
                false => eprintln!("{name} was not paused"),
            }
            Ok(())
        })
    }
}
