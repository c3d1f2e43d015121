//! `menagerie queue list`

use clap::Args;
use menagerie_journal::JournalError;
use menagerie_kernel::{CallError, whole};
use menagerie_queues::QueueError;
use menagerie_queues::admin::show::{self, QueueView};
use menagerie_znodes::queues::{Keep, QueueName};
use serde::Serialize;

use super::show::{age, state};
use crate::exit::{CliError, cannot};
use crate::output::{OutputArgs, Row, Rows};
use crate::stores::StoreArgs;

/// List all queues: how many messages are waiting, and for how long.
#[derive(Debug, Args)]
pub struct List {
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, Serialize)]
struct QueueRow {
    queue: String,
    /// The following are `null` while the queue's journal is away.
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
    /// Why they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

/// A word for an error that concerns only this queue, such that listing can go on; `None` for any other.
fn short_reason(error: &QueueError) -> Option<&'static str> {
    match error {
        QueueError::Journal(JournalError::Denied(_)) => Some("refused by its journal"),
        QueueError::Journal(JournalError::Damaged(_)) => Some("journal damaged"),
        QueueError::Journal(JournalError::NoTopic { .. }) => Some("not in its journal"),
        QueueError::Journal(_) | QueueError::NoJournal { .. } => Some("journal away"),
        QueueError::Call(CallError::Payload { .. }) => Some("unreadable"),
        _ => None,
    }
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
            reason: None,
        }
    }

    fn unknown(queue: &QueueName, state: &'static str, error: &QueueError) -> Self {
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
            state,
            reason: Some(match error {
                QueueError::Journal(error) => error.to_string(),
                QueueError::Call(error) => error.to_string(),
                error => whole(error).to_string(),
            }),
        }
    }
}

impl List {
    pub fn run(self, stores: StoreArgs) -> Result<(), CliError> {
        let output = self.output;
        stores.observe(async |stores| {
            let mut away = None;
            let read = async || {
                let mut rows = Vec::new();
                let all = show::all(&stores.session, &stores.journals).await;
                for (queue, view) in all.map_err(cannot("list queues"))? {
                    match view.map_err(|error| (short_reason(&error), error)) {
                        Ok(view) => rows.push(QueueRow::of(&view)),
                        // Deleted a moment ago.
                        Err((_, QueueError::NoQueue { .. })) => {}
                        Err((Some(state), error)) => {
                            rows.push(QueueRow::unknown(&queue, state, &error));
                            away.get_or_insert(cannot(format!("look at queue {queue}"))(error));
                        }
                        Err((None, error)) => return Err(cannot(format!("look at queue {queue}"))(error)),
                    }
                }
                Ok(Rows(rows))
            };
            output.print(read).await?;
            away.map_or(Ok(()), Err)
        })
    }
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
            self.queue.clone(),
            number_or_dash(self.partitions.map(|partitions| partitions as u64)),
            number_or_dash(self.owned.map(|owned| owned as u64)),
            number_or_dash(self.lag),
            age(self.oldest_ms),
            number_or_dash(self.delayed),
            number_or_dash(self.failed),
            match (self.state, &self.reason) {
                // The reason, printed below the table, says where we searched.
                ("journal away", _) | (_, None) => self.state.to_owned(),
                (state, Some(reason)) => format!("{state}: {reason}"),
            },
        ]
    }
}
