//! `menagerie journal cat` and `tail`: raw messages.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use menagerie_journal::{Batch, Client, Journal as _, Message, MessageId, PartitionId, Read, Topic};
use serde::Serialize;

use super::target::TargetArgs;
use crate::exit::{CliError, cannot};
use crate::output::{FormatArg, Show};

/// One long poll of `tail -f`.
const POLL: Duration = Duration::from_secs(30);
/// Messages per request.
const BATCH: u32 = 1000;

/// Print the messages of a partition, oldest first.
#[derive(Debug, Args)]
pub struct Cat {
    /// Topic to read.
    topic: Topic,
    /// Partition to read.
    #[arg(short, long, default_value_t = 1)]
    partition: u32,
    /// Print only messages after this id (a UUID, or seconds).
    #[arg(long, value_name = "ID", default_value = "0")]
    after: MessageId,
    /// Print at most N messages.
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
    /// Topic to read.
    topic: Topic,
    /// Partition to read.
    #[arg(short, long, default_value_t = 1)]
    partition: u32,
    /// Print the newest N messages.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10)]
    lines: u32,
    /// Keep printing new messages until Ctrl-C.
    #[arg(short, long)]
    follow: bool,
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    format: FormatArg,
}

/// A message; a body that is not text is shown as base64.
#[derive(Debug, Serialize)]
struct MessageView {
    id: String,
    timestamp: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body_base64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    meta: Option<String>,
}

impl MessageView {
    fn new(message: &Message) -> Self {
        let body = String::from_utf8(message.body.to_vec()).ok();
        let body_base64 = body.is_none().then(|| STANDARD.encode(&message.body));
        let meta = (!message.meta.is_empty()).then(|| String::from_utf8_lossy(&message.meta).into_owned());
        Self { id: message.id.to_string(), timestamp: message.id.seconds(), body, body_base64, meta }
    }
}

impl Show for MessageView {
    fn show(&self) -> String {
        let body = self.body.as_deref().or(self.body_base64.as_deref()).unwrap_or_default();
        format!("{}  {body}\n", self.id)
    }
}

fn print(messages: &[Message], format: FormatArg) -> Result<(), CliError> {
    messages.iter().try_for_each(|message| format.print_line(&MessageView::new(message)))
}

/// Reads batch after batch and reports gaps between them on stderr, so that stdout stays data.
struct Reader<'a> {
    journal: &'a Client,
    partition: PartitionId,
    gap: Option<MessageId>,
}

impl<'a> Reader<'a> {
    fn new(journal: &'a Client, partition: PartitionId) -> Self {
        Self { journal, partition, gap: None }
    }

    async fn read(&mut self, read: Read) -> Result<Batch, CliError> {
        let doing = format!("read {}", self.partition.topic);
        let batch = self.journal.read(read).await.map_err(cannot(doing))?;
        if batch.gap > self.gap {
            self.gap = batch.gap;
            let through = batch.gap.unwrap_or_default();
            eprintln!("a gap: retention or a trim has dropped all messages up to {through}");
        }
        Ok(batch)
    }

    /// The newest messages, oldest first, and the newest id assigned. One read may return fewer than asked for.
    async fn newest(&mut self, count: u32) -> Result<(Vec<Message>, MessageId), CliError> {
        let (mut found, mut last) = (Vec::new(), None);
        let mut before = MessageId::MAX;
        while found.len() < count as usize {
            let read = Read { before, ..Read::after(self.partition.clone(), MessageId::ZERO) }.descending();
            let batch = self.read(read.limit(count - found.len() as u32)).await?;
            last.get_or_insert(batch.last);
            let Some(oldest) = batch.messages.last() else { break };
            before = oldest.id;
            found.extend(batch.messages);
        }
        found.reverse();
        Ok((found, last.unwrap_or_default()))
    }
}

impl Cat {
    pub fn run(self) -> Result<(), CliError> {
        let Self { topic, partition, mut after, limit, target, format } = self;
        let mut left = limit.unwrap_or(u64::MAX);
        let partition = PartitionId::new(topic, partition);
        target.run(async |journal| {
            let mut reader = Reader::new(journal, partition.clone());
            while left > 0 {
                let read = Read::after(partition.clone(), after)
                    .limit(u32::try_from(left).unwrap_or(BATCH).min(BATCH));
                let batch = reader.read(read).await?;
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
    pub fn run(self) -> Result<(), CliError> {
        let Self { topic, partition, lines, follow, target, format } = self;
        let partition = PartitionId::new(topic, partition);
        target.run(async |journal| {
            let mut reader = Reader::new(journal, partition.clone());
            let (newest, mut after) = reader.newest(lines).await?;
            print(&newest, format)?;
            if !follow {
                return Ok(());
            }
            loop {
                let read = Read::after(partition.clone(), after).limit(BATCH).wait(POLL);
                let batch = reader.read(read).await?;
                print(&batch.messages, format)?;
                after = batch.messages.last().map_or(after, |last| last.id);
            }
        })
    }
}
