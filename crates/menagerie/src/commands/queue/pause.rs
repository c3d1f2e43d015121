//! `menagerie queue pause NAME | --worker NAME`

use clap::Args;
use menagerie_queues::admin;
use menagerie_znodes::queues;

use super::scope::ScopeArgs;
use crate::exit::{CliError, cannot};
use crate::output::FormatArg;
use crate::stores::StoreArgs;
use crate::who;

/// Stop taking messages, from one queue or by one worker, until `queue resume`. Running tasks finish; partitions stay
/// with their workers.
#[derive(Debug, Args)]
pub struct Pause {
    #[command(flatten)]
    scope: ScopeArgs,
    /// Reason, shown to everybody who looks at it.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    format: FormatArg,
}

impl Pause {
    pub fn run(self, stores: StoreArgs) -> Result<(), CliError> {
        stores.change(async |stores| {
            let (Some(scope), name) = (self.scope.scope(), self.scope.name()) else { return Ok(()) };
            let pause = queues::Pause { by: who::operator(), reason: self.reason };
            admin::pause(&stores.session, &scope, &pause).await.map_err(cannot(format!("pause {name}")))?;
            let text = format!("{name} is paused; `menagerie queue resume` lets it go on");
            self.format.tell(&text, &self.scope.to_json("paused", true))
        })
    }
}
