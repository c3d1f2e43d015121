//! Ours: a keeper, a journal and two workers, each a process of its own.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, bail, ensure};
use menagerie_journal::NewMessage;
use menagerie_kernel::{Config, Session};
use menagerie_queues::Origin;
use menagerie_queues::admin::{self, Destination, Putter, Scope, show};
use menagerie_queues::journals::{Access, Journals};
use menagerie_znodes::queues::{Handling, Order, Pause, QueueName, Settings};
use tokio::runtime::Runtime;

use super::stamps::{Ended, Stamps};
use super::{Bench, PARTITIONS, PATIENCE, Run};

const WARM: usize = 200;
const WORKERS: usize = 2;
/// Messages that one asynchronous program has at a time.
pub const ASLEEP: usize = 64;

/// How a message is handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Runner {
    /// A process per message.
    Exec,
    /// A long-running Python program.
    Serve,
    /// A long-running Python program that has many messages at a time, of one partition without order.
    Async,
}

impl Runner {
    fn settings(self) -> Settings {
        match self {
            Self::Exec | Self::Serve => admin::default_settings(PARTITIONS, "main"),
            Self::Async => {
                let handling = Handling { order: Order::None, ..Handling::default() };
                Settings { handling, ..admin::default_settings(1, "main") }
            }
        }
    }

    /// Adds what a worker is to run.
    fn finish(self, command: &mut Command, python: &Path) {
        match self {
            Self::Exec => command.args(["--", "/bin/true"]),
            Self::Serve => command.args(["--serve", "--"]).arg(python).arg("serve.py"),
            Self::Async => command
                .args(["--concurrency", &ASLEEP.to_string(), "--serve", "--async", "--"])
                .arg(python)
                .arg("sleepers.py"),
        };
    }
}

/// A process that reports when it is ready.
pub struct Announced(Child);

