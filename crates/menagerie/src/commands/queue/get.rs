//! `menagerie queue get NAME ID`

use clap::Args;
use menagerie_journal::MessageId;
use menagerie_queues::admin::browse::{Browser, QueuedMessage};
use menagerie_znodes::queues::QueueName;

use super::message;
use crate::exit::{CliError, cannot};
use crate::output::{self, Format, FormatArg};
use crate::stores::StoreArgs;

/// Print the body of one message, verbatim; with -o json, all its fields.
#[derive(Debug, Args)]
pub struct Get {
    /// Name of the queue.
    queue: QueueName,
    /// Message id (a UUID, or seconds).
    id: MessageId,
    /// Search only this partition.
    #[arg(short, long, value_name = "P")]
    partition: Option<u16>,
    #[command(flatten)]
    format: FormatArg,
}

fn places(found: &[QueuedMessage]) -> String {
    let names: Vec<String> = found.iter().map(|found| found.partition.to_string()).collect();
    names.join(", ")
}

impl Get {
    pub fn run(self, stores: StoreArgs) -> Result<(), CliError> {
        stores.observe(async |stores| {
            let doing = || cannot(format!("look into queue {}", self.queue));
            let browser =
                Browser::open(&stores.session, &stores.journals, &self.queue).await.map_err(doing())?;
            let partitions = browser.partitions(self.partition).map_err(doing())?;
            let found = browser.with_id(&partitions, self.id).await.map_err(doing())?;
            match (found.as_slice(), self.format.output) {
                ([], _) => Err(CliError::Refused {
                    what: format!("there is no message {} in queue {}", self.id, self.queue),
                    help: format!(
                        "`menagerie queue tail {0}` shows the newest, `menagerie queue failed {0}` those given up",
                        self.queue
                    ),
                }),
                (found, Format::Json) => message::print(found, self.format),
                ([only], Format::Table) => output::write_bytes(&only.message.body),
                (several, Format::Table) => Err(CliError::Refused {
                    what: format!("there are messages {} in {}", self.id, places(several)),
                    help: "say which one with --partition, or print all with -o json".to_owned(),
                }),
            }
        })
    }
}
