//! Tasks that sleep, side by side in one asynchronous program: one partition, two workers.

use anyhow::{Context as _, Result};

use super::ours::{ASLEEP, Desk, Runner, Workers};
use super::stamps::Stamps;
use super::{Bench, Run as _};
use crate::stats::Spread;

/// Messages per second. One worker has the partition, so no more than [`ASLEEP`] sleep at a time: if nothing but
/// sleeping took time, there would be 6,400 in a second.
const GOAL: f64 = 5_000.0;

pub fn measure(
    bench: &Bench<'_>,
    (desk, stamps): (&Desk, &Stamps),
    tasks: usize,
    rounds: usize,
) -> Result<()> {
    let mut workers = Workers::start(Runner::Async, bench, (desk, stamps))?;
    let bursts = (0..rounds).map(|_| Ok(workers.burst(tasks)?.per_s)).collect::<Result<Vec<_>>>()?;
    let per_s = Spread::of(bursts).context("no rounds")?;
    println!(
        "\nAsync: {tasks} tasks of 10 ms asleep at once, 2 workers, {ASLEEP} at a time, 1 partition, no order"
    );
    println!("tasks/s: {:.0} ({:.0}–{:.0}), goal {GOAL:.0}", per_s.median, per_s.min, per_s.max);
    Ok(())
}
