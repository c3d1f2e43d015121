//! `menagerie queue create NAME --partitions N [--keep TIME] [--order …]`

use clap::Args;
use menagerie_queues::admin;
use menagerie_types::exit_code;
use menagerie_znodes::queues::{Handling, Keep, PARTITIONS_MAX, QueueName, Settings};
use serde_json::json;

use super::handling::{self, HandlingArgs, sentence};
use super::keep;
use crate::exit::{CliError, cannot};
use crate::output::{FormatArg, count};
use crate::stores::{JOURNAL_PATIENCE, StoreArgs, Stores};

/// Create a queue. Idempotent; a different number of partitions, a different --keep or other options for handling are
/// a conflict.
#[derive(Debug, Args)]
pub struct Create {
    /// Name of the queue; APP:NAME for an application other than `default`.
    #[arg(value_name = "NAME")]
    queue: QueueName,
    /// Number of partitions: at most this many workers share the queue; one worker at a time handles each partition.
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = partitions)]
    partitions: u16,
    /// How long to keep handled messages, counted from when they were put: a duration such as 7d, or `forever`.
    /// Unhandled messages are always kept [default: 7d].
    #[arg(long, value_name = "TIME", value_parser = keep::parse)]
    keep: Option<Keep>,
    #[command(flatten)]
    handling: HandlingArgs,
    #[command(flatten)]
    journal: JournalArg,
    #[command(flatten)]
    format: FormatArg,
}

/// Which journal.
#[derive(Debug, Args)]
pub struct JournalArg {
    /// Journal that stores the messages [default: the only registered one].
    #[arg(long, value_name = "NAME")]
    journal: Option<String>,
}

pub fn partitions(text: &str) -> Result<u16, String> {
    let partitions = text.parse().ok().filter(|number| (1..=PARTITIONS_MAX).contains(number));
    partitions.ok_or_else(|| format!("write a whole number from 1 to {PARTITIONS_MAX}"))
}

impl Create {
    pub fn run(self, stores: StoreArgs) -> Result<(), CliError> {
        if let Some(of) = self.queue.failures_of() {
            return Err(CliError::Usage {
                what: format!("{} is for messages of {of} that were given up", self.queue),
                help: format!("choose another name; a queue {of} has this one for its failed messages"),
            });
        }
        stores.change(async |stores| {
            let journal = self.journal.name(stores).await?;
            let doing = || cannot(format!("make queue {}", self.queue));
            let plain = admin::default_settings(self.partitions, &journal);
            let handling = self.handling.change().apply(plain.handling);
            handling::check(&handling)?;
            let settings = Settings { keep: self.keep.unwrap_or_default(), handling, ..plain };
            let created = admin::create_with(&stores.session, &stores.journals, &self.queue, &settings).await;
            let created = created.map_err(doing())?;
            if created == admin::Created::Existed {
                let there = admin::settings(&stores.session, &self.queue).await.map_err(doing())?;
                self.require_same_keep(there.keep)?;
                self.require_same_handling(&there.handling)?;
            }
            let was = match created {
                admin::Created::Fresh => "has",
                admin::Created::Existed => "was there already, with",
            };
            let partitions = count(self.partitions.into(), "partition");
            self.format.tell(
                &format!("queue {} {was} {partitions}, in journal {journal}", self.queue),
                &json!({
                    "queue": self.queue,
                    "partitions": self.partitions,
                    "journal": journal,
                    "created": created == admin::Created::Fresh,
                }),
            )
        })
    }
}

impl Create {
    /// For a queue that exists already: checks that it keeps messages as long as the command line says, if it says
    /// so.
    fn require_same_keep(&self, there: Keep) -> Result<(), CliError> {
        match self.keep {
            Some(wanted) if wanted != there => Err(CliError::Refused {
                what: format!(
                    "queue {} exists already, and keeps handled messages {}",
                    self.queue,
                    keep::kept(there)
                ),
                help: format!(
                    "to change it: `menagerie queue alter {} --keep {}`",
                    self.queue,
                    keep::show(wanted)
                ),
            }),
            Some(_) | None => Ok(()),
        }
    }

    /// The same for how it handles messages.
    fn require_same_handling(&self, there: &Handling) -> Result<(), CliError> {
        if self.handling.change().apply(*there) == *there {
            return Ok(());
        }
        Err(CliError::Refused {
            what: format!("queue {} exists already, and its {}", self.queue, sentence(there)),
            help: format!(
                "to change it: `menagerie queue alter {}` with these options; the order only while no message waits",
                self.queue
            ),
        })
    }
}

impl JournalArg {
    /// The journal's name: the one given, or the only one there is.
    pub async fn name(&self, stores: &Stores) -> Result<String, CliError> {
        if let Some(journal) = &self.journal {
            stores.journals.wait_for(journal, JOURNAL_PATIENCE).await;
            return Ok(journal.clone());
        }
        match stores.journals.names(JOURNAL_PATIENCE).await.as_slice() {
            [only] => Ok(only.clone()),
            [] => Err(CliError::Diagnosed {
                what: "no journal is registered, and queues store their messages in one".to_owned(),
                because: None,
                help: "start one with `menagerie journal`, or everything on this machine with `menagerie up`"
                    .to_owned(),
                code: exit_code::UNAVAILABLE,
            }),
            several => Err(CliError::Usage {
                what: format!("several journals are registered: {}", several.join(", ")),
                help: "choose with --journal the one that stores the messages".to_owned(),
            }),
        }
    }
}
