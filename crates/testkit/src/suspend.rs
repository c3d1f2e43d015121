//! A suspended machine, as its processes see it: all of them stop, and when they continue, `CLOCK_BOOTTIME` has
//! counted the time in between and `CLOCK_MONOTONIC` has not.
//!
//! Suspending the real machine would suspend the test, too. So signals stop the processes, and a small preloaded
//! library subtracts the time they were stopped from `CLOCK_MONOTONIC`.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use rustix::time::{ClockId, clock_gettime};
use tempfile::TempDir;

use crate::process::Process;
use crate::wait::{DEADLINE, poll};

/// The preloaded library.
const SOURCE: &str = include_str!("../clock/suspended.c");
/// Names the file with the number of nanoseconds.
const VARIABLE: &str = "MENAGERIE_TEST_SUSPENDED";
/// How long a process that stays busy after waking delays its children.
const HEAD_START: Duration = Duration::from_secs(1);
/// A process that was idle this many times in a row is not about to run.
const IDLE_LOOKS: usize = 5;

/// A machine that can be suspended, as far as its processes can tell from their clocks.
#[derive(Debug)]
pub struct Machine {
    /// The library, and the file that it reads.
    folder: TempDir,
    suspended: File,
}

/// The stopped processes of a suspended machine. Dropping this leaves them stopped.
#[derive(Debug)]
#[must_use = "only `resume` wakes them"]
pub struct Suspended<'a> {
    machine: &'a Machine,
    since: Duration,
    /// Parents before their children.
    stopped: Vec<Pid>,
}

impl Machine {
    /// A machine that was never suspended.
    ///
    /// # Panics
    /// If there is no C compiler.
    #[expect(
        clippy::new_without_default,
        reason = "it compiles something, which nobody expects of a default"
    )]
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary directory can be made");
        let (source, library) = (folder.path().join("suspended.c"), library(folder.path()));
        fs::write(&source, SOURCE).expect("a file can be written");
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o"]).arg(library).arg(source);
        match compiler.status() {
            Ok(status) if status.success() => {}
            other => {
                panic!("{compiler:?}: {other:?}; tests need a C compiler: apt-get install build-essential")
            }
        }
        let suspended = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(nanos_file(folder.path()))
            .expect("a file can be made");
        let machine = Self { folder, suspended };
        machine.set_suspended(0);
        machine
    }

    /// Makes this command, and whatever it starts, run on the machine.
    pub fn host<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.env("LD_PRELOAD", library(self.folder.path())).env(VARIABLE, nanos_file(self.folder.path()))
    }

    /// Suspends the machine: when this returns, the process and all its descendants are stopped.
    ///
    /// # Panics
    /// If it has ended.
    #[track_caller]
    pub fn suspend(&self, process: &Process) -> Suspended<'_> {
        let since = boottime();
        process.pause();
        let root = pid(process.id()).expect("it has a number");
        // A stopped process starts no others, so this terminates.
        let mut stopped = vec![root];
        let mut looked = 0;
        while let Some(parent) = stopped.get(looked).copied() {
            looked += 1;
            for child in children(parent) {
                // Fails if it has ended meanwhile.
                let _ = kill_process(child, Signal::STOP);
                poll(DEADLINE, || is_stopped(child).then_some(())).expect("a process can be stopped");
                stopped.push(child);
            }
        }
        Suspended { machine: self, since, stopped }
    }

    fn set_suspended(&self, nanos: i64) {
        self.suspended.write_all_at(&nanos.to_ne_bytes(), 0).expect("a small file can be written");
    }

    fn suspended_nanos(&self) -> i64 {
        let mut bytes = [0; 8];
        self.suspended.read_exact_at(&mut bytes, 0).expect("a small file can be read");
        i64::from_ne_bytes(bytes)
    }
}

impl Suspended<'_> {
    /// Wakes the machine. Parents run first, and their children once the parent is idle: the worst order for a parent that
    /// relies on a child to stop something.
    pub fn resume(self) {
        let missed =
            i64::try_from((boottime() - self.since).as_nanos()).expect("tests do not take centuries");
        self.machine.set_suspended(self.machine.suspended_nanos() + missed);
        for process in self.stopped {
            // Fails if it was killed meanwhile.
            let _ = kill_process(process, Signal::CONT);
            let mut idle = 0;
            poll(HEAD_START, || {
                idle = if is_idle(process) { idle + 1 } else { 0 };
                (idle == IDLE_LOOKS).then_some(())
            });
        }
    }
}

/// The time on `CLOCK_BOOTTIME`, which all processes share.
pub fn boottime() -> Duration {
    let now = clock_gettime(ClockId::Boottime);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).expect("less than a second"))
}

fn library(folder: &Path) -> PathBuf {
    folder.join("suspended.so")
}

fn nanos_file(folder: &Path) -> PathBuf {
    folder.join("nanos")
}

fn pid(number: u32) -> Option<Pid> {
    Pid::from_raw(i32::try_from(number).ok()?)
}

fn children(parent: Pid) -> Vec<Pid> {
    let tasks = fs::read_dir(format!("/proc/{parent}/task")).into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    lists
        .flat_map(|list| {
            list.split_whitespace().filter_map(|child| pid(child.parse().ok()?)).collect::<Vec<_>>()
        })
        .collect()
}

/// Whether all its threads are stopped.
fn is_stopped(process: Pid) -> bool {
    states(process).iter().all(|state| matches!(state, b'T' | b'Z' | b'X'))
}

/// Whether all its threads wait for something; a stopped thread does not count as waiting.
fn is_idle(process: Pid) -> bool {
    states(process).iter().all(|state| matches!(state, b'S' | b'Z' | b'X'))
}

/// The states of its threads, as `/proc` shows them; empty if the process is gone.
fn states(process: Pid) -> Vec<u8> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let stats = tasks.filter_map(|task| fs::read_to_string(task.path().join("stat")).ok());
    // The name may contain anything, also parentheses.
    stats.filter_map(|stat| stat.rsplit_once(')')?.1.trim_start().bytes().next()).collect()
}
