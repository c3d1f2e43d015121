//! `menagerie journal stat [TOPIC]`: usage, and how far each consumer is.

use clap::Args;
use menagerie_journal::{
    Client, ConsumerStats, Fence, Journal as _, MessageId, PartitionStats, Topic, Usage,
};
use menagerie_types::fence::FenceNumbers;
use serde::{Serialize, Serializer};

use super::target::TargetArgs;
use crate::exit::{CliError, cannot};
use crate::output::{OutputArgs, Show, Table};

/// Show how full the journal is, or the partitions and consumers of one topic.
#[derive(Debug, Args)]
pub struct Stat {
    /// Topic to show [default: the whole journal].
    topic: Option<Topic>,
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum StatView {
    Whole(Usage),
    Partitions(#[serde(serialize_with = "partitions")] Vec<PartitionStats>),
}

/// A partition in JSON: ids as text, `null` if there is none yet.
#[derive(Debug, Serialize)]
struct PartitionView {
    partition: u32,
    messages: u64,
    bytes: u64,
    first: Option<String>,
    last: Option<String>,
    trimmed: Option<String>,
    delayed: u64,
    consumers: Vec<ConsumerView>,
}

#[derive(Debug, Serialize)]
struct ConsumerView {
    consumer: String,
    #[serde(with = "FenceNumbers")]
    fence: Fence,
    position: Option<String>,
    lag: u64,
}

fn id(id: MessageId) -> Option<String> {
    (id != MessageId::ZERO).then(|| id.to_string())
}

impl From<&PartitionStats> for PartitionView {
    fn from(stats: &PartitionStats) -> Self {
        let consumer = |reader: &ConsumerStats| ConsumerView {
            consumer: reader.consumer.to_string(),
            fence: reader.fence,
            position: id(reader.position),
            lag: reader.lag,
        };
        Self {
            partition: stats.partition,
            messages: stats.messages,
            bytes: stats.bytes,
            first: stats.first.and_then(id),
            last: id(stats.last),
            trimmed: id(stats.trimmed),
            delayed: stats.delayed,
            consumers: stats.consumers.iter().map(consumer).collect(),
        }
    }
}

fn partitions<S: Serializer>(stats: &[PartitionStats], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(stats.iter().map(PartitionView::from))
}

impl Show for StatView {
    fn show(&self) -> String {
        match self {
            Self::Whole(usage) => {
                let mut table = Table::new(["TOPICS", "MESSAGES", "BYTES", "QUOTA", "DELAYED"]);
                let quota = usage.quota_bytes.map_or("-".to_owned(), |quota| quota.to_string());
                let Usage { topics, messages, disk_bytes, delayed, .. } = usage;
                table.row([
                    topics.to_string(),
                    messages.to_string(),
                    disk_bytes.to_string(),
                    quota,
                    delayed.to_string(),
                ]);
                table.text()
            }
            Self::Partitions(partitions) => {
                let mut table = Table::new([
                    "PARTITION",
                    "MESSAGES",
                    "BYTES",
                    "FIRST",
                    "LAST",
                    "DELAYED",
                    "CONSUMER",
                    "POSITION",
                    "LAG",
                ]);
                for partition in partitions {
                    let first = partition.first.map_or("-".to_owned(), |id| id.seconds());
                    let row = vec![
                        partition.partition.to_string(),
                        partition.messages.to_string(),
                        partition.bytes.to_string(),
                        first,
                        partition.last.seconds(),
                        partition.delayed.to_string(),
                    ];
                    for reader in &partition.consumers {
                        let reader =
                            [reader.consumer.to_string(), reader.position.seconds(), reader.lag.to_string()];
                        table.row(row.iter().cloned().chain(reader));
                    }
                    if partition.consumers.is_empty() {
                        table.row(row);
                    }
                }
                table.text()
            }
        }
    }
}

async fn read_stat(journal: &Client, topic: Option<&Topic>) -> Result<StatView, CliError> {
    match topic {
        None => journal.usage().await.map(StatView::Whole).map_err(cannot("look at the journal")),
        Some(topic) => journal
            .stats(topic)
            .await
            .map(StatView::Partitions)
            .map_err(cannot(format!("look at topic {topic}"))),
    }
}

impl Stat {
    pub fn run(self) -> Result<(), CliError> {
        let (output, topic) = (self.output, self.topic);
        self.target.run(async |journal| output.print(async || read_stat(journal, topic.as_ref()).await).await)
    }
}
