//! `menagerie queue cancel NAME ID…|--all`

use clap::Args;
use menagerie_queues::admin::delayed::{DelayedMessages, DelayedName};
use menagerie_znodes::queues::QueueName;
use serde_json::json;

use super::delayed::{doing, open};
use crate::exit::CliError;
use crate::output::{FormatArg, count};
use crate::progress::Meter;
use crate::stores::StoreArgs;

/// Cancel delayed messages that are not due yet: nobody will ever handle them.
#[derive(Debug, Args)]
pub struct Cancel {
    /// Name of the queue.
    queue: QueueName,
    #[command(flatten)]
    which: WhichArgs,
    /// Only this partition.
    #[arg(short, long, value_name = "P")]
    partition: Option<u16>,
    #[command(flatten)]
    format: FormatArg,
}

/// Which of them.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct WhichArgs {
    /// Ids of the messages, as `queue put` and `queue delayed` show them.
    #[arg(value_name = "ID")]
    ids: Vec<DelayedName>,
    /// All delayed messages there are now.
    #[arg(long)]
    all: bool,
}

impl Cancel {
    pub fn run(self, stores: StoreArgs) -> Result<(), CliError> {
        stores.change(async |stores| {
            let delayed = open(stores, &self.queue, self.partition).await?;
            let cancelled = if self.which.all {
                let mut meter = Meter::new();
                let progress = |cancelled| meter.show("cancelled", cancelled, None);
                delayed.cancel_all(progress).await.map_err(doing(&self.queue))?
            } else {
                self.each(&delayed).await?
            };
            let text = format!("{} of queue {} cancelled", count(cancelled, "delayed message"), self.queue);
            self.format.tell(&text, &json!({ "queue": self.queue, "cancelled": cancelled }))
        })
    }

    /// Cancels each id; a missing one is an error.
    async fn each(&self, delayed: &DelayedMessages) -> Result<u64, CliError> {
        let mut cancelled = 0;
        for id in &self.which.ids {
            if !delayed.cancel(*id).await.map_err(doing(&self.queue))? {
                return Err(CliError::Refused {
                    what: format!("there is no message {id} among the delayed ones of queue {}", self.queue),
                    help: format!(
                        "it was cancelled, or is due and can be taken back no more; `menagerie queue delayed {}` shows those that wait",
                        self.queue
                    ),
                });
            }
            cancelled += 1;
        }
        Ok(cancelled)
    }
}
