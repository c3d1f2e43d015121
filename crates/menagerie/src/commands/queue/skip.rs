//! `menagerie queue skip NAME --partition P --through ID`

use clap::Args;
use menagerie_journal::MessageId;
use menagerie_queues::MessageUuid;
use menagerie_queues::admin;
use menagerie_queues::admin::browse::{Browser, Looked, QueuedMessage};
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
        let doing = || cannot(format!("look into {partition}"));
        let browser = Browser::open(&stores.session, &stores.journals, &self.queue).await.map_err(doing())?;
        let first = match id.is_old() {
            true => Some(MessageId(id.time())),
            false => id.position_in(partition),
        };
        if let Some(first) = first {
            let back = browser.put_back(id).await.map_err(doing())?;
            return back.map_or(Ok(first), |back| Err(self.moved(id, first, &back)));
        }
        let partitions = browser.partitions(Some(self.partition)).map_err(doing())?;
        let Looked { found, stopped_after } = browser.look_for(&partitions, id).await.map_err(doing())?;
        found.first().map(|found| found.message.id).ok_or_else(|| CliError::Refused {
            what: match stopped_after {
                None => format!("there is no message {id} in {partition}"),
                Some(newest) => {
                    format!("there is no message {id} among the newest {newest} messages of {partition}")
                }
            },
            help: format!("`menagerie queue get {} {id} -o json` shows its partition", self.queue),
        })
    }

    /// Its id says where it stood first, and somebody has put it back since: which of the two is meant?
    fn moved(&self, id: MessageUuid, first: MessageId, back: &QueuedMessage) -> CliError {
        let (first, now, queue) = (first.seconds(), back.message.id.seconds(), &self.queue);
        let here = self.queue.partition(self.partition);
        CliError::Refused {
            what: format!(
                "message {id} stood at {first} of {here} until it failed, and stands at {now} of {} since it was retried",
                back.partition
            ),
            help: format!(
                "say which one is meant by its position: `menagerie queue skip {queue} --partition P --through POSITION`"
            ),
        }
    }
}
