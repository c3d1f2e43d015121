//! `menagerie queue get NAME ID`

use clap::Args;
use menagerie_queues::admin::browse::{Browser, Looked, QueuedMessage};
use menagerie_queues::admin::delayed::DelayedMessage;
use menagerie_queues::view::DelayedMessageView;
use menagerie_znodes::queues::{PartitionName, QueueName};

use super::message_name::MessageName;
use super::{delayed, failed, message};
use crate::exit::{CliError, cannot};
use crate::output::{self, Format, FormatArg};
use crate::stores::{StoreArgs, Stores};

/// Print the body of one message, verbatim; with -o json, all its fields.
#[derive(Debug, Args)]
pub struct Get {
    /// Name of the queue.
    queue: QueueName,
    /// Message id, as `queue put` printed it; or its position, in seconds.
    id: MessageName,
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
            if let Some(delayed) = self.delayed(stores).await? {
                return match self.format.output {
                    Format::Json => self.format.print_line(&DelayedMessageView::of(&delayed)),
                    Format::Table => output::write_bytes(&delayed.message.body),
                };
            }
            let Looked { found, stopped_after } = self.find(stores).await?;
            match (found.as_slice(), self.format.output) {
                ([], _) => Err(CliError::Refused {
                    what: match stopped_after {
                        None => format!("there is no message {} in queue {}", self.id, self.queue),
                        Some(newest) => format!(
                            "there is no message {} among the newest {newest} messages of queue {}, and older ones were not \
                             looked at",
                            self.id, self.queue
                        ),
                    },
                    help: format!(
                        "it may be of another queue, or older than this one keeps; `menagerie queue tail {0}` shows the newest, \
                         `menagerie queue failed {0}` those given up",
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

    /// The message, if it is not due yet. Only an id that was chosen at its put can be such a message's.
    async fn delayed(&self, stores: &Stores) -> Result<Option<DelayedMessage>, CliError> {
        let partitions = self.browser(stores).await?.1;
        let MessageName::Id(id) = self.id else { return Ok(None) };
        let may_be = partitions.iter().any(|partition| id.may_be_chosen_for(partition));
        if self.queue.failures_of().is_some() || !may_be {
            return Ok(None);
        }
        let delayed = delayed::open(stores, &self.queue, self.partition).await?;
        delayed.find(id).await.map_err(delayed::doing(&self.queue))
    }

    /// The message in its queue, or among the failed ones if its queue has dropped it.
    async fn find(&self, stores: &Stores) -> Result<Looked, CliError> {
        let (browser, partitions) = self.browser(stores).await?;
        let id = match self.id {
            MessageName::Position(position) => {
                let found = browser.at(&partitions, position).await.map_err(self.doing())?;
                return Ok(Looked { found, stopped_after: None });
            }
            MessageName::Id(id) => id,
        };
        let looked = browser.look_for(&partitions, id).await.map_err(self.doing())?;
        if !looked.found.is_empty() || self.queue.failures_of().is_some() || self.partition.is_some() {
            return Ok(looked);
        }
        let failed = failed::open(stores, &self.queue).await?;
        let found = failed.find(id).await.map_err(failed::doing(&self.queue))?;
        let queued = |message| QueuedMessage { partition: PartitionName::clone(failed.place()), message };
        let found = found.into_iter().map(|found| queued(found.message)).collect();
        Ok(Looked { found, ..looked })
    }

    async fn browser(&self, stores: &Stores) -> Result<(Browser, Vec<PartitionName>), CliError> {
        let browser = Browser::open(&stores.session, &stores.journals, &self.queue).await;
        let browser = browser.map_err(self.doing())?;
        let partitions = browser.partitions(self.partition).map_err(self.doing())?;
        Ok((browser, partitions))
    }

    fn doing(&self) -> impl FnOnce(menagerie_queues::QueueError) -> CliError + use<> {
        cannot(format!("look into queue {}", self.queue))
    }
}
