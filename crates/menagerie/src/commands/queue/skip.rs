//! `menagerie queue skip NAME --partition P --through ID`

use clap::Args;
use menagerie_journal::MessageId;
use menagerie_queues::admin;
use menagerie_znodes::queues::QueueName;
use serde_json::json;

use crate::exit::{CliError, cannot};
use crate::output::FormatArg;
use crate::stores::StoreArgs;

/// Delete the messages of a partition up to and including --through, handled or not: for damaged messages that block
/// it. The worker's log names their ids; the worker then continues with the next message by itself.
#[derive(Debug, Args)]
pub struct Skip {
    /// Name of the queue.
    queue: QueueName,
    /// Partition to skip messages in.
    #[arg(short, long, value_name = "P")]
    partition: u16,
    /// Id of the last message to delete (a UUID, or seconds).
    #[arg(long, value_name = "ID")]
    through: MessageId,
    #[command(flatten)]
    format: FormatArg,
}

impl Skip {
    pub fn run(self, stores: StoreArgs) -> Result<(), CliError> {
        stores.change(async |stores| {
            let partition = self.queue.partition(self.partition);
            let skipped = admin::skip(&stores.session, &stores.journals, &partition, self.through).await;
            skipped.map_err(cannot(format!("skip messages of {partition}")))?;
            let text = format!("messages of {partition} up to {} forgotten", self.through);
            self.format.tell(&text, &json!({ "partition": partition, "through": self.through.to_string() }))
        })
    }
}
