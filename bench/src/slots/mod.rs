//! `bench slots`: slots on one server, beside kazoo's semaphore; what `slots run` adds to a command; many waiters.
//!
//! # Layout
//! - `cycles.rs`: cycles of acquire and release. `overhead.rs`: `slots run POOL -- true` beside `true`. `waiters.rs`:
//!   how quickly a slot is handed over among many waiters.
//! - this file: the verb, the rounds and the output.

mod cycles;
mod overhead;
mod waiters;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use crate::kernel::python;
use crate::kernel::rows::{Recipe, Row};
use crate::procfs;
use crate::servers::{Kind, Launcher};
use crate::stats::Spread;

/// Numbers of contenders.
const CONTENDERS: [usize; 2] = [1, 8];

/// Compare slots with kazoo's semaphore, and measure what `slots run` and many waiters cost
#[derive(clap::Args)]
pub struct Slots {
    /// Rounds of each row
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Measured seconds of each run
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// The server that all of them use: keeper or apache
    #[arg(long, default_value = "keeper")]
    server: Kind,
    /// A Python interpreter that has kazoo
    #[arg(long, env = "KAZOO_PYTHON")]
    python: PathBuf,
    /// How often a command is run, with a slot and without
    #[arg(long, default_value_t = 200)]
    runs: usize,
    /// How many wait for one slot
    #[arg(long, default_value_t = 1_000)]
    waiters: usize,
    /// The `menagerie` binary; beside this one unless given
    #[arg(long)]
    menagerie: Option<PathBuf>,
    /// A folder on the disk under test; not on a file system in memory
    #[arg(long, default_value = "/var/tmp")]
    scratch: PathBuf,
}

impl Slots {
    pub fn run(self) -> Result<()> {
        ensure!(self.rounds > 0 && self.seconds > 0.0, "nothing to measure in no rounds or no time");
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let beside = || -> Result<PathBuf> {
            Ok(std::env::current_exe().context("who am I?")?.with_file_name("menagerie"))
        };
        let menagerie = self.menagerie.clone().map_or_else(beside, Ok)?;
        let launcher = Launcher { menagerie: menagerie.clone(), scratch: self.scratch.clone() };
        let server = launcher.start(self.server)?;
        let (name, rounds, seconds) = (self.server.name(), self.rounds, self.seconds);
        println!("{}; on the {name}; {rounds} rounds of {seconds} s", procfs::machine());
        println!("{:<12} {:>10} {:>10} {:>22}", "contenders", "ours/s", "kazoo/s", "ours ÷ kazoo");
        let time = Duration::from_secs_f64(self.seconds);
        for contenders in CONTENDERS {
            let (mut ours, mut kazoo) = (Vec::new(), Vec::new());
            let row = Row { recipe: Recipe::Semaphore, contenders };
            for round in 0..self.rounds {
                let pool = format!("cycles-{contenders}-{round}");
                ours.push(runtime.block_on(cycles::cycles_per_s(server.address, &pool, contenders, time))?);
                let path = format!("/kazoo-{contenders}-{round}");
                kazoo.push(python::cycles_per_s(&self.python, server.address, &path, row, time)?);
            }
            print_row(contenders, &ours, &kazoo);
        }
        let overhead = overhead::measure(&menagerie, server.address, self.runs)?;
        println!("\n`slots run POOL -- true` beside `true`, {} times each: {overhead}", self.runs);
        let waiters = runtime.block_on(waiters::measure(server.address, self.waiters))?;
        println!("{} waiters for one slot: {waiters}", self.waiters);
        Ok(())
    }
}

fn print_row(contenders: usize, ours: &[f64], kazoo: &[f64]) {
    let median = |values: &[f64]| {
        Spread::of(values.iter().copied()).map_or("-".to_owned(), |spread| format!("{:.0}", spread.median))
    };
    let ratio = Spread::of_ratios(ours.iter().copied(), kazoo.iter().copied());
    let ratio = ratio.map_or("-".to_owned(), |r| format!("{:.2} ({:.2}–{:.2})", r.median, r.min, r.max));
    println!("{contenders:<12} {:>10} {:>10} {ratio:>22}", median(ours), median(kazoo));
}
