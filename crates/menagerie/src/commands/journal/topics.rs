//! `menagerie journal topics`: what there is.

use clap::Args;
use menagerie_journal::{Journal as _, TopicView};
use serde::Serialize;

use super::target::{TargetArgs, failed};
use crate::exit::CliError;
use crate::output::{OutputArgs, Show, Table};

/// List topics, with what they are like.
#[derive(Debug, Args)]
pub struct Topics {
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, Serialize)]
#[serde(transparent)]
struct List(Vec<TopicView>);

impl Show for List {
    fn show(&self) -> String {
        let mut table = Table::new(["TOPIC", "PARTITIONS", "MESSAGES", "GROUP", "RETENTION", "TTL"]);
        let time = |time: Option<std::time::Duration>| {
            time.map_or("-".to_owned(), |time| format!("{}s", time.as_secs()))
        };
        for TopicView { topic, config, messages } in &self.0 {
            table.row([
                topic.to_string(),
                config.partitions.to_string(),
                messages.to_string(),
                config.group.to_string(),
                time(config.retention),
                time(config.ttl),
            ]);
        }
        table.text()
    }
}

impl Topics {
    /// Asks and prints.
    pub fn run(self) -> Result<(), CliError> {
        let output = self.output;
        self.target.run(async |journal| {
            output.print(async || journal.topics().await.map(List).map_err(failed("list topics"))).await
        })
    }
}
