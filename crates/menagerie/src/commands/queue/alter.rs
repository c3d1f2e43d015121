//! `menagerie queue alter NAME --keep TIME`

use clap::Args;
use menagerie_queues::QueueError;
use menagerie_queues::admin::{self, Change, Changed};
use menagerie_znodes::queues::{Keep, QueueName};
use serde_json::json;

use super::keep;
use crate::exit::{CliError, cannot};
use crate::output::FormatArg;
use crate::stores::StoreArgs;

/// Change an existing queue. Workers follow at once; messages they have already dropped do not come back.
#[derive(Debug, Args)]
pub struct Alter {
    /// Name of the queue.
    queue: QueueName,
    /// How long to keep handled messages, counted from when they were put: a duration such as 7d, or `forever`.
    /// Unhandled messages are always kept.
    #[arg(long, value_name = "TIME", value_parser = keep::parse)]
    keep: Keep,
    #[command(flatten)]
    format: FormatArg,
}

impl Alter {
    pub fn run(self, stores: StoreArgs) -> Result<(), CliError> {
        let (queue, keep) = (&self.queue, self.keep);
        stores.change(async |stores| {
            let change = Change { keep: Some(keep), ..Change::default() };
            let changed = match admin::change(&stores.session, &stores.journals, queue, &change).await {
                Ok(Changed::Missing) => Err(QueueError::NoQueue { queue: queue.clone() }),
                changed => changed,
            };
            changed.map_err(cannot(format!("change queue {queue}")))?;
            let report = json!({ "queue": queue, "keep_ms": keep });
            self.format.tell(&format!("queue {queue} keeps handled messages {}", keep::kept(keep)), &report)
        })
    }
}
