//! `menagerie queue list`

use clap::Args;
use menagerie_queues::view::{self, QueueRow, QueueState};
use menagerie_znodes::queues::QueueName;

use super::show::age;
use crate::exit::{CliError, cannot};
use crate::output::{OutputArgs, Row, Rows};
use crate::stores::StoreArgs;

/// List all queues: how many messages are waiting, and for how long.
#[derive(Debug, Args)]
pub struct List {
    #[command(flatten)]
    output: OutputArgs,
}

impl List {
    pub fn run(self, stores: StoreArgs) -> Result<(), CliError> {
        let output = self.output;
        stores.observe(async |stores| {
            let mut away = None;
            let read = async || {
                let found = view::rows(&stores.session, &stores.journals).await;
                let found = found.map_err(|error| cannot(doing(error.queue.as_ref()))(error.source))?;
                let mut rows = Vec::new();
                for (row, error) in found {
                    if let Some(error) = error {
                        away.get_or_insert_with(|| cannot(doing(Some(&row.queue)))(error));
                    }
                    rows.push(row);
                }
                Ok(Rows(rows))
            };
            output.print(read).await?;
            away.map_or(Ok(()), Err)
        })
    }
}

/// What went wrong, as errors say.
fn doing(queue: Option<&QueueName>) -> String {
    queue.map_or_else(|| "list queues".to_owned(), |queue| format!("look at queue {queue}"))
}

fn number_or_dash(known: Option<u64>) -> String {
    known.map_or("-".to_owned(), |number| number.to_string())
}

impl Row for QueueRow {
    const HEADS: &[&str] =
        &["QUEUE", "PARTITIONS", "OWNED", "WAITING", "OLDEST", "DELAYED", "FAILED", "STATE"];
    const NONE: Option<&str> = Some("no queues yet: `menagerie queue create NAME --partitions N` makes one");

    fn cells(&self) -> Vec<String> {
        vec![
            self.queue.to_string(),
            number_or_dash(self.partitions.map(|partitions| partitions as u64)),
            number_or_dash(self.owned.map(|owned| owned as u64)),
            number_or_dash(self.lag),
            age(self.oldest_ms),
            number_or_dash(self.delayed),
            number_or_dash(self.failed),
            match (self.state, &self.reason) {
                // The reason, printed below the table, says where we searched.
                (QueueState::JournalAway, _) | (_, None) => self.state.to_string(),
                (state, Some(reason)) => format!("{state}: {reason}"),
            },
        ]
    }
}