impl Announced {
    /// Starts it, waits for its ready line, and returns what follows in it.
    pub fn start(mut command: Command) -> Result<(Self, String)> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().with_context(|| format!("cannot run {:?}", command.get_program()))?;
        let stdout = child.stdout.take().context("its output is piped")?;
        let announced = Self(child);
        let mut lines = BufReader::new(stdout).lines().map_while(Result::ok);
        let said = lines.find_map(|line| line.split_once(" ready ").map(|(_, rest)| rest.to_owned()));
        // Keep reading: it must not block on a full pipe.
        std::thread::spawn(move || lines.for_each(drop));
        match said.as_deref().and_then(|said| said.split_once(' ')) {
            Some((_, rest)) => Ok((announced, rest.to_owned())),
            None => bail!("{:?} ended before it was ready", command.get_program()),
        }
    }

    pub fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Announced {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A journal registered with a keeper.
pub fn journal(menagerie: &Path, keeper: SocketAddr, folder: &Path) -> Result<Announced> {
    let mut command = Command::new(menagerie);
    command.args(["--log-level", "error", "journal", "--listen", "127.0.0.1:0"]);
    command.args(["--zookeeper", &keeper.to_string(), "--data"]).arg(folder.join("journal-data"));
    Announced::start(command).map(|(journal, _)| journal)
}

/// A client that puts messages and reads queues.
pub struct Desk {
    pub runtime: Runtime,
    pub session: Session,
    pub journals: Journals,
}

impl Desk {
    pub fn open(keeper: SocketAddr) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let (session, journals) = runtime.block_on(async {
            let session = Session::connect(Config::new(keeper.to_string(), "/menagerie")).await?;
            let journals = Journals::registered(&session, Access::default()).await?;
            journals.wait_for("main", PATIENCE).await;
            anyhow::Ok((session, journals))
        })?;
        Ok(Self { runtime, session, journals })
    }

    /// Creates a queue, if there is none yet.
    pub fn create(&self, queue: &QueueName, settings: &Settings) -> Result<()> {
        self.runtime.block_on(admin::create_with(&self.session, &self.journals, queue, settings))?;
        Ok(())
    }

    pub fn putter(&self, queue: &QueueName) -> Result<Putter> {
        let opened = Putter::open(&self.session, &self.journals, queue, 0, Origin::library());
        Ok(self.runtime.block_on(opened)?)
    }

    pub fn pause(&self, queue: &QueueName) -> Result<()> {
        let pause = Pause { by: "bench".to_owned(), reason: None };
        let scope = Scope::Queue(queue.clone());
        Ok(self.runtime.block_on(admin::pause(&self.session, &scope, &pause))?)
    }

    pub fn wait_until(&self, queue: &QueueName, is_so: impl Fn(&show::QueueView) -> bool) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let view = self.runtime.block_on(show::show(&self.session, &self.journals, queue))?;
            if is_so(&view) {
                return Ok(());
            }
            ensure!(Instant::now() < deadline, "queue {queue} does not get there: {view:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Whether so many workers own all partitions of a queue; or one each, if there are fewer partitions.
pub fn is_owned_by(view: &show::QueueView, workers: usize) -> bool {
    let owners: BTreeSet<_> =
        view.partitions.iter().filter_map(|partition| partition.owner.clone()).collect();
    owners.len() == workers.min(view.partitions.len())
        && view.partitions.iter().all(|partition| partition.owner.is_some())
}

/// Our workers, with a queue of their own.
pub struct Workers<'a> {
    desk: &'a Desk,
    stamps: &'a Stamps,
    runner: Runner,
    queue: QueueName,
    _processes: Vec<Announced>,
}

impl<'a> Workers<'a> {
    pub fn start(runner: Runner, bench: &Bench<'_>, (desk, stamps): (&'a Desk, &'a Stamps)) -> Result<Self> {
        let queue: QueueName = format!("{runner:?}").to_lowercase().parse()?;
        desk.create(&queue, &runner.settings())?;
        let worker = || {
            let mut command = bench.command(&["worker"]);
            command.args([&queue.to_string(), "--settle", "300ms"]);
            runner.finish(&mut command, bench.python);
            command.current_dir(bench.folder).env("PYTHONPATH", bench.folder).env("STAMPS", stamps.path());
            Announced::start(command).map(|(worker, _)| worker)
        };
        let processes = (0..WORKERS).map(|_| worker()).collect::<Result<_>>()?;
        let mut workers = Self { desk, stamps, runner, queue, _processes: processes };
        desk.wait_until(&workers.queue, |view| is_owned_by(view, WORKERS))?;
        workers.burst(WARM)?;
        Ok(workers)
    }

    fn put(&self, count: usize, rate: f64) -> Result<()> {
        let mut putter = self.desk.putter(&self.queue)?;
        self.desk.runtime.block_on(async {
            let message = || (Destination::Any, NewMessage::new(now_ns().to_string()));
            if rate == 0.0 {
                putter.put((0..count).map(|_| message()).collect()).await?;
                return anyhow::Ok(());
            }
            let mut ticks = tokio::time::interval(Duration::from_secs_f64(1.0 / rate));
            for _ in 0..count {
                ticks.tick().await;
                putter.put(vec![message()]).await?;
            }
            Ok(())
        })
    }

    fn collect(&self, count: usize, began: Instant) -> Result<Ended> {
        match self.runner {
            Runner::Serve | Runner::Async => self.stamps.collect(count, PATIENCE),
            // `true` cannot report when it ends.
            Runner::Exec => {
                self.desk.wait_until(&self.queue, |view| view.lag() == 0)?;
                let per_s = count as f64 / began.elapsed().as_secs_f64();
                Ok(Ended { per_s, latencies_ms: Vec::new() })
            }
        }
    }
}

impl Run for Workers<'_> {
    /// Pauses the queue while messages are put, as for the peers.
    fn burst(&mut self, count: usize) -> Result<Ended> {
        let scope = Scope::Queue(self.queue.clone());
        self.desk.pause(&self.queue)?;
        std::thread::sleep(Duration::from_millis(200));
        self.put(count, 0.0)?;
        let began = Instant::now();
        self.desk.runtime.block_on(admin::resume(&self.desk.session, &scope))?;
        self.collect(count, began)
    }

    fn paced(&mut self, count: usize, rate: f64) -> Result<Ended> {
        let began = Instant::now();
        self.put(count, rate)?;
        self.collect(count, began)
    }
}

fn now_ns() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos())
}
