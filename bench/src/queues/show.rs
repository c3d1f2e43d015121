//! How long `menagerie queue show` takes for a queue of many partitions.

use anyhow::{Context as _, Result};
use menagerie_journal::NewMessage;
use menagerie_queues::admin::{self, Destination};
use menagerie_znodes::queues::QueueName;

use super::ours::{Announced, Desk, is_owned_by};
use super::{Bench, READ_GOAL_MS};
use crate::stats::Spread;

const PARTITIONS: u16 = 100;
const WORKERS: usize = 2;
/// Messages in each partition.
const MESSAGES: usize = 5;
const RUNS: usize = 20;
/// Messages that have failed before: more than the command counts by partition.
const FAILED: usize = 2_500;
/// Bytes of each of those.
const FAILED_BYTES: usize = 1_024;
/// Two seconds: so long that nearly all messages still wait when the last run ends, so short that none outlives its worker
/// by much.
const TASK: &str = "read -r body; case $body in fails*) exit 65;; esac; exec sleep 2";

pub fn measure(bench: &Bench<'_>, desk: &Desk) -> Result<()> {
    let queue: QueueName = "shown".parse()?;
    desk.create(&queue, &admin::default_settings(PARTITIONS, "main"))?;
    let worker = || {
        let mut command = bench.command(&["worker"]);
        command.args([&queue.to_string(), "--settle", "300ms", "--", "sh", "-c", TASK]);
        Announced::start(command).map(|(worker, _)| worker)
    };
    let _workers = (0..WORKERS).map(|_| worker()).collect::<Result<Vec<_>>>()?;
    desk.wait_until(&queue, |view| is_owned_by(view, WORKERS))?;
    let mut putter = desk.putter(&queue)?;
    let body = format!("{:x<FAILED_BYTES$}", "fails");
    desk.runtime.block_on(putter.put(copies(&body, FAILED)))?;
    desk.wait_until(&queue, |view| view.lag() == 0 && view.failed == FAILED as u64)?;
    desk.runtime.block_on(putter.put(copies("x", usize::from(PARTITIONS) * MESSAGES)))?;
    desk.wait_until(&queue, |view| view.partitions.iter().any(|partition| partition.running_count > 0))?;
    let run = || Ok(bench.timed(&["queue", "show"], &queue.to_string())?.0);
    let took = Spread::of((0..RUNS).map(|_| run()).collect::<Result<Vec<_>>>()?).context("no runs")?;
    println!(
        "\n`queue show`: {PARTITIONS} partitions, {WORKERS} workers, {MESSAGES} messages in each, {FAILED} failed before; {RUNS} runs"
    );
    println!("ms: {:.0} ({:.0}–{:.0}), goal {READ_GOAL_MS:.0}", took.median, took.min, took.max);
    Ok(())
}

fn copies(body: &str, count: usize) -> Vec<(Destination, NewMessage)> {
    (0..count).map(|_| (Destination::Any, NewMessage::new(body.to_owned()))).collect()
}
