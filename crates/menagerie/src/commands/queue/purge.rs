//! `menagerie queue purge NAME`

use clap::Args;
use menagerie_queues::admin;
use menagerie_znodes::queues::QueueName;
use serde_json::json;

use super::desk::DeskArgs;
use super::failed;
use crate::exit::CliError;
use crate::output::{FormatArg, count};

/// Forget every message of a queue, handled or not. Some that a worker has read ahead may still be handled; those that are
/// not due yet stay (`queue cancel NAME --all`).
#[derive(Debug, Args)]
pub struct Purge {
    /// Which queue.
    queue: QueueName,
    #[command(flatten)]
    format: FormatArg,
}

impl Purge {
    /// Forgets them.
    pub fn run(self, desk: DeskArgs) -> Result<(), CliError> {
        desk.change(async |desk| {
            let purged = admin::purge(&desk.session, &desk.journals, &self.queue).await;
            let messages = purged.map_err(failed(format!("purge queue {}", self.queue)))?;
            let text = format!("{} of queue {} forgotten", count(messages, "message"), self.queue);
            self.format.tell(&text, &json!({ "queue": self.queue, "forgotten": messages }))
        })
    }
}
