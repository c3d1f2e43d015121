//! `menagerie journal topics`: lists topics.

use clap::Args;
use menagerie_journal::{Journal as _, TopicView};

use super::target::TargetArgs;
use crate::exit::{CliError, cannot};
use crate::output::{OutputArgs, Row, Rows};

/// List topics and their settings.
#[derive(Debug, Args)]
pub struct Topics {
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    output: OutputArgs,
}

impl Row for TopicView {
    const HEADS: &[&str] = &["TOPIC", "PARTITIONS", "MESSAGES", "GROUP", "RETENTION", "TTL"];

    fn cells(&self) -> Vec<String> {
        let Self { topic, config, messages } = self;
        let time = |time: Option<std::time::Duration>| {
            time.map_or("-".to_owned(), |time| format!("{}s", time.as_secs()))
        };
        vec![
            topic.to_string(),
            config.partitions.to_string(),
            messages.to_string(),
            config.group.to_string(),
            time(config.retention),
            time(config.ttl),
        ]
    }
}

impl Topics {
    pub fn run(self) -> Result<(), CliError> {
        let output = self.output;
        self.target.run(async |journal| {
            output.print(async || journal.topics().await.map(Rows).map_err(cannot("list topics"))).await
        })
    }
}
