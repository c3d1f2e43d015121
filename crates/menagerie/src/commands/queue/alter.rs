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

/// Change a queue that is there. Workers hear of it at once; what they have dropped does not come back.
#[derive(Debug, Args)]
pub struct Alter {
    /// Which queue.
    queue: QueueName,
    /// For how long messages stay that were handled, counted from when they were put: a time such as 7d, or `forever`. Those
    /// that wait stay as long as they do.
    #[arg(long, value_name = "TIME", value_parser = keep::parse)]
    keep: Keep,
    #[command(flatten)]
    format: FormatArg,
}

impl Alter {
    /// Changes it.
    pub fn run(self, stores: StoreArgs) -> Result<(), CliError> {
        let (queue, keep) = (&self.queue, self.keep);
        stores.change(async |stores| {
            let change = Change { keep: Some(keep), ..Change::default() };
            let changed = match admin::change(&stores.session, &stores.journals, queue, &change).await {
                Ok(Changed::Missing) => Err(QueueError::NoQueue { queue: queue.clone() }),
                changed => changed,
            };
            changed.map_err(cannot(format!("change queue {queue}")))?;
            let told = json!({ "queue": queue, "keep_ms": keep });
            self.format.tell(&format!("queue {queue} keeps handled messages {}", keep::kept(keep)), &told)
        })
    }
}
