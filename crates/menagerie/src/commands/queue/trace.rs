//! `menagerie queue trace ID`

use std::time::Duration;

use clap::Args;
use menagerie_queues::MessageUuid;
use menagerie_queues::story::{self, ActKind, Line, Outcome, Story};
use menagerie_znodes::queues::QueueName;
use serde::Serialize;

use crate::clock::utc;
use crate::durations;
use crate::exit::{CliError, cannot};
use crate::output::{self, FormatArg, escape_for_terminal};
use crate::stores::StoreArgs;

/// Tell what happened to a message: who put it, who tried it when and how that ended, and what has become of it.
#[derive(Debug, Args)]
pub struct Trace {
    /// Message id, as `queue put` printed it.
    id: MessageUuid,
    /// Look only into this queue [default: all of them].
    #[arg(long, value_name = "NAME")]
    queue: Option<QueueName>,
    #[command(flatten)]
    format: FormatArg,
}

#[derive(Debug, Serialize)]
struct StoryView {
    #[serde(flatten)]
    story: Story,
}

impl Trace {
    pub fn run(self, stores: StoreArgs) -> Result<(), CliError> {
        stores.observe(async |stores| {
            let story = story::trace(&stores.session, &stores.journals, self.id, self.queue.as_ref()).await;
            match story.map_err(cannot(format!("trace message {}", self.id)))? {
                Some(story) => self.format.print_line(&StoryView { story }),
                None => Err(CliError::Refused {
                    what: match &self.queue {
                        Some(queue) => format!("nothing is known of a message {} in queue {queue}", self.id),
                        None => format!("nothing is known of a message {}", self.id),
                    },
                    help: "it may be of another queue or namespace, have expired before a worker saw it, or be older \
                           than its queue keeps: `menagerie queue show NAME` says how long that is. Where an id does \
                           not say where its message stands, only the newest messages are looked through"
                        .to_owned(),
                }),
            }
        })
    }
}

impl output::Show for StoryView {
    fn show(&self) -> String {
        let Story { id, partition, position, state, key, lines, .. } = &self.story;
        let mut text = format!("message {id} of {partition}: {}\n", state.as_str());
        if let Some(position) = position {
            text += &format!("position {position}");
            if let Some(key) = key {
                text += &format!(", key {}", escape_for_terminal(Some(key)));
            }
            text += "\n";
        }
        text += "\n";
        for line in lines {
            let at = utc(i64::try_from(line.at_ms()).unwrap_or(i64::MAX));
            text += &format!("{at}  {}\n", sentence(line));
        }
        if self.story.is_cut_short {
            text += "\nThere may be more: the search has stopped, as so much would have to be read.\n";
        } else if self.story.is_incomplete {
            text += "\nSome of it is missing: it is older than the queue keeps, was cut off by a crash, or cannot be read.\n";
        }
        text
    }
}

fn sentence(line: &Line) -> String {
    let by = |by: &Option<String>| {
        by.as_ref().map_or(String::new(), |by| format!(" by {}", escape_for_terminal(Some(by))))
    };
    match line {
        Line::Put { by: who, via, .. } => {
            let via = via.map_or(String::new(), |via| format!(" over {via}"));
            format!("put{}{via}", by(who))
        }
        Line::Due { .. } => "due".to_owned(),
        Line::Act { act, by: who, .. } => {
            let act = match act {
                ActKind::Retried => "put back into its partition",
                ActKind::Forgotten => "dropped from the failed messages",
                ActKind::Cancelled => "cancelled before it was due",
                ActKind::Deleted => "deleted",
                ActKind::Purged => "dropped with all messages of its partition",
                ActKind::Skipped => "dropped with the messages of its partition up to one",
            };
            format!("{act}{}", by(who))
        }
        Line::Running { worker, attempt, .. } => {
            let attempt =
                attempt.map_or_else(|| "running".to_owned(), |attempt| format!("attempt {attempt}"));
            format!("{attempt} by {}: running since then", escape_for_terminal(Some(worker)))
        }
        Line::Attempt { worker, attempt, took_ms, outcome, error, next_ms, .. } => {
            let worker = escape_for_terminal(Some(worker));
            let time = |ms: u64| match ms {
                0..1_000 => format!("{ms} ms"),
                _ => durations::precise(Duration::from_millis(ms)),
            };
            let after = took_ms.map_or(String::new(), |ms| format!(" after {}", time(ms)));
            let error = error
                .as_ref()
                .map_or(String::new(), |error| format!(": {}", escape_for_terminal(Some(error))));
            let next = next_ms.map_or(String::new(), |ms| format!("; again in {}", time(ms)));
            match outcome {
                Outcome::Done => format!("attempt {attempt} by {worker}: done{after}"),
                Outcome::Retry => format!("attempt {attempt} by {worker}: failed{after}{error}{next}"),
                Outcome::Failed if took_ms.is_none() => {
                    format!("given up by {worker}{error}; kept among the failed messages")
                }
                Outcome::Skipped if took_ms.is_none() => format!("given up by {worker}{error}; skipped"),
                Outcome::Failed => format!(
                    "attempt {attempt} by {worker}: failed{after}{error}; given up, and kept among the failed messages"
                ),
                Outcome::Skipped => {
                    format!("attempt {attempt} by {worker}: failed{after}{error}; given up, and skipped")
                }
                Outcome::Stuck => {
                    format!("attempt {attempt} by {worker}: failed{after}{error}; its worker has stopped")
                }
                Outcome::Stopped => format!("attempt {attempt} by {worker}: stopped{after}; does not count"),
                Outcome::Expired => format!("expired before its turn came, says {worker}"),
                Outcome::Orphaned => {
                    format!("taken over by {worker} from a worker that died, and that may have begun it")
                }
            }
        }
    }
}
