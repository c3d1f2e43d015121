//! `menagerie queue failed NAME`

use clap::Args;
use menagerie_journal::MessageId;
use menagerie_queues::admin::failed::FailedMessages;
use menagerie_queues::view::{FailedMessageView, failed_page};
use menagerie_znodes::queues::QueueName;

use super::message::{BODY_CHARS_MAX, shorten};
use crate::exit::{CliError, cannot};
use crate::output::{FormatArg, Row, Rows, escape_for_terminal};
use crate::stores::{StoreArgs, Stores};
use crate::who;

/// Messages per request.
pub const BATCH: u32 = 1000;

/// Show failed messages, oldest first: the error, the number of attempts, and the end of the task's output.
#[derive(Debug, Args)]
pub struct Failed {
    /// Name of the queue.
    queue: QueueName,
    /// Show at most N messages.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 100)]
    limit: u32,
    #[command(flatten)]
    format: FormatArg,
}

impl Row for FailedMessageView {
    const HEADS: &[&str] = &["ID", "POSITION", "FROM", "ATTEMPTS", "ERROR", "OUTPUT", "BODY"];
    const NONE: Option<&str> = Some("no message was given up");

    fn cells(&self) -> Vec<String> {
        let story = self.story.as_ref();
        vec![
            self.id.to_string(),
            self.position.clone(),
            story.map_or("-".to_owned(), |story| story.origin.to_string()),
            story.map_or("-".to_owned(), |story| story.attempts.to_string()),
            escape_for_terminal(story.map(|story| story.error.as_str())),
            last_chars(&escape_for_terminal(story.map(|story| story.output.trim_end()))),
            shorten(&self.body.line()),
        ]
    }
}

/// The end of a line, because that is where the reason stands.
fn last_chars(line: &str) -> String {
    match line.char_indices().rev().nth(BODY_CHARS_MAX) {
        Some((at, skipped)) => format!("…{}", &line[at + skipped.len_utf8()..]),
        None => line.to_owned(),
    }
}

impl Failed {
    pub fn run(self, stores: StoreArgs) -> Result<(), CliError> {
        stores.observe(async |stores| {
            let failed = open(stores, &self.queue).await?;
            let views =
                failed_page(&failed, MessageId::ZERO, self.limit).await.map_err(doing(&self.queue))?;
            self.format.print(&Rows(views))
        })
    }
}

/// The failed messages of a queue.
pub async fn open(stores: &Stores, queue: &QueueName) -> Result<FailedMessages, CliError> {
    let opened = FailedMessages::open(&stores.session, &stores.journals, queue).await;
    Ok(opened.map_err(doing(queue))?.acting_as(&who::operator()))
}

pub fn doing(queue: &QueueName) -> impl FnOnce(menagerie_queues::QueueError) -> CliError + use<> {
    cannot(format!("access the failed messages of queue {queue}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_cut_where_it_matters_least() {
        let long = format!("{}é{}", "a".repeat(50), "b".repeat(59));
        assert_eq!(last_chars(&long), format!("…é{}", "b".repeat(59)));
        assert_eq!(shorten(&long), format!("{}é{}…", "a".repeat(50), "b".repeat(9)));
        assert_eq!((last_chars("short"), shorten("short")), ("short".to_owned(), "short".to_owned()));
        assert_eq!(last_chars(&"x".repeat(60)), "x".repeat(60));
    }
}
