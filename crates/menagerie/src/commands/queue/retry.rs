//! `menagerie queue retry NAME ID…|--all`

use clap::Args;
use menagerie_journal::MessageId;
use menagerie_queues::MessageUuid;
use menagerie_queues::admin::failed::{FailedMessage, FailedMessages};
use menagerie_znodes::queues::QueueName;
use serde_json::json;

use super::failed::{BATCH, doing, open};
use crate::exit::CliError;
use crate::output::{FormatArg, count};
use crate::progress::Meter;
use crate::stores::StoreArgs;

/// Put failed messages back into their partitions, at the end, each under the id it has and with its attempts reset.
#[derive(Debug, Args)]
pub struct Retry {
    /// Name of the queue.
    queue: QueueName,
    #[command(flatten)]
    which: WhichArgs,
    #[command(flatten)]
    format: FormatArg,
}

/// Which of them.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub struct WhichArgs {
    /// Ids of the messages, as `queue put` and `queue failed` show them.
    #[arg(value_name = "ID")]
    ids: Vec<MessageUuid>,
    /// All failed messages there are now.
    #[arg(long)]
    all: bool,
}

impl WhichArgs {
    /// Applies `work` to each message and counts. A missing id is an error, unless `--all` was given.
    pub async fn each(
        &self,
        queue: &QueueName,
        messages: &FailedMessages,
        step: &str,
        mut work: impl AsyncFnMut(&FailedMessage) -> Result<bool, CliError>,
    ) -> Result<u64, CliError> {
        let mut meter = Meter::new();
        let mut done = 0;
        for id in &self.ids {
            let found = messages.find(*id).await.map_err(doing(queue))?;
            let worked = match &found {
                Some(found) => work(found).await?,
                None => false,
            };
            if !worked {
                return Err(CliError::Refused {
                    what: format!("there is no message {id} among the failed ones of queue {queue}"),
                    help: format!("`menagerie queue failed {queue}` shows them"),
                });
            }
            done += 1;
        }
        if !self.all {
            return Ok(done);
        }
        // Stop at what is the newest now: retried messages may fail again meanwhile.
        let newest = messages.newest().await.map_err(doing(queue))?;
        let mut after = MessageId::ZERO;
        while after < newest {
            let batch = messages.after(after, BATCH).await.map_err(doing(queue))?;
            let Some(last) = batch.last() else { break };
            after = last.position;
            for failed in batch.iter().filter(|failed| failed.position <= newest) {
                done += u64::from(work(failed).await?);
                meter.show(step, done, None);
            }
        }
        Ok(done)
    }
}

impl Retry {
    pub fn run(self, stores: StoreArgs) -> Result<(), CliError> {
        stores.change(async |stores| {
            let messages = open(stores, &self.queue).await?;
            let retried = self
                .which
                .each(&self.queue, &messages, "sent back", async |failed| {
                    messages.retry(failed).await.map_err(doing(&self.queue))
                })
                .await?;
            let text = format!("{} sent back to queue {}", count(retried, "message"), self.queue);
            self.format.tell(&text, &json!({ "queue": self.queue, "retried": retried }))
        })
    }
}
