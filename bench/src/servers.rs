//! The servers under test, each a process with a folder of its own, on 127.0.0.1.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;
use nix::sys::signal::{Signal, kill};
use serde::Serialize;
use tempfile::TempDir;

use crate::procfs;

/// Longest wait for a server to be ready, or to stop.
const PATIENCE: Duration = Duration::from_secs(120);

/// How often Apache is asked whether it is ready; the error of its start-up time.
const ASK_EVERY: Duration = Duration::from_millis(5);

/// From Debian's libzookeeper-java. Its manifest names the other jars.
const APACHE_JAR: &str = "/usr/share/java/zookeeper.jar";

/// Which server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Debian's Apache ZooKeeper, standalone, with its defaults.
    Apache,
    /// `menagerie keeper`, with its defaults.
    Keeper,
    /// The physical limit.
    Null,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Apache => "apache",
            Self::Keeper => "keeper",
            Self::Null => "null",
        }
    }
}

/// What it takes to start a server.
#[derive(Debug, Clone)]
pub struct Launcher {
    /// The `menagerie` binary.
    pub menagerie: PathBuf,
    /// Folder on the disk under test, for the servers' own folders.
    pub scratch: PathBuf,
}

impl Launcher {
    /// Starts a server on an empty folder.
    pub fn start(&self, kind: Kind) -> Result<Server> {
        let folder = tempfile::Builder::new()
            .prefix(&format!("bench-{}-", kind.name()))
            .tempdir_in(&self.scratch)
            .with_context(|| format!("cannot make a folder in {}", self.scratch.display()))?;
        self.start_on(kind, folder)
    }

    fn start_on(&self, kind: Kind, folder: TempDir) -> Result<Server> {
        let launched = match kind {
            Kind::Apache => launch_apache(folder.path()),
            Kind::Keeper => {
                let data = folder.path().join("data");
                std::fs::create_dir_all(&data).context("cannot make the data folder")?;
                let mut command = Command::new(&self.menagerie);
                command.args(["keeper", "--listen", "127.0.0.1:0", "--data"]).arg(data);
                launch_announced(command, folder.path())
            }
            Kind::Null => {
                let mut command = Command::new(std::env::current_exe().context("who am I?")?);
                command.args(["null-server", "--listen", "127.0.0.1:0", "--data"]).arg(folder.path());
                launch_announced(command, folder.path())
            }
        };
        let (process, address, ready_after) =
            launched.with_context(|| format!("cannot start {}", kind.name()))?;
        Ok(Server { kind, process, address, ready_after, folder, launcher: self.clone() })
    }
}

/// A running server; dropping it kills it and removes its folder.
pub struct Server {
    pub kind: Kind,
    process: Process,
    pub address: SocketAddr,
    /// From the start of the process until it was ready.
    pub ready_after: Duration,
    folder: TempDir,
    launcher: Launcher,
}

impl Server {
    pub fn pid(&self) -> u32 {
        self.process.0.id()
    }

    /// Ends the server with the signal and restarts it on the same data.
    pub fn restart(self, signal: Signal) -> Result<Self> {
        let Self { kind, process, folder, launcher, .. } = self;
        process.stop(signal).with_context(|| format!("cannot stop {}", kind.name()))?;
        launcher.start_on(kind, folder)
    }
}

/// A child that does not outlive us.
struct Process(Child);

impl Process {
    fn spawn(mut command: Command, folder: &Path) -> Result<Self> {
        let stderr = File::create(folder.join("stderr.log")).context("cannot create stderr.log")?;
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(stderr);
        command.spawn().map(Self).with_context(|| format!("cannot run {}", command.get_program().display()))
    }

    fn stop(mut self, signal: Signal) -> Result<()> {
        kill(procfs::as_pid(self.0.id())?, signal)?;
        let deadline = Instant::now() + PATIENCE;
        while self.0.try_wait()?.is_none() {
            ensure!(Instant::now() < deadline, "still there {} s after {signal}", PATIENCE.as_secs());
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only if it has ended already, which is what we want.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

type Launched = (Process, SocketAddr, Duration);

/// Starts a server that prints `… ready on HOST:PORT` to its standard output.
fn launch_announced(command: Command, folder: &Path) -> Result<Launched> {
    let began = Instant::now();
    let mut process = Process::spawn(command, folder)?;
    let stdout = process.0.stdout.take().expect("stdout is piped");
    let (announce, announced) = mpsc::channel();
    // Keep reading after the announcement: the server must not block on a full pipe.
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            if let Some((_, address)) = line.split_once(" ready on ") {
                // Only the first announcement has a receiver.
                let _ = announce.send((address.trim().to_owned(), Instant::now()));
            }
        }
    });
    match announced.recv_timeout(PATIENCE) {
        Ok((address, ready)) => {
            let address = address.parse().with_context(|| format!("{address} is not an address"))?;
            Ok((process, address, ready - began))
        }
        Err(RecvTimeoutError::Timeout) => bail!("not ready after {} s", PATIENCE.as_secs()),
        Err(RecvTimeoutError::Disconnected) => {
            bail!("it ended before it was ready: {}", tail(&folder.join("stderr.log")))
        }
    }
}

/// Starts Apache on a free port and asks until it serves.
fn launch_apache(folder: &Path) -> Result<Launched> {
    ensure!(Path::new(APACHE_JAR).exists(), "{APACHE_JAR} is missing: install libzookeeper-java");
    let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let config = folder.join("zoo.cfg");
    std::fs::write(&config, apache_config(&folder.join("data"), address))?;
    let mut command = Command::new("java");
    command.arg("-Dzookeeper.extendedTypesEnabled=true").args(["-cp", APACHE_JAR]);
    command.arg("org.apache.zookeeper.server.ZooKeeperServerMain").arg(config);
    let began = Instant::now();
    let mut process = Process::spawn(command, folder)?;
    let mut stdout = process.0.stdout.take().expect("stdout is piped");
    std::thread::spawn(move || std::io::copy(&mut stdout, &mut std::io::sink()));
    while !serves(address) {
        if process.0.try_wait()?.is_some() {
            bail!("it ended before it was ready: {}", tail(&folder.join("stderr.log")));
        }
        ensure!(began.elapsed() < PATIENCE, "not ready after {} s", PATIENCE.as_secs());
        std::thread::sleep(ASK_EVERY);
    }
    Ok((process, address, began.elapsed()))
}

/// Defaults (forceSync among them), except that it listens on loopback only, accepts all our connections, and answers
/// four-letter words.
fn apache_config(data: &Path, address: SocketAddr) -> String {
    format!(
        "tickTime=2000\ndataDir={}\nclientPortAddress={}\nclientPort={}\nmaxClientCnxns=0\n\
         admin.enableServer=false\n4lw.commands.whitelist=*\n",
        data.display(),
        address.ip(),
        address.port(),
    )
}

/// Asks `srvr`, because Apache answers `imok` long before it has loaded its data.
fn serves(address: SocketAddr) -> bool {
    let ask = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(Duration::from_secs(1)))?;
        stream.write_all(b"srvr")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    ask().is_ok_and(|answer| answer.contains("Mode:"))
}

fn tail(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(5)..].join(" | ")
}
