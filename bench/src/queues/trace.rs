//! How long `menagerie queue trace` takes for messages among millions.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use menagerie_journal::{NewMessage, Ticks};
use menagerie_queues::MessageUuid;
use menagerie_queues::admin::{self, Destination, Putter};
use menagerie_znodes::queues::QueueName;

use super::ours::{Announced, Desk};
use super::{Bench, PARTITIONS, READ_GOAL_MS};
use crate::stats::Spread;

/// Messages that a worker handles, the oldest ones: enough for many pages of outcomes, few enough to wait for.
const HANDLED: usize = 100_000;
/// Messages of one put.
const BATCH: usize = 10_000;
/// Traced messages of each kind, from the oldest to the newest.
const PICKED: usize = 50;
/// Runs for a message that is the only one of its kind.
const RUNS: usize = 5;
/// Delay of messages that are due while others are put.
const SOON: Duration = Duration::from_secs(1);
const LATER: Duration = Duration::from_secs(24 * 3600);

/// Messages with the same story.
struct Kind {
    name: &'static str,
    /// Their state, as the command prints it.
    state: &'static str,
    ids: Vec<MessageUuid>,
}

pub fn measure(bench: &Bench<'_>, desk: &Desk, messages: usize) -> Result<()> {
    let queue: QueueName = "traced".parse()?;
    desk.create(&queue, &admin::default_settings(PARTITIONS, "main"))?;
    let mut putter = desk.putter(&queue)?;
    let handled = HANDLED.min(messages / 2);
    ensure!(handled >= PICKED, "too few messages to trace some");
    let delayed = desk.runtime.block_on(one(&mut putter, delayed_by(SOON)))?;
    let still_delayed = desk.runtime.block_on(one(&mut putter, delayed_by(LATER)))?;
    let failed = desk.runtime.block_on(one(&mut putter, NewMessage::new("fails once")))?;
    let (done, _) = desk.runtime.block_on(fill(&mut putter, handled))?;
    let _worker = handle(bench, desk, &queue)?;
    let delayed_waiting = desk.runtime.block_on(one(&mut putter, delayed_by(SOON)))?;
    let (waiting, per_s) = desk.runtime.block_on(fill(&mut putter, messages - handled))?;

    println!(
        "\n`queue trace`: {messages} messages in {PARTITIONS} partitions, put at {per_s:.0}/s, {handled} handled"
    );
    println!("{:<26} {:>5} {:>10} {:>10}, goal {READ_GOAL_MS:.0}", "", "runs", "median ms", "max ms");
    let only = |id: MessageUuid| vec![id; RUNS];
    let kinds = [
        Kind { name: "handled", state: "done", ids: done },
        Kind { name: "waiting", state: "waiting", ids: waiting },
        Kind { name: "failed once, handled", state: "done", ids: only(failed) },
        Kind { name: "still delayed", state: "delayed", ids: only(still_delayed) },
        Kind { name: "was delayed, handled", state: "done", ids: only(delayed) },
        Kind { name: "was delayed, waiting", state: "waiting", ids: only(delayed_waiting) },
    ];
    kinds.iter().try_for_each(|kind| kind.measure(bench))
}

impl Kind {
    fn measure(&self, bench: &Bench<'_>) -> Result<()> {
        let run = |id: &MessageUuid| {
            let (took_ms, story) = bench.timed(&["queue", "trace"], &id.to_string())?;
            let told = story.lines().next().is_some_and(|line| line.ends_with(self.state));
            ensure!(told, "not the story of a message that is {}: {story}", self.state);
            Ok(took_ms)
        };
        let took = self.ids.iter().map(run).collect::<Result<Vec<_>>>()?;
        let (runs, took) = (took.len(), Spread::of(took).context("no runs")?);
        println!("{:<26} {runs:>5} {:>10.0} {:>10.0}", self.name, took.median, took.max);
        Ok(())
    }
}

fn delayed_by(delay: Duration) -> NewMessage {
    NewMessage { due: Some(Ticks::now().plus(delay)), ..NewMessage::new("later") }
}

async fn one(putter: &mut Putter, message: NewMessage) -> Result<MessageUuid> {
    let put = putter.put(vec![(Destination::Any, message)]).await?;
    put.first().and_then(|put| put.id).context("it has no id")
}

/// Puts this many. Returns the ids of some, evenly spread, and how many were put in a second.
async fn fill(putter: &mut Putter, count: usize) -> Result<(Vec<MessageUuid>, f64)> {
    let began = Instant::now();
    let every = count.div_ceil(PICKED);
    let mut picked = Vec::with_capacity(PICKED + 1);
    for start in (0..count).step_by(BATCH) {
        let numbers = start..count.min(start + BATCH);
        let messages = numbers.clone().map(|n| (Destination::Any, NewMessage::new(n.to_string()))).collect();
        let put = putter.put(messages).await?;
        let chosen = numbers.zip(put).filter(|(number, _)| number % every == 0 || number + 1 == count);
        picked.extend(chosen.filter_map(|(_, put)| put.id));
    }
    Ok((picked, count as f64 / began.elapsed().as_secs_f64()))
}

/// Lets a worker handle everything that is due; from then on it only owns the partitions.
fn handle(bench: &Bench<'_>, desk: &Desk, queue: &QueueName) -> Result<Announced> {
    let mut command = bench.command(&["worker"]);
    command.args([&queue.to_string(), "--settle", "300ms", "--backoff", "100ms", "--serve", "--"]);
    command.arg(bench.python).arg("attempts.py").current_dir(bench.folder);
    let (worker, _) = Announced::start(command)?;
    // One stays delayed.
    desk.wait_until(queue, |view| view.lag() == 0 && view.delayed() == 1)?;
    desk.pause(queue)?;
    Ok(worker)
}
