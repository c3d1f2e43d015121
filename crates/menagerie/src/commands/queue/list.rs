//! `menagerie queue list`

use clap::Args;
use menagerie_queues::admin::show::{self, QueueView};
use serde::Serialize;

use super::desk::DeskArgs;
use super::failed;
use super::show::{age, state};
use crate::exit::CliError;
use crate::output::{OutputArgs, Show, Table};

/// List all queues: how many messages wait, and for how long.
#[derive(Debug, Args)]
pub struct List {
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, Serialize)]
struct Row {
    queue: String,
    partitions: usize,
    owned: usize,
    lag: u64,
    oldest_ms: Option<u64>,
    delayed: u64,
    failed: u64,
    journal: String,
    state: &'static str,
}

#[derive(Debug, Serialize)]
#[serde(transparent)]
struct Listing(Vec<Row>);

impl Row {
    fn of(view: &QueueView) -> Self {
        Self {
            queue: view.queue.to_string(),
            partitions: view.partitions.len(),
            owned: view.partitions.iter().filter(|partition| partition.owner.is_some()).count(),
            lag: view.lag(),
            oldest_ms: view.oldest_ms(),
            delayed: view.delayed(),
            failed: view.failed,
            journal: view.journal.clone(),
            state: state(view),
        }
    }
}

impl List {
    /// Looks and prints.
    pub fn run(self, desk: DeskArgs) -> Result<(), CliError> {
        let output = self.output;
        desk.look(async |desk| {
            let look = async || {
                let mut rows = Vec::new();
                for queue in show::list(&desk.session).await.map_err(failed("list queues"))? {
                    let view = show::show(&desk.session, &desk.journals, &queue).await;
                    match view {
                        Ok(view) => rows.push(Row::of(&view)),
                        // Deleted a moment ago.
                        Err(menagerie_queues::QueueError::NoQueue { .. }) => {}
                        Err(error) => return Err(failed(format!("look at queue {queue}"))(error)),
                    }
                }
                Ok(Listing(rows))
            };
            output.print(look).await
        })
    }
}

impl Show for Listing {
    fn show(&self) -> String {
        if self.0.is_empty() {
            return "no queues yet: `menagerie queue create NAME --partitions N` makes one\n".to_owned();
        }
        let mut table =
            Table::new(["QUEUE", "PARTITIONS", "OWNED", "WAITING", "OLDEST", "DELAYED", "FAILED", "STATE"]);
        for row in &self.0 {
            table.row([
                row.queue.clone(),
                row.partitions.to_string(),
                row.owned.to_string(),
                row.lag.to_string(),
                age(row.oldest_ms),
                row.delayed.to_string(),
                row.failed.to_string(),
                row.state.to_owned(),
            ]);
        }
        table.text()
    }
}
