//! `menagerie queue peek NAME`

use clap::Args;
use menagerie_queues::admin::browse::Browser;
use menagerie_znodes::queues::QueueName;

use super::message;
use crate::exit::{CliError, cannot};
use crate::output::FormatArg;
use crate::stores::StoreArgs;

/// Show the next waiting messages, oldest first, without taking them.
#[derive(Debug, Args)]
pub struct Peek {
    /// Name of the queue.
    queue: QueueName,
    /// Only this partition.
    #[arg(short, long, value_name = "P")]
    partition: Option<u16>,
    /// Show at most N messages.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10)]
    limit: u32,
    #[command(flatten)]
    format: FormatArg,
}

impl Peek {
    pub fn run(self, stores: StoreArgs) -> Result<(), CliError> {
        stores.observe(async |stores| {
            let doing = || cannot(format!("look into queue {}", self.queue));
            let browser =
                Browser::open(&stores.session, &stores.journals, &self.queue).await.map_err(doing())?;
            let partitions = browser.partitions(self.partition).map_err(doing())?;
            let found = browser.waiting(&stores.session, &partitions, self.limit).await.map_err(doing())?;
            message::print(&found, self.format)
        })
    }
}
