//! `bench pipelines`: from a push to the start of a job's program, and changes through a gate with three instant jobs; beside a
//! shell loop that merges, tests and pushes one change after the other with git alone.
//!
//! # Layout
//! - `site.rs`: repositories and `menagerie up` over them. `by_hand.rs`: the loop. This file: the verb, rounds and output.

mod by_hand;
mod site;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use self::site::Site;
use crate::procfs;
use crate::stats::Spread;

/// Measure pipelines, beside a loop of git commands
#[derive(clap::Args)]
pub struct Pipelines {
    /// Rounds of the gate
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Changes of each round
    #[arg(long, default_value_t = 100)]
    changes: usize,
    /// Pushes whose latency is measured
    #[arg(long, default_value_t = 50)]
    pushes: usize,
    /// The `menagerie` binary; beside this one unless given
    #[arg(long)]
    menagerie: Option<PathBuf>,
    /// A folder on the disk under test; not on a file system in memory
    #[arg(long, default_value = "/var/tmp")]
    scratch: PathBuf,
}

impl Pipelines {
    pub fn run(self) -> Result<()> {
        ensure!(self.rounds > 0 && self.changes > 0, "nothing to measure in no rounds or with no changes");
        let beside = || -> Result<PathBuf> {
            Ok(std::env::current_exe().context("who am I?")?.with_file_name("menagerie"))
        };
        let menagerie = self.menagerie.clone().map_or_else(beside, Ok)?;
        println!("{}; {} rounds of {} changes with three jobs", procfs::machine(), self.rounds, self.changes);
        let (mut ours, mut loops) = (Vec::new(), Vec::new());
        for _ in 0..self.rounds {
            let site = Site::start(&menagerie, &self.scratch)?;
            ours.push(self.gate(&site)?);
            loops.push(by_hand::changes_per_minute(&self.scratch, self.changes)?);
        }
        let median = |values: &[f64]| Spread::of(values.iter().copied()).map_or(0.0, |spread| spread.median);
        let ratio = Spread::of_ratios(ours.iter().copied(), loops.iter().copied());
        println!("merged changes a minute: {:.0}; the loop: {:.0}", median(&ours), median(&loops));
        if let Some(ratio) = ratio {
            println!("ours ÷ loop: {:.2} ({:.2}–{:.2})", ratio.median, ratio.min, ratio.max);
        }
        let site = Site::start(&menagerie, &self.scratch)?;
        let latencies: Result<Vec<f64>> = (0..self.pushes).map(|number| latency_ms(&site, number)).collect();
        if let Some(spread) = Spread::of(latencies?) {
            let Spread { median, min, max } = spread;
            println!(
                "end of a push with hook to the start of the program: p50 {median:.0} ms ({min:.0}–{max:.0})"
            );
        }
        Ok(())
    }

    /// Changes a minute through the gate, from the push of all of them to the last merge.
    fn gate(&self, site: &Site) -> Result<f64> {
        site.prepare(self.changes)?;
        let begun = Instant::now();
        site.push(self.changes)?;
        while site.merged()? < self.changes {
            ensure!(begun.elapsed() < Duration::from_secs(600), "the gate takes too long");
            std::thread::sleep(Duration::from_millis(200));
        }
        Ok(self.changes as f64 * 60.0 / begun.elapsed().as_secs_f64())
    }
}

fn latency_ms(site: &Site, number: usize) -> Result<f64> {
    let stamp = site.propose_stamp(number)?;
    let pushed = site::now()?;
    let begun = Instant::now();
    loop {
        if let Ok(text) = std::fs::read_to_string(&stamp)
            && let Ok(started) = text.trim().parse::<f64>()
        {
            site.wait()?;
            return Ok((started - pushed) * 1e3);
        }
        ensure!(begun.elapsed() < Duration::from_secs(60), "the program was not started");
        std::thread::sleep(Duration::from_millis(1));
    }
}
