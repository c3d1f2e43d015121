//! `menagerie queue alter NAME [--keep TIME] [--partitions N] [--order …] …`

use std::time::{Duration, Instant};

use clap::Args;
use menagerie_queues::QueueError;
use menagerie_queues::admin::{self, Change, Changed, Unhandled};
use menagerie_types::exit_code;
use menagerie_znodes::queues::{Keep, QueueName, Settings};
use serde_json::json;

use super::handling::{self, HandlingArgs, sentence};
use super::{create, keep};
use crate::durations;
use crate::exit::{CliError, cannot};
use crate::output::{FormatArg, count};
use crate::progress::Meter;
use crate::stores::{StoreArgs, Stores};

/// How often to look whether a queue is drained. Workers record each message, and publish their lag once a second.
const DRAIN_POLL: Duration = Duration::from_millis(500);

/// Change an existing queue. Workers follow at once; messages they have already dropped do not come back.
#[derive(Debug, Args)]
pub struct Alter {
    /// Name of the queue.
    queue: QueueName,
    /// How long to keep handled messages, counted from when they were put: a duration such as 7d, or `forever`.
    /// Unhandled messages are always kept.
    #[arg(long, value_name = "TIME", value_parser = keep::parse)]
    keep: Option<Keep>,
    /// Add partitions, to this many in all. Most keys move to another partition then; see --drain.
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = create::partitions)]
    partitions: Option<u16>,
    /// Before adding partitions, wait until no message waits, so that the order of each key is kept. Put none meanwhile.
    #[arg(long, requires = "partitions")]
    drain: bool,
    /// Longest wait of --drain; then nothing is changed.
    #[arg(long, value_name = "DURATION", value_parser = durations::parse_fine, default_value = "10m", requires = "drain")]
    timeout: Duration,
    #[command(flatten)]
    handling: HandlingArgs,
    #[command(flatten)]
    format: FormatArg,
}

impl Alter {
    pub fn run(self, stores: StoreArgs) -> Result<(), CliError> {
        if self.keep.is_none() && self.partitions.is_none() && self.handling.is_silent() {
            return Err(CliError::Usage {
                what: "nothing is said about what to change".to_owned(),
                help: "give --keep, --partitions, --order, --retry, --attempts, --backoff, --backoff-max or --time-limit"
                    .to_owned(),
            });
        }
        stores.change(async |stores| {
            let queue = &self.queue;
            let doing = || cannot(format!("change queue {queue}"));
            let before = admin::settings(&stores.session, queue).await.map_err(doing())?;
            let adds = self.partitions.is_some_and(|partitions| partitions > before.partitions);
            self.require_more(&before)?;
            handling::check(&self.handling.change().apply(before.handling))?;
            if adds && self.drain {
                self.wait_until_drained(stores).await?;
            }
            let change = Change {
                keep: self.keep,
                partitions: self.partitions,
                handling: self.handling.change(),
                ..Change::default()
            };
            let changed = match admin::change(&stores.session, &stores.journals, queue, &change).await {
                Ok(Changed::Missing) => Err(QueueError::NoQueue { queue: queue.clone() }),
                changed => changed,
            };
            let settings = match changed.map_err(doing())? {
                Changed::Fewer(settings) => return self.require_more(&settings),
                Changed::To(settings) => settings,
                Changed::Missing => return Ok(()),
            };
            if adds && !self.drain {
                eprintln!("{}", moved_keys(queue));
            }
            self.tell(&settings)
        })
    }

    /// Refuses fewer partitions than there are.
    fn require_more(&self, settings: &Settings) -> Result<(), CliError> {
        let Some(wanted) = self.partitions.filter(|wanted| *wanted < settings.partitions) else {
            return Ok(());
        };
        let (queue, there) = (&self.queue, settings.partitions);
        Err(CliError::Refused {
            what: format!(
                "queue {queue} has {there} partitions, and partitions cannot be taken away: nobody would handle the messages in them"
            ),
            help: format!(
                "create another queue with --partitions {wanted}, put into that one, and delete {queue} when it is handled"
            ),
        })
    }

    /// Waits until no message waits. To give up, drop the future: nothing is changed.
    async fn wait_until_drained(&self, stores: &Stores) -> Result<(), CliError> {
        let (queue, began, mut meter) = (&self.queue, Instant::now(), Meter::new());
        loop {
            let left = admin::unhandled(&stores.session, &stores.journals, queue).await;
            let Unhandled { waiting, delayed } = left.map_err(cannot(format!("look at queue {queue}")))?;
            if waiting == 0 {
                if delayed > 0 {
                    eprintln!(
                        "{} will fall due in the partitions of before",
                        count(delayed, "delayed message")
                    );
                }
                return Ok(());
            }
            if began.elapsed() >= self.timeout {
                return Err(CliError::Diagnosed {
                    what: format!(
                        "queue {queue} still has {} after {}; nothing was changed",
                        count(waiting, "unhandled message"),
                        durations::precise(self.timeout)
                    ),
                    because: None,
                    help: format!(
                        "`menagerie queue show {queue}` says what is in the way; wait longer with --timeout, or put none meanwhile"
                    ),
                    code: exit_code::FAILED,
                });
            }
            meter.show("waiting until messages are handled; left:", waiting, None);
            tokio::time::sleep(DRAIN_POLL).await;
        }
    }

    fn tell(&self, settings: &Settings) -> Result<(), CliError> {
        let queue = &self.queue;
        let mut said = Vec::new();
        if self.partitions.is_some() {
            said.push(format!("has {}", count(settings.partitions.into(), "partition")));
        }
        if self.keep.is_some() {
            said.push(format!("keeps handled messages {}", keep::kept(settings.keep)));
        }
        let mut text = format!("queue {queue}");
        if !said.is_empty() {
            text += &format!(" {}", said.join(", and "));
        }
        if !self.handling.is_silent() {
            text += &format!(": {}", sentence(&settings.handling));
        }
        let report = json!({
            "queue": queue,
            "partitions": settings.partitions,
            "keep_ms": settings.keep,
            "handling": settings.handling,
        });
        self.format.tell(&text, &report)
    }
}

/// What more partitions do to keys.
fn moved_keys(queue: &QueueName) -> String {
    format!(
        "most keys of queue {queue} go to another partition from now on: messages of a key that were put before may be \
         handled after later ones; --drain waits for them first"
    )
}
