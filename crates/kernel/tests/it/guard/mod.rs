//! The guard with real processes. Whatever a test starts is under a guard, so a failed test leaves nothing behind.

mod cost;
mod deadlines;
mod descendants;
mod endings;
mod reusable;
mod streams;
mod terminal;
mod wrapper;

use std::fs;
use std::time::Duration;

use menagerie_kernel::guard::{Command, Guarded, ProcessId, Stream, spawn};
use menagerie_testkit::{DEADLINE, binary, eventually};
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::net::unix::pipe;
use tokio::time::timeout;

/// Longer than any test: a test that waits for it has failed.
const LONG: Duration = Duration::from_secs(600);
/// Short for a test, but longer than a shell takes to run its trap.
const GRACE: Duration = Duration::from_millis(300);

/// A shell script whose output the test reads.
fn script(script: &str, grace: Duration) -> Command {
    Command::new("sh", grace).args(["-c", script]).stdin(Stream::Null).stdout(Stream::Piped)
}

async fn start(command: Command) -> Guarded {
    spawn(command, binary()).await.expect("the command can be started")
}

fn lines(guarded: &mut Guarded) -> Lines<BufReader<pipe::Receiver>> {
    BufReader::new(guarded.stdout.take().expect("standard output is piped")).lines()
}

async fn next_line(lines: &mut Lines<BufReader<pipe::Receiver>>) -> String {
    let line = timeout(DEADLINE, lines.next_line()).await.expect("a line comes in time");
    line.expect("output can be read").expect("output has another line")
}

/// The process whose pid is on the next line.
async fn next_process(lines: &mut Lines<BufReader<pipe::Receiver>>) -> ProcessId {
    let pid = next_line(lines).await.parse().expect("the line is a number");
    ProcessId::of(pid).expect("who wrote the line runs")
}

/// Whether it still runs. Zombies do not.
fn runs(process: ProcessId) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", process.pid)).unwrap_or_default();
    let zombie = stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('Z'));
    process.exists() && !zombie
}

#[track_caller]
fn ends(what: &str, process: ProcessId) {
    eventually(&format!("{what} (process {process}) ends"), || (!runs(process)).then_some(()));
}
