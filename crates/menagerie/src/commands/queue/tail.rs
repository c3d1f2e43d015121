//! `menagerie queue tail NAME [-f]`

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use menagerie_journal::MessageId;
use menagerie_queues::QueueError;
use menagerie_queues::admin::browse::{Browser, QueuedMessage};
use menagerie_znodes::queues::{PartitionName, QueueName};
use tokio::task::JoinSet;

use super::message;
use crate::exit::{CliError, cannot};
use crate::output::{self, FormatArg};
use crate::stores::StoreArgs;

/// One long poll of `tail -f`.
const POLL: Duration = Duration::from_secs(30);
/// Messages per partition and request.
const BATCH: u32 = 1000;

/// Show the newest messages, including handled ones.
#[derive(Debug, Args)]
pub struct Tail {
    /// Name of the queue.
    queue: QueueName,
    /// Only this partition.
    #[arg(short, long, value_name = "P")]
    partition: Option<u16>,
    /// Show the newest N messages.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10)]
    lines: u32,
    /// Keep printing new messages until Ctrl-C.
    #[arg(short, long)]
    follow: bool,
    #[command(flatten)]
    format: FormatArg,
}

impl Tail {
    pub fn run(self, stores: StoreArgs) -> Result<(), CliError> {
        stores.observe(async |stores| {
            let doing = || cannot(format!("look into queue {}", self.queue));
            let browser =
                Browser::open(&stores.session, &stores.journals, &self.queue).await.map_err(doing())?;
            let partitions = browser.partitions(self.partition).map_err(doing())?;
            // Read the newest ids first, so that no message falls between the two reads.
            let mut places = BTreeMap::new();
            for partition in &partitions {
                places.insert(partition.clone(), browser.last_id(partition).await.map_err(doing())?);
            }
            let newest = browser.newest(&partitions, self.lines).await.map_err(doing())?;
            message::print(&newest, self.format)?;
            for found in &newest {
                let last = places.entry(found.partition.clone()).or_insert(found.message.id);
                *last = found.message.id.max(*last);
            }
            match self.follow {
                true => tokio::select! {
                    followed = self.follow(browser, places) => followed,
                    gone = output::reader_gone() => Err(gone),
                },
                false => Ok(()),
            }
        })
    }

    async fn follow(
        &self,
        browser: Browser,
        places: BTreeMap<PartitionName, MessageId>,
    ) -> Result<(), CliError> {
        type Polled = (PartitionName, MessageId, Result<Vec<QueuedMessage>, QueueError>);
        let browser = Arc::new(browser);
        let mut polls: JoinSet<Polled> = JoinSet::new();
        let poll = |polls: &mut JoinSet<Polled>, partition: PartitionName, after: MessageId| {
            let browser = browser.clone();
            polls.spawn(async move {
                let found = browser.read_after(&partition, after, BATCH, POLL).await;
                (partition, after, found)
            });
        };
        for (partition, last) in places {
            poll(&mut polls, partition, last);
        }
        while let Some(Ok((partition, after, found))) = polls.join_next().await {
            let found = found.map_err(cannot(format!("look into queue {}", self.queue)))?;
            message::print(&found, self.format)?;
            let after = found.last().map_or(after, |last| last.message.id);
            poll(&mut polls, partition, after);
        }
        Ok(())
    }
}
