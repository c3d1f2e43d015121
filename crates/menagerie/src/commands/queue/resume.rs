//! `menagerie queue resume NAME | --worker NAME`

use clap::Args;
use menagerie_queues::admin;

use super::scope::ScopeArgs;
use crate::exit::{CliError, cannot};
use crate::output::FormatArg;
use crate::stores::StoreArgs;

/// Resume a paused queue or worker.
#[derive(Debug, Args)]
pub struct Resume {
    #[command(flatten)]
    scope: ScopeArgs,
    #[command(flatten)]
    format: FormatArg,
}

impl Resume {
    pub fn run(self, stores: StoreArgs) -> Result<(), CliError> {
        stores.change(async |stores| {
            let (Some(scope), name) = (self.scope.scope(), self.scope.name()) else { return Ok(()) };
            let resumed = admin::resume(&stores.session, &scope).await;
            let resumed = resumed.map_err(cannot(format!("resume {name}")))?;
            let text = if resumed { format!("{name} goes on") } else { format!("{name} was not paused") };
            self.format.tell(&text, &self.scope.to_json("resumed", resumed))
        })
    }
}
