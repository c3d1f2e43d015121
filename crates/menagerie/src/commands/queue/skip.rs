//! `menagerie queue skip NAME --partition P --through ID`

use clap::Args;
use menagerie_journal::MessageId;
use menagerie_queues::admin::{self, browse::Browser};
use menagerie_znodes::queues::{PartitionName, QueueName};
use serde_json::json;

use super::message_name::MessageName;
use crate::exit::{CliError, cannot};
use crate::output::FormatArg;
use crate::stores::{StoreArgs, Stores};

/// Delete the messages of a partition up to and including --through, handled or not: for damaged messages that block
/// it. The worker's log names their ids; the worker then continues with the next message by itself.
#[derive(Debug, Args)]
pub struct Skip {
    /// Name of the queue.
    queue: QueueName,
    /// Partition to skip messages in.
    #[arg(short, long, value_name = "P")]
    partition: u16,
    /// Last message to delete: its id, or its position in seconds.
    #[arg(long, value_name = "ID")]
    through: MessageName,
    #[command(flatten)]
    format: FormatArg,
}

impl Skip {
    pub fn run(self, stores: StoreArgs) -> Result<(), CliError> {
        stores.change(async |stores| {
            let partition = self.queue.partition(self.partition);
            let position = self.position(stores, &partition).await?;
            let skipped = admin::skip(&stores.session, &stores.journals, &partition, position).await;
            skipped.map_err(cannot(format!("skip messages of {partition}")))?;
            let through = self.through.to_string();
            let text = format!("messages of {partition} up to {through} forgotten");
            let json = json!({ "partition": partition, "through": through, "position": position.seconds() });
            self.format.tell(&text, &json)
        })
    }

    /// Where to stop. A damaged message cannot be read, so its position comes from its id wherever that says it.
    async fn position(&self, stores: &Stores, partition: &PartitionName) -> Result<MessageId, CliError> {
        let id = match self.through {
            MessageName::Position(position) => return Ok(position),
            MessageName::Id(id) => id,
        };
        if let Some(position) = id.position_in(partition) {
            return Ok(position);
        }
        if id.is_old() {
            return Ok(MessageId(id.time()));
        }
        let doing = || cannot(format!("look into {partition}"));
        let browser = Browser::open(&stores.session, &stores.journals, &self.queue).await.map_err(doing())?;
        let partitions = browser.partitions(Some(self.partition)).map_err(doing())?;
        let found = browser.with_id(&partitions, id).await.map_err(doing())?;
        found.first().map(|found| found.message.id).ok_or_else(|| CliError::Refused {
            what: format!("there is no message {id} in {partition}"),
            help: format!("`menagerie queue get {} {id} -o json` shows its partition", self.queue),
        })
    }
}
