//! Celery, RQ and Dramatiq on Redis.

use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use nix::sys::signal::{Signal, kill};

use super::stamps::{Ended, Stamps};
use super::{PATIENCE, Run};

/// By then workers have loaded everything.
const WARM: usize = 40;

/// The peers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// Two long-running processes.
    Celery,
    /// Two processes with this many threads each.
    Dramatiq(usize),
    /// Two processes, each of which forks per task.
    Rq,
}

impl Peer {
    pub fn name(self) -> String {
        match self {
            Self::Celery => "Celery, prefork 2".to_owned(),
            Self::Dramatiq(threads) => format!("Dramatiq, 2 × {threads}"),
            Self::Rq => "RQ, 2 workers".to_owned(),
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Celery => "celery",
            Self::Dramatiq(_) => "dramatiq",
            Self::Rq => "rq",
        }
    }

    fn workers(self, bin: &Path) -> Vec<Command> {
        let program = |name: &str, args: &[&str]| {
            let mut command = Command::new(bin.join(name));
            command.args(args);
            command
        };
        match self {
            Self::Celery => vec![program(
                "celery",
                &[
                    "-A",
                    "tasks:app",
                    "worker",
                    "-c",
                    "2",
                    "-l",
                    "error",
                    "--without-gossip",
                    "--without-mingle",
                ],
            )],
            Self::Dramatiq(threads) => {
                vec![program("dramatiq", &["tasks", "-p", "2", "-t", &threads.to_string()])]
            }
            Self::Rq => (0..2).map(|_| program("rq", &["worker", "--quiet", "default"])).collect(),
        }
    }
}

/// A Redis server of our own.
pub struct Redis {
    _process: Running,
    port: u16,
}

/// A child and everything it started, in one process group.
struct Running(Child);

impl Running {
    fn spawn(command: &mut Command) -> Result<Self> {
        use std::os::unix::process::CommandExt as _;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        command.spawn().map(Self).with_context(|| format!("cannot run {:?}", command.get_program()))
    }

    fn signal(&self, signal: Signal) {
        if let Ok(pid) = i32::try_from(self.0.id()) {
            // It may have ended.
            let _ = kill(nix::unistd::Pid::from_raw(-pid), signal);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.signal(Signal::SIGKILL);
        let _ = self.0.wait();
    }
}

impl Redis {
    pub fn start(folder: &Path) -> Result<Self> {
        let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let mut command = Command::new("redis-server");
        command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--dir"]).arg(folder);
        let process = Running::spawn(&mut command)?;
        let deadline = Instant::now() + PATIENCE;
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            ensure!(Instant::now() < deadline, "redis-server does not answer");
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(Self { _process: process, port })
    }
}

/// A peer's running workers.
pub struct Workers<'a> {
    peer: Peer,
    python: PathBuf,
    folder: PathBuf,
    redis: &'a Redis,
    stamps: &'a Stamps,
    processes: Vec<Running>,
}

impl<'a> Workers<'a> {
    /// Starts them and runs some tasks first. The modules are in the folder.
    pub fn start(
        peer: Peer,
        python: &Path,
        folder: &Path,
        redis: &'a Redis,
        stamps: &'a Stamps,
    ) -> Result<Self> {
        let bin = python.parent().context("the interpreter is in no folder")?;
        let mut workers = Self {
            peer,
            python: python.to_owned(),
            folder: folder.to_owned(),
            redis,
            stamps,
            processes: Vec::new(),
        };
        for mut command in peer.workers(bin) {
            workers.surround(&mut command);
            workers.processes.push(Running::spawn(&mut command)?);
        }
        workers.put(WARM, 0.0)?;
        workers.stamps.collect(WARM, PATIENCE).with_context(|| peer.name())?;
        Ok(workers)
    }

    fn surround(&self, command: &mut Command) {
        command
            .current_dir(&self.folder)
            .env("PYTHONPATH", &self.folder)
            .env("PEER", self.peer.word())
            .env("REDIS_PORT", self.redis.port.to_string())
            .env("STAMPS", self.stamps.path());
    }

    fn put(&self, count: usize, rate: f64) -> Result<()> {
        let mut command = Command::new(&self.python);
        command.arg("tasks.py").args([self.peer.word(), &count.to_string(), &rate.to_string()]);
        self.surround(&mut command);
        let status = command.stdout(Stdio::null()).env_remove("PEER").status()?;
        ensure!(status.success(), "{}: cannot put tasks: {status}", self.peer.name());
        Ok(())
    }
}

impl Run for Workers<'_> {
    /// Stops them while tasks are put, so that putting does not compete with them.
    fn burst(&mut self, count: usize) -> Result<Ended> {
        self.processes.iter().for_each(|process| process.signal(Signal::SIGSTOP));
        self.put(count, 0.0)?;
        self.processes.iter().for_each(|process| process.signal(Signal::SIGCONT));
        self.stamps.collect(count, PATIENCE).with_context(|| self.peer.name())
    }

    fn paced(&mut self, count: usize, rate: f64) -> Result<Ended> {
        self.put(count, rate)?;
        self.stamps.collect(count, PATIENCE).with_context(|| self.peer.name())
    }
}
