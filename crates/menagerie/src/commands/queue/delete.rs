//! `menagerie queue delete NAME`

use clap::Args;
use menagerie_queues::admin::{self, show};
use menagerie_znodes::queues::QueueName;
use serde_json::json;

use crate::exit::{CliError, cannot};
use crate::output::{FormatArg, count};
use crate::stores::StoreArgs;

/// Delete a queue and its handled messages.
#[derive(Debug, Args)]
pub struct Delete {
    /// Name of the queue.
    queue: QueueName,
    /// Delete it even if it has waiting or failed messages.
    #[arg(long)]
    force: bool,
    /// Do not contact the journal, because it is gone for good. If it comes back, it still has the messages.
    #[arg(long, requires = "force")]
    without_journal: bool,
    #[command(flatten)]
    format: FormatArg,
}

impl Delete {
    pub fn run(self, stores: StoreArgs) -> Result<(), CliError> {
        let queue = &self.queue;
        stores.change(async |stores| {
            let doing = || cannot(format!("delete queue {queue}"));
            if !self.force {
                let view = show::summary(&stores.session, &stores.journals, queue).await.map_err(doing())?;
                let waiting = view.lag() + view.delayed();
                if waiting + view.failed > 0 {
                    return Err(CliError::Refused {
                        what: format!(
                            "queue {queue} is not empty: {} waiting, {} failed",
                            count(waiting, "message"),
                            view.failed
                        ),
                        help: "to delete them too: --force".to_owned(),
                    });
                }
            }
            let deleted = match self.without_journal {
                true => admin::abandon(&stores.session, queue).await,
                false => admin::delete(&stores.session, &stores.journals, queue).await,
            };
            deleted.map_err(doing())?;
            let report = json!({ "queue": queue, "deleted": true });
            self.format.tell(&format!("queue {queue} is deleted"), &report)
        })
    }
}
