//! `bench keeper`: the keeper, Apache ZooKeeper and the null server under the same load.
//!
//! # Layout
//! - `rows.rs`: the load by rows (operation, clients, in flight); `load.rs` drives one row against one server, and
//!   `lock.rs` is its contended row. `rounds.rs` alternates the servers and gathers the samples.
//! - `startup.rs`, `memory.rs` and `reload.rs`: the other sections; `fill.rs` creates the znodes for the last two.
//! - `null_server.rs`: the verb `bench null-server`: the physical limit for this client and this disk.
//! - `targets.rs`: the targets, as pure functions of the samples; `report.rs` prints.

mod fill;
mod load;
mod lock;
mod memory;
pub mod null_server;
mod reload;
mod report;
mod rounds;
mod rows;
mod startup;
mod targets;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;
use tokio::signal::unix::{SignalKind, signal};

use self::load::Timing;
use self::report::Report;
use self::rows::Choice;
use crate::procfs;
use crate::servers::{Kind, Launcher, Server};

/// Compare the keeper with Apache ZooKeeper and with the null server.
#[derive(clap::Args)]
pub struct Keeper {
    /// Rounds of each row
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Measured seconds of each run
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Seconds under load before each measurement
    #[arg(long, default_value_t = 0.5)]
    warm_up: f64,
    /// Rows to run, such as `get` or `create-8x64`; all unless given
    #[arg(long, value_delimiter = ',')]
    rows: Vec<Choice>,
    /// Sections to run
    #[arg(long, value_delimiter = ',', default_values_t = Section::ALL)]
    sections: Vec<Section>,
    /// Servers to run
    #[arg(long, value_delimiter = ',', default_value = "apache,keeper,null")]
    only: Vec<Kind>,
    /// The `menagerie` binary; beside this one unless given
    #[arg(long)]
    menagerie: Option<PathBuf>,
    /// A folder on the disk under test; not on a file system in memory
    #[arg(long, default_value = "/var/tmp")]
    scratch: PathBuf,
    #[arg(short, long, default_value = "table")]
    output: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Section {
    Rows,
    Startup,
    Memory,
    Reload,
}

impl Section {
    const ALL: [Self; 4] = [Self::Rows, Self::Startup, Self::Memory, Self::Reload];
}

impl std::fmt::Display for Section {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Rows => "rows",
            Self::Startup => "startup",
            Self::Memory => "memory",
            Self::Reload => "reload",
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Table,
    Json,
}

impl Keeper {
    pub fn run(self) -> Result<()> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let report = runtime.block_on(async {
            let mut terminate = signal(SignalKind::terminate())?;
            tokio::select! {
                report = self.measure() => report,
                // Dropping the future stops the servers that it started.
                _ = tokio::signal::ctrl_c() => bail!("interrupted"),
                _ = terminate.recv() => bail!("terminated"),
            }
        })?;
        match self.output {
            Format::Table => print!("{}", report.table()),
            Format::Json => println!("{}", serde_json::to_string_pretty(&report)?),
        }
        Ok(())
    }

    async fn measure(&self) -> Result<Report> {
        ensure!(self.rounds > 0 && self.seconds > 0.0, "nothing to measure in no rounds or no time");
        let launcher = self.launcher()?;
        let mut report = Report {
            machine: procfs::machine(),
            rounds: self.rounds,
            seconds: self.seconds,
            rows: Vec::new(),
            startup: Vec::new(),
            memory: Vec::new(),
            reload: Vec::new(),
            verdicts: Vec::new(),
        };
        if self.sections.contains(&Section::Startup) {
            for kind in self.stores() {
                report.startup.push(startup::measure(&launcher, kind)?);
            }
        }
        if self.sections.contains(&Section::Memory) {
            for kind in self.stores() {
                report.memory.push(memory::measure(&launcher, kind).await?);
            }
        }
        if self.sections.contains(&Section::Rows) {
            self.measure_rows(&launcher, &mut report).await?;
        }
        if self.sections.contains(&Section::Reload) {
            for kind in self.stores() {
                report.reload.push(reload::measure(&launcher, kind).await?);
            }
        }
        report.judge();
        Ok(report)
    }

    async fn measure_rows(&self, launcher: &Launcher, report: &mut Report) -> Result<()> {
        // One process of each for all rows, so that Java's JIT is warm.
        let servers: Vec<Server> =
            self.only.iter().map(|kind| launcher.start(*kind)).collect::<Result<_>>()?;
        let timing = Timing {
            warm_up: Duration::from_secs_f64(self.warm_up),
            measured: Duration::from_secs_f64(self.seconds),
        };
        for row in rows::chosen(&self.rows) {
            report.rows.push(rounds::run(&servers, row, self.rounds, timing).await?);
        }
        Ok(())
    }

    /// The servers that store anything.
    fn stores(&self) -> impl Iterator<Item = Kind> {
        self.only.iter().copied().filter(|kind| *kind != Kind::Null)
    }

    fn launcher(&self) -> Result<Launcher> {
        let beside = || -> Result<PathBuf> {
            Ok(std::env::current_exe().context("who am I?")?.with_file_name("menagerie"))
        };
        let menagerie = self.menagerie.clone().map_or_else(beside, Ok)?;
        if self.only.contains(&Kind::Keeper) {
            ensure!(menagerie.exists(), "no {}: build it, or say --menagerie PATH", menagerie.display());
        }
        Ok(Launcher { menagerie, scratch: self.scratch.clone() })
    }
}
