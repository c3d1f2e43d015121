//! `menagerie journal cat` and `tail`: messages as they are.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use menagerie_journal::{Client, Journal as _, Message, MessageId, Order, PartitionId, Read, Topic};
use serde::Serialize;

use super::target::{TargetArgs, failed};
use crate::exit::CliError;
use crate::output::{FormatArg, Show};

/// One long poll of `tail -f`.
const POLL: Duration = Duration::from_secs(30);
/// Messages asked for at once.
const BATCH: u32 = 1000;

/// Print the messages of a partition, oldest first.
#[derive(Debug, Args)]
pub struct Cat {
    /// The topic.
    topic: Topic,
    /// The partition.
    #[arg(short, long, default_value_t = 1)]
    partition: u32,
    /// Only what is behind this id (a UUID, or seconds).
    #[arg(long, value_name = "ID", default_value = "0")]
    after: MessageId,
    /// At most so many.
    #[arg(short = 'n', long, value_name = "N")]
    limit: Option<u64>,
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    format: FormatArg,
}

/// Print the newest messages of a partition.
#[derive(Debug, Args)]
pub struct Tail {
    /// The topic.
    topic: Topic,
    /// The partition.
    #[arg(short, long, default_value_t = 1)]
    partition: u32,
    /// How many.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10)]
    lines: u32,
    /// Go on with what comes, until Ctrl-C.
    #[arg(short, long)]
    follow: bool,
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    format: FormatArg,
}

/// A message; what is no text is shown as base64.
#[derive(Debug, Serialize)]
struct View {
    id: String,
    timestamp: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body_base64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    meta: Option<String>,
}

impl View {
    fn new(message: &Message) -> Self {
        let body = String::from_utf8(message.body.to_vec()).ok();
        let body_base64 = body.is_none().then(|| STANDARD.encode(&message.body));
        let meta = (!message.meta.is_empty()).then(|| String::from_utf8_lossy(&message.meta).into_owned());
        Self { id: message.id.to_string(), timestamp: message.id.seconds(), body, body_base64, meta }
    }
}

impl Show for View {
    fn show(&self) -> String {
        let body = self.body.as_deref().or(self.body_base64.as_deref()).unwrap_or_default();
        format!("{}  {body}\n", self.id)
    }
}

fn print(messages: &[Message], format: FormatArg) -> Result<(), CliError> {
    messages.iter().try_for_each(|message| format.print_line(&View::new(message)))
}

impl Cat {
    /// Reads and prints.
    pub fn run(self) -> Result<(), CliError> {
        let Self { topic, partition, mut after, limit, target, format } = self;
        let mut left = limit.unwrap_or(u64::MAX);
        let doing = format!("read {topic}");
        let partition = PartitionId::new(topic, partition);
        target.run(async |journal| {
            while left > 0 {
                let read = Read::after(partition.clone(), after)
                    .limit(u32::try_from(left).unwrap_or(BATCH).min(BATCH));
                let batch = journal.read(read).await.map_err(failed(doing.clone()))?;
                print(&batch.messages, format)?;
                let Some(last) = batch.messages.last() else { break };
                after = last.id;
                left -= batch.messages.len() as u64;
            }
            Ok(())
        })
    }
}

impl Tail {
    /// Reads and prints, and goes on if that was asked for.
    pub fn run(self) -> Result<(), CliError> {
        let Self { topic, partition, lines, follow, target, format } = self;
        let partition = PartitionId::new(topic, partition);
        target.run(async |journal| {
            let read = Read { order: Order::Descending, ..Read::after(partition.clone(), MessageId::ZERO) };
            let mut batch = read_batch(journal, read.limit(lines), &partition).await?;
            batch.messages.reverse();
            print(&batch.messages, format)?;
            if !follow {
                return Ok(());
            }
            let mut after = batch.last;
            loop {
                let read = Read::after(partition.clone(), after).limit(BATCH).wait(POLL);
                let batch = read_batch(journal, read, &partition).await?;
                print(&batch.messages, format)?;
                after = batch.messages.last().map_or(after, |last| last.id);
            }
        })
    }
}

async fn read_batch(
    journal: &Client,
    read: Read,
    partition: &PartitionId,
) -> Result<menagerie_journal::Batch, CliError> {
    journal.read(read).await.map_err(failed(format!("read {}", partition.topic)))
}
