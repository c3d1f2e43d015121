//! `menagerie queue skip NAME --partition P --through ID`

use clap::Args;
use menagerie_journal::MessageId;
use menagerie_queues::admin;
use menagerie_znodes::queues::QueueName;
use serde_json::json;

use crate::exit::{CliError, cannot};
use crate::output::FormatArg;
use crate::stores::StoreArgs;

/// Forget the messages of a partition up to this one, handled or not: for damaged ones that hold it. A worker's log names
/// them; it goes on behind them by itself.
#[derive(Debug, Args)]
pub struct Skip {
    /// Which queue.
    queue: QueueName,
    /// Which partition of it.
    #[arg(short, long, value_name = "P")]
    partition: u16,
    /// The id of the last message to forget (a UUID, or seconds).
    #[arg(long, value_name = "ID")]
    through: MessageId,
    #[command(flatten)]
    format: FormatArg,
}

impl Skip {
    /// Forgets them.
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
