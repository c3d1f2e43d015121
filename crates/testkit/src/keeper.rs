//! The keeper as a process.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

use crate::binary::binary;
use crate::ports::free_port;
use crate::process::Process;
use crate::server::{Recipe, Server};

/// The option that sets its tick.
const TICK: &str = "--tick";

/// `menagerie keeper` on fresh data.
#[derive(Debug)]
pub struct Keeper {
    data: TempDir,
    args: Vec<String>,
    under: Vec<String>,
}

impl Keeper {
    /// A keeper with default settings.
    #[expect(clippy::new_without_default, reason = "it makes a directory, which nobody expects of a default")]
    pub fn new() -> Self {
        let data = tempfile::tempdir().expect("a temporary directory can be made");
        Self { data, args: Vec::new(), under: Vec::new() }
    }

    /// Adds command-line arguments.
    pub fn args<'a>(mut self, args: impl IntoIterator<Item = &'a str>) -> Self {
        self.args.extend(args.into_iter().map(str::to_owned));
        self
    }

    /// Runs it under another program, which takes the keeper's command line after `line` and must exec the keeper, so
    /// that signals reach the keeper.
    pub fn under<'a>(mut self, line: impl IntoIterator<Item = &'a str>) -> Self {
        self.under.extend(line.into_iter().map(str::to_owned));
        self
    }

    /// Delays each sync of its log by this much. Needs strace.
    ///
    /// # Panics
    /// If there is no strace.
    pub fn slow_syncs(self, delay: Duration) -> Self {
        if let Err(error) = Command::new("strace").arg("-V").output() {
            panic!("cannot run strace: {error}; apt-get install strace");
        }
        let inject = format!("inject=fdatasync:delay_enter={}", delay.as_micros());
        // -D: strace runs beside the keeper instead of as its parent, so that the process that tests see is the
        // keeper.
        self.under(["strace", "-D", "-f", "-qq", "-o", "/dev/null", "-e", "trace=fdatasync", "-e", &inject])
    }

    /// Path of its data, for tests that prepare it.
    pub fn data(&self) -> &Path {
        self.data.path()
    }

    /// Starts it and waits until it serves.
    pub fn start(self) -> Server {
        Server::start(self)
    }
}

impl Recipe for Keeper {
    fn address(&self) -> SocketAddr {
        // A port chosen by the keeper could be given to another process while it restarts.
        (Ipv4Addr::LOCALHOST, free_port()).into()
    }

    fn spawn(&self, address: SocketAddr) -> Process {
        let mut line = self.under.iter().map(AsRef::as_ref).chain([binary().as_os_str()]);
        let mut command = Command::new(line.next().expect("the program itself is there at least"));
        command.args(line).args(["keeper", "--listen", &address.to_string(), "--data"]);
        command.arg(self.data.path()).args(&self.args);
        Process::spawn(&mut command)
    }

    fn wait_until_ready(&self, process: &mut Process, _: SocketAddr) -> SocketAddr {
        process.wait_until_listening("keeper")
    }

    fn data(&self) -> &Path {
        self.data.path()
    }

    fn set_tick_ms(&mut self, tick_ms: u32) {
        if let Some(tick) = self.args.iter().position(|arg| arg == TICK) {
            self.args.drain(tick..tick + 2);
        }
        self.args.extend([TICK.to_owned(), tick_ms.to_string()]);
    }
}
