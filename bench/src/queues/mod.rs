//! `bench queues`: our workers beside Celery, RQ and Dramatiq; many tasks asleep; a joining worker; idle queues; how
//! long `queue show` and `queue trace` take.
//!
//! # Layout
//! - `ours.rs`: a keeper, a journal, workers. `peers.rs`: the others, on Redis; `tasks.py` is their task, `serve.py`
//!   the same for ours; `stamps.rs` records when tasks end. `join.rs`: the tenth worker. `idle.rs`: many queues.
//!   `sleepers.rs`: tasks that sleep, side by side in `sleepers.py`. `show.rs`, `trace.rs`: these commands;
//!   `attempts.py` gives traced messages their outcomes.
//! - this file: the verb, the rounds and the output.

mod idle;
mod join;
mod ours;
mod peers;
mod show;
mod sleepers;
mod stamps;
mod trace;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use self::ours::{Desk, Runner};
use self::peers::{Peer, Redis};
use self::stamps::{Ended, Stamps};
use crate::procfs;
use crate::servers::{Kind, Launcher};
use crate::stats::Spread;

const PARTITIONS: u16 = 8;
/// Longest wait for anything.
const PATIENCE: Duration = Duration::from_secs(120);
/// Tasks per second when latency is measured: less than any peer can do.
const PACE: f64 = 50.0;
/// An operator should not have to wait for a command that reads: milliseconds for the whole process.
const READ_GOAL_MS: f64 = 100.0;
const ROWS: [&str; 7] = ["exec", "serve", "async", "join", "idle", "show", "trace"];

/// Compare workers with Celery, RQ and Dramatiq, and measure rebalances, idle queues, and how long it takes to look at
/// queues
#[derive(clap::Args)]
pub struct Queues {
    /// Rounds of each row
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Without the peers: to compare two versions of ours
    #[arg(long)]
    alone: bool,
    /// Tasks of each burst; a tenth for peers that start a process per task
    #[arg(long, default_value_t = 10_000)]
    tasks: usize,
    /// Seconds of each run at a steady pace
    #[arg(long, default_value_t = 4.0)]
    seconds: f64,
    /// A Python interpreter that has celery, rq and dramatiq
    #[arg(long, env = "QUEUES_PYTHON")]
    python: PathBuf,
    /// Queues of the idle row
    #[arg(long, default_value_t = 1_000)]
    idle_queues: usize,
    /// Messages of the queue in which some are traced
    #[arg(long, default_value_t = 10_000_000)]
    traced_messages: usize,
    /// Only this row
    #[arg(long, value_parser = ROWS)]
    row: Option<String>,
    /// The `menagerie` binary; beside this one unless given
    #[arg(long)]
    menagerie: Option<PathBuf>,
    /// A folder on the disk under test; not on a file system in memory
    #[arg(long, default_value = "/var/tmp")]
    scratch: PathBuf,
}

/// What tasks are, in Python.
const PROGRAMS: [(&str, &str); 4] = [
    ("tasks.py", include_str!("tasks.py")),
    ("serve.py", include_str!("serve.py")),
    ("sleepers.py", include_str!("sleepers.py")),
    ("attempts.py", include_str!("attempts.py")),
];

/// Workers under load.
trait Run {
    /// Puts this many while the workers are paused, then lets them work.
    fn burst(&mut self, count: usize) -> Result<Ended>;

    /// Puts this many at a steady rate.
    fn paced(&mut self, count: usize, rate: f64) -> Result<Ended>;
}

struct Sample {
    per_s: f64,
    p50_ms: f64,
    p99_ms: f64,
}

impl Queues {
    pub fn run(self) -> Result<()> {
        ensure!(self.rounds > 0 && self.tasks >= 100, "nothing to measure");
        let beside = || -> Result<PathBuf> {
            Ok(std::env::current_exe().context("who am I?")?.with_file_name("menagerie"))
        };
        let menagerie = self.menagerie.clone().map_or_else(beside, Ok)?;
        let launcher = Launcher { menagerie: menagerie.clone(), scratch: self.scratch.clone() };
        let keeper = launcher.start(Kind::Keeper)?;
        let folder = tempfile::Builder::new().prefix("bench-queues-").tempdir_in(&self.scratch)?;
        for (name, text) in PROGRAMS {
            std::fs::write(folder.path().join(name), text)?;
        }
        let _journal = ours::journal(&menagerie, keeper.address, folder.path())?;
        let desk = Desk::open(keeper.address)?;
        println!("{}; {} rounds", procfs::machine(), self.rounds);
        let wanted = |row: &str| self.row.as_deref().is_none_or(|only| only == row);
        let stamps = Stamps::open(folder.path())?;
        let bench = Bench {
            menagerie: &menagerie,
            keeper: keeper.address,
            folder: folder.path(),
            python: &self.python,
        };
        if wanted("exec") {
            self.compare(&bench, (&desk, &stamps), Runner::Exec, &[Peer::Rq], self.tasks / 10)?;
        }
        if wanted("serve") {
            let peers = [Peer::Celery, Peer::Dramatiq(1), Peer::Dramatiq(8)];
            self.compare(&bench, (&desk, &stamps), Runner::Serve, &peers, self.tasks)?;
        }
        if wanted("async") {
            sleepers::measure(&bench, (&desk, &stamps), self.tasks, self.rounds)?;
        }
        if wanted("join") {
            desk.runtime.block_on(join::measure(keeper.address, &desk.journals, self.rounds))?;
        }
        if wanted("idle") {
            idle::measure(&bench, &desk, self.idle_queues)?;
        }
        if wanted("show") {
            show::measure(&bench, &desk)?;
        }
        if wanted("trace") {
            trace::measure(&bench, &desk, self.traced_messages)?;
        }
        Ok(())
    }

