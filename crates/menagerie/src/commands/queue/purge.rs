//! `menagerie queue purge NAME [--delayed|--handled]`

use clap::Args;
use menagerie_queues::admin::{self, Purged};
use menagerie_znodes::queues::QueueName;
use serde_json::json;

use super::delayed;
use crate::exit::{CliError, cannot};
use crate::output::{FormatArg, count};
use crate::progress::Meter;
use crate::stores::StoreArgs;

/// Delete every message of a queue, handled or not. Workers may still handle messages they have read ahead. Delayed
/// messages that are not due yet stay, unless --delayed is given.
#[derive(Debug, Args)]
pub struct Purge {
    /// Name of the queue.
    queue: QueueName,
    /// Also cancel delayed messages that are not due yet, as `queue cancel NAME --all` does.
    #[arg(long)]
    delayed: bool,
    /// Delete only handled messages: frees space without waiting for --keep (see `queue alter`).
    #[arg(long, conflicts_with = "delayed")]
    handled: bool,
    #[command(flatten)]
    format: FormatArg,
}

impl Purge {
    pub fn run(self, stores: StoreArgs) -> Result<(), CliError> {
        stores.change(async |stores| {
            let doing = cannot(format!("purge queue {}", self.queue));
            if self.handled {
                let purged = admin::purge_handled(&stores.session, &stores.journals, &self.queue).await;
                return self.tell(purged.map_err(doing)?);
            }
            // Delayed ones first: one that becomes due meanwhile turns into a message and is purged with the others.
            let cancelled = match self.delayed {
                true => {
                    let mut meter = Meter::new();
                    let delayed = delayed::open(stores, &self.queue, None).await?;
                    let cancelled =
                        delayed.cancel_all(|cancelled| meter.show("cancelled", cancelled, None)).await;
                    Some(cancelled.map_err(delayed::doing(&self.queue))?)
                }
                false => None,
            };
            let purged = admin::purge(&stores.session, &stores.journals, &self.queue).await;
            let messages = purged.map_err(doing)?;
            let text = format!("{} of queue {} forgotten", count(messages, "message"), self.queue);
            match cancelled {
                None => self.format.tell(&text, &json!({ "queue": self.queue, "forgotten": messages })),
                Some(cancelled) => self.format.tell(
                    &format!("{text}, and {} cancelled", count(cancelled, "delayed message")),
                    &json!({ "queue": self.queue, "forgotten": messages, "cancelled": cancelled }),
                ),
            }
        })
    }

    /// Reports how much was freed.
    fn tell(&self, Purged { partitions, messages, bytes }: Purged) -> Result<(), CliError> {
        let (queue, what) = (&self.queue, count(messages, "handled message"));
        let text = match messages {
            0 => format!("no message of queue {queue} was handled and still there"),
            _ => format!(
                "{what} of {} of queue {queue} forgotten, {bytes} bytes",
                count(partitions, "partition")
            ),
        };
        let report =
            json!({ "queue": queue, "forgotten": messages, "partitions": partitions, "bytes": bytes });
        self.format.tell(&text, &report)
    }
}
