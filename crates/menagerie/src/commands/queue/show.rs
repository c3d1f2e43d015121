//! `menagerie queue show NAME`: are we behind, and do we need more workers?

use std::time::{Duration, Instant};

use clap::Args;
use menagerie_queues::admin::show::{self, PartitionView, QueueView, Rate};
use menagerie_znodes::queues::{self, Keep, Pause, QueueName};
use serde::Serialize;

use super::keep::kept;
use crate::durations;
use crate::exit::{CliError, cannot};
use crate::output::{self, OutputArgs, Table, count, escape_for_terminal};
use crate::stores::{StoreArgs, Stores};

/// Time between the two samples of a rate. Workers publish their progress once a second.
const SAMPLE: Duration = Duration::from_secs(2);

/// Show a queue: backlog and its age, message rates, and which worker owns which partition.
#[derive(Debug, Args)]
pub struct Show {
    /// Name of the queue.
    queue: QueueName,
    /// Skip the second sample that measures message rates.
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, Serialize)]
struct QueueOverview {
    queue: QueueName,
    journal: String,
    #[serde(rename = "keep_ms")]
    keep: Keep,
    state: &'static str,
    paused: Option<Pause>,
    messages: u64,
    lag: u64,
    oldest_ms: Option<u64>,
    delayed: u64,
    failed: u64,
    rate: Option<Rate>,
    verdict: String,
    partitions: Vec<PartitionOverview>,
}

#[derive(Debug, Serialize)]
struct PartitionOverview {
    #[serde(flatten)]
    view: PartitionView,
    rate: Option<Rate>,
}

impl Show {
    pub fn run(self, stores: StoreArgs) -> Result<(), CliError> {
        stores.observe(async |stores| {
            let mut before: Option<(Instant, QueueView)> = None;
            let read = async || {
                if before.is_none() && !self.quick {
                    before = Some((Instant::now(), self.read_queue(stores).await?));
                    tokio::time::sleep(SAMPLE).await;
                }
                let (now, view) = (Instant::now(), self.read_queue(stores).await?);
                let shown = compose(&view, before.as_ref().map(|(then, before)| (before, now - *then)));
                before = (!self.quick).then_some((now, view));
                Ok(shown)
            };
            self.output.print(read).await
        })
    }

    async fn read_queue(&self, stores: &Stores) -> Result<QueueView, CliError> {
        let view = show::show(&stores.session, &stores.journals, &self.queue).await;
        view.map_err(cannot(format!("look at queue {}", self.queue)))
    }
}

fn compose(view: &QueueView, before: Option<(&QueueView, Duration)>) -> QueueOverview {
    let rate = before.map(|(before, time)| Rate::between(before, view, time));
    let partition = |partition: &PartitionView| {
        let rate = before.and_then(|(before, time)| {
            let before = before.partitions.iter().find(|before| before.partition == partition.partition)?;
            Some(Rate::of_partition(before, partition, time))
        });
        PartitionOverview { view: partition.clone(), rate }
    };
    QueueOverview {
        queue: view.queue.clone(),
        journal: view.journal.clone(),
        keep: view.keep,
        state: state(view),
        paused: view.paused.clone(),
        messages: view.messages(),
        lag: view.lag(),
        oldest_ms: view.oldest_ms(),
        delayed: view.delayed(),
        failed: view.failed,
        rate,
        verdict: verdict(view, rate),
        partitions: view.partitions.iter().map(partition).collect(),
    }
}

/// The queue's state in a word or two.
pub fn state(view: &QueueView) -> &'static str {
    let (owned, paused) = (count_of(view, |at| at.owner.is_some()), count_of(view, |at| at.owner_paused));
    match (&view.paused, owned) {
        (Some(_), _) => "paused",
        (None, 0) => "no workers",
        (None, owned) if owned == paused => "workers paused",
        (None, owned) if owned < view.partitions.len() => "partly owned",
        (None, _) if paused > 0 => "partly paused",
        (None, _) => "open",
    }
}

fn count_of(view: &QueueView, is: impl Fn(&PartitionView) -> bool) -> usize {
    view.partitions.iter().filter(|partition| is(partition)).count()
}

/// Whether the queue is behind, and whether more workers would help.
fn verdict(view: &QueueView, rate: Option<Rate>) -> String {
    if let Some((partition, ahead)) = view.ahead() {
        let ahead = durations::precise(ahead);
        return format!(
            "the cursor of {partition} is {ahead} ahead of the clock, and nothing is handled before then"
        );
    }
    if let Some(partition) = view.without_cursor.first() {
        let cursor = queues::cursor(partition);
        return format!(
            "{} is missing in the namespace, so nobody handles {partition}; `menagerie doctor` says what to do",
            cursor.path()
        );
    }
    let lag = view.lag();
    if lag == 0 {
        return "not behind".to_owned();
    }
    let owners: std::collections::BTreeSet<_> =
        view.partitions.iter().filter_map(|partition| partition.owner.as_ref()).collect();
    let held_up = count_of(view, |at| at.owner_paused && at.lag > 0);
    let more = match (owners.len(), view.partitions.len()) {
        _ if view.paused.is_some() => "; it is paused",
        _ if held_up > 0 => "; workers are paused: `menagerie queue resume --worker NAME` lets them go on",
        (0, _) => "; nobody handles it: `menagerie worker` does",
        (workers, partitions) if workers < partitions => "; more workers would help",
        _ => "; every partition has a worker of its own",
    };
    let behind = count(lag, "message");
    match rate {
        Some(rate) if rate.handled > rate.put => {
            let left = lag as f64 / (rate.handled - rate.put);
            let left = durations::precise(Duration::from_secs(left.ceil() as u64));
            format!("{behind} behind, and catching up: done in about {left}")
        }
        Some(rate) if rate.put > rate.handled => format!("{behind} behind, and falling further behind{more}"),
        Some(_) | None => format!("{behind} behind{more}"),
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
        let mut text = format!("queue {}: {}", self.queue, self.verdict);
        if let Some(rate) = self.rate {
            text += &format!(" (in {:.1}/s, out {:.1}/s)", rate.put, rate.handled);
        }
        if self.delayed > 0 {
            text += &format!(", {} delayed", self.delayed);
        }
        if self.failed > 0 {
            text += &format!(", {} failed", self.failed);
        }
        text += &format!("\nhandled messages are kept {}", kept(self.keep));
        if let Some(pause) = &self.paused {
            text += &format!(
                "\npaused by {}: {}",
                escape_for_terminal(Some(&pause.by)),
                escape_for_terminal(pause.reason.as_deref())
            );
        }
        let mut table =
            Table::new(["PARTITION", "MESSAGES", "WAITING", "OLDEST", "DELAYED", "IN", "OUT", "OWNER"]);
        for PartitionOverview { view, rate } in &self.partitions {
            table.row([
                view.partition.to_string(),
                view.messages.to_string(),
                view.lag.to_string(),
                age(view.oldest_ms),
                view.delayed.to_string(),
                per_second(rate.map(|rate| rate.put)),
                per_second(rate.map(|rate| rate.handled)),
                escape_for_terminal(view.owner.as_ref().map(|owner| owner.as_str()))
                    + if view.owner_paused { " (paused)" } else { "" },
            ]);
        }
        format!("{text}\n\n{}", table.text())
    }
}