    /// In turn: a disturbance that outlasts a run disturbs all of them.
    fn compare(
        &self,
        bench: &Bench<'_>,
        (desk, stamps): (&Desk, &Stamps),
        runner: Runner,
        peers: &[Peer],
        tasks: usize,
    ) -> Result<()> {
        println!(
            "\n{runner:?}: {tasks} tasks at once, 2 worker processes, {PARTITIONS} partitions; latency at {PACE}/s"
        );
        println!("{:<22} {:>10} {:>10} {:>10} {:>22}", "", "tasks/s", "p50 ms", "p99 ms", "ours ÷ theirs");
        let peers = if self.alone { &[] } else { peers };
        let redis = Redis::start(bench.folder)?;
        let mut ours = Vec::new();
        let mut theirs: Vec<Vec<Sample>> = peers.iter().map(|_| Vec::new()).collect();
        for _ in 0..self.rounds {
            let workers = ours::Workers::start(runner, bench, (desk, stamps));
            ours.push(self.sample(&mut workers?, tasks)?);
            for (peer, samples) in peers.iter().zip(&mut theirs) {
                // Slow peers do fewer tasks, for about as long.
                let fewer = if *peer == Peer::Rq { tasks / 10 } else { tasks / 5 }.max(50);
                let mut workers = peers::Workers::start(*peer, bench.python, bench.folder, &redis, stamps)?;
                samples.push(self.sample(&mut workers, fewer)?);
            }
        }
        print_row("menagerie", &ours, &ours);
        for (peer, samples) in peers.iter().zip(&theirs) {
            print_row(&peer.name(), samples, &ours);
        }
        Ok(())
    }

    fn sample(&self, workers: &mut impl Run, tasks: usize) -> Result<Sample> {
        let burst = workers.burst(tasks)?;
        let paced = workers.paced((self.seconds * PACE) as usize, PACE)?;
        Ok(Sample { per_s: burst.per_s, p50_ms: paced.latency_ms(0.5), p99_ms: paced.latency_ms(0.99) })
    }
}

/// Paths and addresses.
struct Bench<'a> {
    menagerie: &'a Path,
    keeper: std::net::SocketAddr,
    folder: &'a Path,
    python: &'a Path,
}

impl Bench<'_> {
    /// `menagerie` with this verb; what follows it is for the caller to add.
    fn command(&self, verb: &[&str]) -> Command {
        let mut command = Command::new(self.menagerie);
        command.args(["--log-level", "error"]).args(verb).args(["--zookeeper", &self.keeper.to_string()]);
        command
    }

    /// Runs it to its end. Returns how many milliseconds that took, from before the process exists, and what it printed.
    fn timed(&self, verb: &[&str], argument: &str) -> Result<(f64, String)> {
        let mut command = self.command(verb);
        command.arg(argument);
        let began = Instant::now();
        let output = command.output().context("cannot run menagerie")?;
        let took_ms = began.elapsed().as_secs_f64() * 1e3;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{verb:?} {argument}: {}: {said}", output.status);
        Ok((took_ms, String::from_utf8_lossy(&output.stdout).into_owned()))
    }
}

fn print_row(name: &str, samples: &[Sample], ours: &[Sample]) {
    let median = |pick: fn(&Sample) -> f64| {
        let spread = Spread::of(samples.iter().map(pick).filter(|value| value.is_finite()));
        spread.map_or("-".to_owned(), |spread| format!("{:.1}", spread.median))
    };
    let rates = |samples: &[Sample]| samples.iter().map(|sample| sample.per_s).collect::<Vec<_>>();
    let ratio = Spread::of_ratios(rates(ours), rates(samples));
    let ratio = ratio.map_or("-".to_owned(), |r| format!("{:.1} ({:.1}–{:.1})", r.median, r.min, r.max));
    println!(
        "{name:<22} {:>10} {:>10} {:>10} {ratio:>22}",
        median(|sample| sample.per_s),
        median(|sample| sample.p50_ms),
        median(|sample| sample.p99_ms)
    );
}
