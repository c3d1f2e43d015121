//! `menagerie queue find NAME`

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use menagerie_journal::{MessageId, Ticks};
use menagerie_queues::story::{self, Filter, State};
use menagerie_queues::view::FoundMessageView;
use menagerie_znodes::queues::QueueName;

use super::message::shorten;
use crate::clock;
use crate::durations;
use crate::exit::{CliError, cannot};
use crate::output::{FormatArg, Row, Rows, count, escape_for_terminal};
use crate::stores::StoreArgs;

/// Most messages to show: they are kept in memory.
const LIMIT_MAX: i64 = 100_000;

/// Find messages by key, content and state, handled ones too: the newest that match, oldest first.
#[derive(Debug, Args)]
pub struct Find {
    /// Name of the queue.
    queue: QueueName,
    /// Only messages with this key.
    #[arg(short, long, value_name = "KEY")]
    key: Option<String>,
    /// Only messages with this text in their bodies.
    #[arg(short, long, value_name = "TEXT", value_parser = NonEmptyStringValueParser::new())]
    contains: Option<String>,
    /// Only messages in this state: delayed, waiting, running, retrying, failed, done, expired, skipped or forgotten.
    #[arg(short, long, value_name = "STATE")]
    state: Option<State>,
    /// Only messages that came into the queue, or failed, within this time, as in 1h [default: all that the queue
    /// keeps].
    #[arg(long, value_name = "DURATION", value_parser = durations::parse)]
    since: Option<Duration>,
    /// Show at most N messages, the newest.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 100,
          value_parser = clap::value_parser!(u32).range(1..=LIMIT_MAX))]
    limit: u32,
    #[command(flatten)]
    format: FormatArg,
}

impl Row for FoundMessageView {
    const HEADS: &[&str] = &["ID", "PARTITION", "POSITION", "STATE", "KEY", "PUT", "ERROR", "BODY"];
    const NONE: Option<&str> = Some("no message matches");

    fn cells(&self) -> Vec<String> {
        let since = SystemTime::from(self.put).duration_since(UNIX_EPOCH).unwrap_or_default();
        vec![
            self.id.clone(),
            self.partition.to_string(),
            self.position.clone().unwrap_or_else(|| "-".to_owned()),
            self.state.to_string(),
            shorten(&escape_for_terminal(self.key.as_deref())),
            clock::utc(i64::try_from(since.as_millis()).unwrap_or(i64::MAX)),
            shorten(&escape_for_terminal(self.error.as_deref())),
            self.body.as_ref().map_or("-".to_owned(), |body| shorten(&body.line())),
        ]
    }
}

impl Find {
    pub fn run(self, stores: StoreArgs) -> Result<(), CliError> {
        let from = self.since.map_or(MessageId::ZERO, |since| MessageId(Ticks::now().minus(since)));
        let filter = Filter {
            key: self.key,
            contains: self.contains,
            state: self.state,
            from,
            limit: self.limit as usize,
        };
        stores.observe(async |stores| {
            let found = story::find(&stores.session, &stores.journals, &self.queue, filter.clone()).await;
            let found = found.map_err(cannot(format!("find messages of queue {}", self.queue)))?;
            self.format.print(&Rows(found.messages.into_iter().map(FoundMessageView::of).collect()))?;
            if found.has_more {
                let newest = count(self.limit.into(), "message");
                eprintln!(
                    "these are the newest {newest}; there may be more: --limit N shows them, --since fewer"
                );
            }
            Ok(())
        })
    }
}
