//! `menagerie queue delayed NAME`

use std::time::{SystemTime, UNIX_EPOCH};

use clap::Args;
use menagerie_journal::Ticks;
use menagerie_queues::admin::delayed::DelayedMessages;
use menagerie_queues::view::DelayedMessageView;
use menagerie_znodes::queues::QueueName;

use super::message::shorten;
use crate::clock;
use crate::exit::{CliError, cannot};
use crate::output::{FormatArg, Row, Rows, Show};
use crate::stores::{StoreArgs, Stores};
use crate::who;

/// Show delayed messages that are not due yet, earliest first.
#[derive(Debug, Args)]
pub struct Delayed {
    /// Name of the queue.
    queue: QueueName,
    /// Only this partition.
    #[arg(short, long, value_name = "P")]
    partition: Option<u16>,
    /// Show at most N messages.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 100)]
    limit: u32,
    #[command(flatten)]
    format: FormatArg,
}

impl Row for DelayedMessageView {
    const HEADS: &[&str] = &["DUE", "ID", "PARTITION", "BYTES", "BODY"];
    const NONE: Option<&str> = Some("no message is delayed");

    fn cells(&self) -> Vec<String> {
        vec![
            utc(self.due_at),
            self.id.clone(),
            self.partition.to_string(),
            self.bytes.to_string(),
            shorten(&self.body.line()),
        ]
    }
}

impl Show for DelayedMessageView {
    fn show(&self) -> String {
        format!("{}  {}  {}\n", self.id, self.partition, self.body.line())
    }
}

fn utc(ticks: Ticks) -> String {
    // A due time is in the future, and so after 1970.
    let since = SystemTime::from(ticks).duration_since(UNIX_EPOCH).unwrap_or_default();
    clock::utc(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

impl Delayed {
    pub fn run(self, stores: StoreArgs) -> Result<(), CliError> {
        stores.observe(async |stores| {
            let delayed = open(stores, &self.queue, self.partition).await?;
            let found = delayed.next(self.limit).await.map_err(doing(&self.queue))?;
            self.format.print(&Rows(found.iter().map(DelayedMessageView::of).collect()))
        })
    }
}

/// The delayed messages of a queue, or of a partition.
pub async fn open(
    stores: &Stores,
    queue: &QueueName,
    partition: Option<u16>,
) -> Result<DelayedMessages, CliError> {
    let opened = DelayedMessages::open(&stores.session, &stores.journals, queue, partition).await;
    Ok(opened.map_err(doing(queue))?.acting_as(&who::operator()))
}

pub fn doing(queue: &QueueName) -> impl FnOnce(menagerie_queues::QueueError) -> CliError + use<> {
    cannot(format!("access the delayed messages of queue {queue}"))
}
