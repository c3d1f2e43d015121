//! `menagerie queue list`

use clap::Args;
use menagerie_queues::QueueError;
use menagerie_queues::admin::show::{self, QueueView};
use menagerie_znodes::queues::{Keep, QueueName};
use serde::Serialize;

use super::desk::DeskArgs;
use super::failed;
use super::show::{age, state};
use crate::exit::CliError;
use crate::output::{OutputArgs, Row, Rows};

/// List all queues: how many messages wait, and for how long.
#[derive(Debug, Args)]
pub struct List {
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, Serialize)]
struct QueueRow {
    queue: String,
    /// What follows is not known when its journal is away.
    partitions: Option<usize>,
    owned: Option<usize>,
    lag: Option<u64>,
    oldest_ms: Option<u64>,
    delayed: Option<u64>,
    failed: Option<u64>,
    journal: Option<String>,
    #[serde(rename = "keep_ms")]
    keep: Option<Keep>,
    state: &'static str,
}

impl QueueRow {
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
            keep: Some(view.keep),
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
            keep: None,
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
                        Ok(view) => rows.push(QueueRow::of(&view)),
                        // Deleted a moment ago.
                        Err(QueueError::NoQueue { .. }) => {}
                        // That of one queue says nothing about those of others.
                        Err(error @ (QueueError::Journal(_) | QueueError::NoJournal { .. })) => {
                            rows.push(QueueRow::unknown(&queue));
                            away.get_or_insert(failed(format!("look at queue {queue}"))(error));
                        }
                        Err(error) => return Err(failed(format!("look at queue {queue}"))(error)),
                    }
                }
                Ok(Rows(rows))
            };
            output.print(look).await?;
            away.map_or(Ok(()), Err)
        })
    }
}

fn number(known: Option<u64>) -> String {
    known.map_or("-".to_owned(), |number| number.to_string())
}

impl Row for QueueRow {
    const HEADS: &[&str] =
        &["QUEUE", "PARTITIONS", "OWNED", "WAITING", "OLDEST", "DELAYED", "FAILED", "STATE"];
    const NONE: Option<&str> = Some("no queues yet: `menagerie queue create NAME --partitions N` makes one");

    fn cells(&self) -> Vec<String> {
        vec![
            self.queue.clone(),
            number(self.partitions.map(|partitions| partitions as u64)),
            number(self.owned.map(|owned| owned as u64)),
            number(self.lag),
            age(self.oldest_ms),
            number(self.delayed),
            number(self.failed),
            self.state.to_owned(),
        ]
    }
}
