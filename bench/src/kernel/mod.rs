//! `bench kernel`: the recipes on one server, beside kazoo's and the ZooKeeper client's own, in turn.
//!
//! # Layout
//! - `rows.rs`: recipes and numbers of contenders. `ours.rs`, `client.rs` and `python.rs` (with `cycles.py`): the
//!   three implementations. `tree_cache.rs`: the cache, which has no peer.
//! - this file: the verb, the rounds and the table.

mod client;
mod ours;
pub mod python;
pub mod rows;
mod tree_cache;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use self::rows::{Peer, ROWS, Row};
use crate::procfs;
use crate::servers::{Kind, Launcher, Server};
use crate::stats::Spread;

/// Compare the recipes with kazoo's and with those of the ZooKeeper client.
#[derive(clap::Args)]
pub struct Kernel {
    /// Rounds of each row
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Measured seconds of each run
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Only this row: lock-1, lock-8, semaphore-1 or semaphore-8
    #[arg(long)]
    row: Option<String>,
    /// The server that all of them use: keeper or apache
    #[arg(long, default_value = "keeper")]
    server: Kind,
    /// A Python interpreter that has kazoo; without one kazoo is left out
    #[arg(long, env = "KAZOO_PYTHON")]
    python: Option<PathBuf>,
    /// Znodes in the tree cache
    #[arg(long, default_value_t = 100_000)]
    znodes: usize,
    /// The `menagerie` binary; beside this one unless given
    #[arg(long)]
    menagerie: Option<PathBuf>,
    /// A folder on the disk under test; not on a file system in memory
    #[arg(long, default_value = "/var/tmp")]
    scratch: PathBuf,
}

/// One row's rounds, in cycles per second.
struct Measured {
    row: Row,
    ours: Vec<f64>,
    client: Vec<f64>,
    kazoo: Vec<f64>,
}

impl Kernel {
    pub fn run(self) -> Result<()> {
        ensure!(self.rounds > 0 && self.seconds > 0.0, "nothing to measure in no rounds or no time");
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let beside = || -> Result<PathBuf> {
            Ok(std::env::current_exe().context("who am I?")?.with_file_name("menagerie"))
        };
        let menagerie = self.menagerie.clone().map_or_else(beside, Ok)?;
        let launcher = Launcher { menagerie, scratch: self.scratch.clone() };
        let server = launcher.start(self.server)?;
        println!(
            "{}; on the {}; {} rounds of {} s",
            procfs::machine(),
            self.server.name(),
            self.rounds,
            self.seconds
        );
        println!(
            "{:<16} {:>12} {:>12} {:>12} {:>18} {:>18}",
            "row", "ours/s", "client/s", "kazoo/s", "ours ÷ client", "ours ÷ kazoo"
        );
        let wanted = |row: &Row| self.row.as_ref().is_none_or(|name| *name == row.name());
        for row in ROWS.into_iter().filter(wanted) {
            let measured = runtime.block_on(self.measure(&server, row))?;
            measured.print();
        }
        if self.row.is_some() {
            return Ok(());
        }
        let cache = runtime.block_on(tree_cache::measure(server.address, self.znodes))?;
        println!("\n{cache}");
        Ok(())
    }

    async fn measure(&self, server: &Server, row: Row) -> Result<Measured> {
        let time = Duration::from_secs_f64(self.seconds);
        let mut measured = Measured { row, ours: Vec::new(), client: Vec::new(), kazoo: Vec::new() };
        for round in 0..self.rounds {
            for peer in Peer::turns(round) {
                let path = format!("/{}-{}-{round}", row.name(), peer.name());
                let address = server.address;
                match peer {
                    Peer::Ours => measured.ours.push(ours::cycles_per_s(address, &path, row, time).await?),
                    Peer::Client => {
                        if let Some(rate) = client::cycles_per_s(address, &path, row, time).await? {
                            measured.client.push(rate);
                        }
                    }
                    Peer::Kazoo => {
                        if let Some(python) = &self.python {
                            measured.kazoo.push(python::cycles_per_s(python, address, &path, row, time)?);
                        }
                    }
                }
            }
        }
        Ok(measured)
    }
}

impl Measured {
    fn print(&self) {
        let median = |values: &[f64]| {
            Spread::of(values.iter().copied())
                .map_or("-".to_owned(), |spread| format!("{:.0}", spread.median))
        };
        let ratio = |under: &[f64]| {
            Spread::of_ratios(self.ours.iter().copied(), under.iter().copied())
                .map_or("-".to_owned(), |r| format!("{:.2} ({:.2}–{:.2})", r.median, r.min, r.max))
        };
        println!(
            "{:<16} {:>12} {:>12} {:>12} {:>18} {:>18}",
            self.row.name(),
            median(&self.ours),
            median(&self.client),
            median(&self.kazoo),
            ratio(&self.client),
            ratio(&self.kazoo),
        );
    }
}
