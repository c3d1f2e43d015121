//! `menagerie check lag QUEUE`: do workers keep up?

use std::time::Duration;

use clap::Args;
use menagerie_queues::admin::show::{self, PartitionView, QueueView};
use menagerie_znodes::queues::{self, QueueName};

use super::range::Range;
use super::report::{Perf, Report, State, Thresholds};
use super::thresholds::{AgeArgs, WaitingArgs, count};
use crate::client::Client;
use crate::durations;
use crate::exit::{CliError, cannot};
use crate::stores::{AccessArgs, Stores};

/// Service name in the plugin's output.
pub const SERVICE: &str = "LAG";

/// A longer queue name leaves no room for the counter: labels must differ in their first 19 characters.
const LABEL_MAX: usize = 11;

/// Check a queue's backlog: how long its oldest message has waited, how many wait, and how many failed.
#[derive(Debug, Args)]
pub struct Lag {
    #[command(flatten)]
    queue: QueueArgs,
    #[command(flatten)]
    age: AgeArgs,
    #[command(flatten)]
    waiting: WaitingArgs,
    /// Warn when the number of failed messages is outside this range.
    #[arg(long, value_name = "RANGE", value_parser = count)]
    failed_warning: Option<Range>,
    /// Critical when the number of failed messages is outside this range.
    #[arg(long, value_name = "RANGE", value_parser = count)]
    failed_critical: Option<Range>,
    #[command(flatten)]
    access: AccessArgs,
}

/// Plugins have named arguments; people do not like them.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub struct QueueArgs {
    /// Name of the queue.
    #[arg(value_name = "QUEUE")]
    queue: Option<QueueName>,
    /// Same as QUEUE.
    #[arg(long = "queue", value_name = "QUEUE")]
    named: Option<QueueName>,
}

impl QueueArgs {
    /// The queue, from whichever argument gave it.
    pub fn queue(&self) -> Option<&QueueName> {
        self.queue.as_ref().or(self.named.as_ref())
    }
}

#[derive(Debug, Clone, Copy)]
struct Limits {
    age: Thresholds,
    waiting: Thresholds,
    failed: Thresholds,
}

impl Lag {
    /// Reads the queue and judges it.
    pub async fn inspect(&self, client: &Client) -> Result<Report, CliError> {
        let Some(queue) = self.queue.queue() else {
            return Ok(Report::unknown(SERVICE, "no queue is named"));
        };
        let stores = Stores::at(client, &self.access).await?;
        let view = show::summary(&stores.session, &stores.journals, queue).await;
        let view = view.map_err(cannot(format!("look at queue {queue}")))?;
        Ok(judge(
            &view,
            Limits {
                age: self.age.thresholds(),
                waiting: self.waiting.thresholds(),
                failed: Thresholds { warning: self.failed_warning, critical: self.failed_critical },
            },
        ))
    }
}

fn judge(view: &QueueView, limits: Limits) -> Report {
    let oldest = view.partitions.iter().max_by_key(|partition| partition.oldest_ms);
    let oldest = oldest.filter(|partition| partition.oldest_ms.is_some());
    let age = oldest.and_then(|partition| partition.oldest_ms).unwrap_or(0) as f64 / 1000.0;
    let old = oldest.map_or(State::Ok, |_| limits.age.judge(age));
    let crowded = limits.waiting.judge(view.lag() as f64);
    let given_up = limits.failed.judge(view.failed as f64);
    let ahead = view.ahead();
    let stuck = if ahead.is_some() || !view.without_cursor.is_empty() { State::Critical } else { State::Ok };
    let state = old.worse(crowded).worse(given_up).worse(stuck);
    let mut text = match oldest {
        Some(partition) => {
            let waited = durations::precise(Duration::from_secs(age as u64));
            format!(
                "{} has waited for {waited} {}; {} waiting",
                partition.partition,
                by(partition),
                view.lag()
            )
        }
        None => format!("queue {}: nothing waits", view.queue),
    };
    if let Some((partition, ahead)) = ahead {
        let ahead = durations::precise(ahead);
        text += &format!(", the cursor of {partition} is {ahead} ahead: nothing is handled before then");
    }
    for partition in &view.without_cursor {
        let cursor = queues::cursor(partition);
        text += &format!(", {} is missing: nobody handles {partition}", cursor.path());
    }
    if view.failed > 0 {
        text += &format!(", {} failed", view.failed);
    }
    if view.paused.is_some() {
        text += ", paused";
    }
    let mut report = Report::new(SERVICE, state, text);
    let prefix: String = view.queue.to_string().chars().take(LABEL_MAX).collect();
    let number = |what: &str, value: f64| Perf::new(format!("{prefix}.{what}"), Some(value), "");
    report.perf = vec![
        Perf { thresholds: limits.age, unit: "s", ..number("oldest", age) },
        Perf { thresholds: limits.waiting, ..number("waiting", view.lag() as f64) },
        Perf { thresholds: limits.failed, ..number("failed", view.failed as f64) },
    ];
    for partition in &view.partitions {
        report.detail(1, format!("{}: {} waiting, {}", partition.partition, partition.lag, by(partition)));
    }
    report
}

