//! `menagerie queue show NAME`: are we behind, and do we need more workers?

use std::time::Duration;

use clap::Args;
use menagerie_queues::admin::show::PartitionView;
use menagerie_queues::view::{self, QueueOverview};
use menagerie_znodes::queues::QueueName;

use super::handling::sentence;
use super::keep::kept;
use crate::durations;
use crate::exit::{CliError, cannot};
use crate::output::{self, OutputArgs, Table, escape_for_terminal};
use crate::stores::StoreArgs;

/// Messages that run for less are not named.
const SHOWN_AFTER_MS: u64 = 1_000;
/// Most messages that are named of one partition; all are in JSON.
const DETAILS_MAX: usize = 5;

/// Show what is in the way of a queue, and of each partition what waits, runs, is retried, has failed, and who owns it.
#[derive(Debug, Args)]
pub struct Show {
    /// Name of the queue.
    queue: QueueName,
    #[command(flatten)]
    output: OutputArgs,
}

impl Show {
    pub fn run(self, stores: StoreArgs) -> Result<(), CliError> {
        stores.observe(async |stores| {
            let read = async || {
                let overview = view::overview(&stores.session, &stores.journals, &self.queue).await;
                overview.map_err(cannot(format!("look at queue {}", self.queue)))
            };
            self.output.print(read).await
        })
    }
}

/// How long the oldest message has waited.
pub fn age(ms: Option<u64>) -> String {
    ms.map_or("-".to_owned(), |ms| durations::age(Duration::from_millis(ms)))
}

fn per_second(rate: Option<f64>) -> String {
    rate.map_or("-".to_owned(), |rate| format!("{rate:.1}/s"))
}

impl output::Show for QueueOverview {
    fn show(&self) -> String {
        // Errors and reasons for a pause are in it.
        let mut text = format!("queue {}: {}", self.queue, escape_for_terminal(Some(&self.verdict)));
        if let Some(rate) = self.rate {
            text += &format!(" (in {}, out {})", per_second(rate.put), per_second(Some(rate.handled)));
        }
        if self.delayed > 0 {
            text += &format!(", {} delayed", self.delayed);
        }
        if self.failed > 0 {
            text += &format!(", {} failed", self.failed);
        }
        text += &format!("\nhandled messages are kept {}", kept(self.keep));
        text += &format!("\n{}", sentence(&self.handling));
        if let Some(pause) = &self.paused {
            text += &format!(
                "\npaused by {}: {}",
                escape_for_terminal(Some(&pause.by)),
                escape_for_terminal(pause.reason.as_deref())
            );
        }
        let mut table = Table::new([
            "PARTITION",
            "WAITING",
            "OLDEST",
            "RUNNING",
            "RETRYING",
            "DELAYED",
            "FAILED",
            "EXPIRED",
            "IN",
            "OUT",
            "OWNER",
        ]);
        // Only the newest failed messages are looked at.
        let at_least = if self.failed_uncounted > 0 { "≥ " } else { "" };
        for view in &self.partitions {
            table.row([
                view.partition.to_string(),
                view.lag.to_string(),
                age(view.oldest_ms),
                view.running_count.to_string(),
                view.retrying_count.to_string(),
                view.delayed.to_string(),
                format!("{at_least}{}", view.failed),
                view.recent.as_ref().map_or("-".to_owned(), |recent| recent.expired.to_string()),
                per_second(view.rate.and_then(|rate| rate.put)),
                per_second(view.rate.map(|rate| rate.handled)),
                escape_for_terminal(view.owner.as_ref().map(|owner| owner.as_str()))
                    + if view.owner_paused { " (paused)" } else { "" },
            ]);
        }
        let details = self.partitions.iter().flat_map(details).collect::<Vec<_>>().join("\n");
        let details = if details.is_empty() { details } else { format!("\n{details}\n") };
        format!("{text}\n\n{}{details}", table.text())
    }
}

/// What runs for long, and what is tried again.
fn details(view: &PartitionView) -> Vec<String> {
    let time = |ms: u64| durations::precise(Duration::from_millis(ms));
    let running = view.running.iter().filter(|running| running.for_ms >= SHOWN_AFTER_MS).map(|running| {
        let silent =
            if running.silent { "; its program has not answered: does it flush its output?" } else { "" };
        let (id, attempt) = (running.id, running.attempt);
        format!(
            "{}: {id} has been running for {}, attempt {attempt}{silent}",
            view.partition,
            time(running.for_ms)
        )
    });
    let retrying = view.retrying.iter().map(|retrying| {
        let error = escape_for_terminal(Some(&retrying.error));
        let (id, attempt, attempts) = (retrying.id, retrying.attempt, retrying.attempts);
        format!(
            "{}: {id} is tried again in {}, attempt {attempt} of {attempts}; last error: {error}",
            view.partition,
            time(retrying.in_ms)
        )
    });
    running.chain(retrying).take(DETAILS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use menagerie_queues::admin::show::QueueView;
    use menagerie_znodes::queues::{Handling, Keep, Pause};

    use super::*;
    use crate::output::Show as _;

    #[test]
    fn what_others_wrote_does_not_control_the_terminal() {
        let pause = Pause { by: "ann\u{1b}[2J".to_owned(), reason: Some("up\ngrade\u{1b}[1m".to_owned()) };
        let queue = QueueView {
            queue: "mail".parse().unwrap(),
            journal: "main".to_owned(),
            keep: Keep::default(),
            handling: Handling::default(),
            paused: Some(pause),
            failed: 0,
            failed_uncounted: 0,
            workers: 0,
            partitions: vec![partition()],
            without_cursor: Vec::new(),
        };
        let text = QueueOverview::of(queue).show();
        assert!(!text.contains('\u{1b}'), "{text:?}");
        let first = text.lines().next().unwrap();
        assert!(first.ends_with(r"it is paused by ann\u{1b}[2J: up\ngrade\u{1b}[1m"), "{first}");
    }

    fn partition() -> PartitionView {
        PartitionView {
            partition: "mail-1".parse().unwrap(),
            owner: None,
            owner_paused: false,
            owner_pause: None,
            cursor: "0.0000000".to_owned(),
            ahead_ms: None,
            messages: 1,
            lag: 1,
            oldest_ms: None,
            oldest_since_ms: None,
            delayed: 0,
            failed: 0,
            running: Vec::new(),
            running_count: 0,
            retrying: Vec::new(),
            retrying_count: 0,
            last_end_ms: None,
            told_ms: None,
            recent: None,
            rate: None,
        }
    }
}
