//! `menagerie queue forget NAME ID…|--all`

use clap::Args;
use menagerie_znodes::queues::QueueName;
use serde_json::json;

use super::failed::{doing, open};
use super::retry::WhichArgs;
use crate::exit::CliError;
use crate::output::{FormatArg, count};
use crate::stores::StoreArgs;

/// Delete failed messages.
#[derive(Debug, Args)]
pub struct Forget {
    /// Name of the queue.
    queue: QueueName,
    #[command(flatten)]
    which: WhichArgs,
    #[command(flatten)]
    format: FormatArg,
}

impl Forget {
    pub fn run(self, stores: StoreArgs) -> Result<(), CliError> {
        stores.change(async |stores| {
            let messages = open(stores, &self.queue).await?;
            let forgotten = self
                .which
                .each(&self.queue, &messages, "forgotten", async |failed| {
                    messages.forget(failed).await.map_err(doing(&self.queue))
                })
                .await?;
            let text = format!("{} forgotten", count(forgotten, "failed message"));
            self.format.tell(&text, &json!({ "queue": self.queue, "forgotten": forgotten }))
        })
    }
}
