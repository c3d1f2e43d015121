//! `menagerie queue forget NAME ID…|--all`

use clap::Args;
use menagerie_znodes::queues::QueueName;

use super::desk::DeskArgs;
use super::failed::{doing, open};
use super::retry::WhichArgs;
use crate::exit::CliError;
use crate::output::count;

/// Forget messages that were given up.
#[derive(Debug, Args)]
pub struct Forget {
    /// Which queue.
    queue: QueueName,
    #[command(flatten)]
    which: WhichArgs,
}

impl Forget {
    /// Forgets them.
    pub fn run(self, desk: DeskArgs) -> Result<(), CliError> {
        desk.change(async |desk| {
            let messages = open(desk, &self.queue).await?;
            let forgotten = self
                .which
                .each(&self.queue, &messages, "forgotten", async |failed| {
                    messages.forget(failed.id).await.map_err(doing(&self.queue))
                })
                .await?;
            eprintln!("{} forgotten", count(forgotten, "failed message"));
            Ok(())
        })
    }
}
