//! `menagerie queue list`

use clap::Args;
use menagerie_queues::QueueError;
use menagerie_queues::admin::show::{self, QueueView};
use menagerie_znodes::queues::QueueName;
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
    /// What follows is not known when its journal is away.
    partitions: Option<usize>,
    owned: Option<usize>,
    lag: Option<u64>,
    oldest_ms: Option<u64>,
    delayed: Option<u64>,
    failed: Option<u64>,
    journal: Option<String>,
    state: &'static str,
}

#[derive(Debug, Serialize)]
#[serde(transparent)]
struct Listing(Vec<Row>);

impl Row {
    fn of(view: &QueueView) -> Self {
        Self {
            queue: view.queue.to_string(),
            partitions: Some(view.partitions.len()),
            owned: Some(view.partitions.iter().filter(|partition| partition.owner.is_some()).count()),
            lag: Some(view.lag()),
            oldest_ms: view.oldest_ms(),
            delayed: Some(view.delayed()),
            failed: Some(view.failed),
            journal: Some(view.journal.clone()),
            state: state(view),
        }
    }

    fn unknown(queue: &QueueName) -> Self {
        Self {
            queue: queue.to_string(),
            partitions: None,
            owned: None,
            lag: None,
            oldest_ms: None,
            delayed: None,
            failed: None,
            journal: None,
            state: "journal away",
        }
    }
}

impl List {
    /// Looks and prints.
    pub fn run(self, desk: DeskArgs) -> Result<(), CliError> {
        let output = self.output;
        desk.look(async |desk| {
            let mut away = None;
            let look = async || {
                let mut rows = Vec::new();
                for queue in show::list(&desk.session).await.map_err(failed("list queues"))? {
                    let view = show::show(&desk.session, &desk.journals, &queue).await;
                    match view {
                        Ok(view) => rows.push(Row::of(&view)),
                        // Deleted a moment ago.
                        Err(QueueError::NoQueue { .. }) => {}
                        // That of one queue says nothing about those of others.
                        Err(error @ (QueueError::Journal(_) | QueueError::NoJournal { .. })) => {
                            rows.push(Row::unknown(&queue));
                            away.get_or_insert(failed(format!("look at queue {queue}"))(error));
                        }
                        Err(error) => return Err(failed(format!("look at queue {queue}"))(error)),
                    }
                }
                Ok(Listing(rows))
            };
            output.print(look).await?;
            away.map_or(Ok(()), Err)
        })
    }
}

fn number(known: Option<u64>) -> String {
    known.map_or("-".to_owned(), |number| number.to_string())
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
                number(row.partitions.map(|partitions| partitions as u64)),
                number(row.owned.map(|owned| owned as u64)),
                number(row.lag),
                age(row.oldest_ms),
                number(row.delayed),
                number(row.failed),
                row.state.to_owned(),
            ]);
        }
        table.text()
    }
}