fn by(partition: &PartitionView) -> String {
    match &partition.owner {
        None => "without a worker".to_owned(),
        Some(owner) if partition.owner_paused => format!("with {owner}, which is paused"),
        Some(owner) => format!("with {owner}"),
    }
}

#[cfg(test)]
mod tests {
    use menagerie_znodes::Name;

    use super::*;

    fn partition(name: &str, lag: u64, oldest_ms: Option<u64>, owner: Option<&str>) -> PartitionView {
        PartitionView {
            oldest_since_ms: None,
            partition: name.parse().unwrap(),
            owner: owner.map(|owner| Name::new(owner).unwrap()),
            owner_paused: false,
            owner_pause: None,
            cursor: "0.0000000".to_owned(),
            ahead_ms: None,
            messages: lag,
            lag,
            oldest_ms,
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

    fn queue(partitions: Vec<PartitionView>, failed: u64) -> QueueView {
        let queue = "mail".parse().unwrap();
        QueueView {
            queue,
            journal: "main".to_owned(),
            keep: menagerie_znodes::queues::Keep::default(),
            handling: menagerie_znodes::queues::Handling::default(),
            paused: None,
            failed,
            partitions,
            without_cursor: Vec::new(),
            failed_uncounted: 0,
            workers: 0,
        }
    }

    fn limits() -> Limits {
        let range = |text| Some(count(text).unwrap());
        Limits {
            age: Thresholds { warning: range("60"), critical: range("600") },
            waiting: Thresholds::default(),
            failed: Thresholds { warning: range("0"), critical: None },
        }
    }

    #[test]
    fn oldest_message_is_named_with_who_should_have_handled_it() {
        let view = queue(
            vec![
                partition("mail-1", 3, Some(700_000), Some("w1")),
                partition("mail-2", 2, Some(9_000), None),
            ],
            0,
        );
        let report = judge(&view, limits());
        assert_eq!(
            report.render(0),
            "LAG CRITICAL - mail-1 has waited for 11m 40s with w1; 5 waiting | 'mail.oldest'=700s;60;600;0 \
             'mail.waiting'=5;;;0 'mail.failed'=0;0;;0\n"
        );
    }

    #[test]
    fn a_cursor_in_the_future_is_critical_although_nothing_waits() {
        let ahead = PartitionView { ahead_ms: Some(7_200_000), ..partition("mail-1", 0, None, None) };
        let report = judge(&queue(vec![partition("mail-2", 0, None, None), ahead], 0), limits());
        assert_eq!(report.state, State::Critical);
        assert!(report.text.contains("the cursor of mail-1 is 2h"), "{}", report.text);
    }

    #[test]
    fn a_partition_without_a_cursor_is_critical() {
        let view = QueueView { without_cursor: vec!["mail-2".parse().unwrap()], ..queue(Vec::new(), 0) };
        let report = judge(&view, limits());
        assert_eq!(report.state, State::Critical);
        assert!(report.text.contains("/queues/mail-2 is missing"), "{}", report.text);
    }

    #[test]
    fn failures_count_although_nothing_waits() {
        let report = judge(&queue(vec![partition("mail-1", 0, None, None)], 2), limits());
        assert_eq!(
            (report.state, report.text.as_str()),
            (State::Warning, "queue mail: nothing waits, 2 failed")
        );
    }
}
