//! The wrapper's clean-up after its guard was killed: the guard's work, as well as the wrapper can do it.
//!
//! The guard's descendants have become the wrapper's, among other children that are none of our business. Ours are
//! those that carry the guard's marker in their environment, or belong to the command's process group or session, and
//! all that descend from these. A process that got rid of all three before the guard died is not found.

use std::collections::HashSet;
use std::fs;
use std::process;
use std::time::Duration;

use rustix::process::{Pid, WaitOptions, waitpid};
use tracing::warn;

use super::kill::kill_all;
use super::processes::{self, Process, ProcessId};
use super::spawn::MARKER;

const PAUSE_MIN: Duration = Duration::from_millis(5);
/// A process that cannot be killed is tried once a second.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Kills all that is left of a guard, and returns when it is gone.
pub(super) async fn sweep(marker: &str, command: ProcessId) {
    let marker = format!("{MARKER}={marker}").into_bytes();
    let mut left: HashSet<ProcessId> = HashSet::new();
    let mut pause = PAUSE_MIN;
    loop {
        match kill_all(|all| guarded(all, &marker, command)) {
            Ok(killed) => {
                left.extend(killed);
                left.retain(|process| is_left(*process));
                if left.is_empty() {
                    return;
                }
            }
            Err(error) => warn!(%error, "cannot scan for the processes that a guard left"),
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

fn guarded(all: &[Process], marker: &[u8], command: ProcessId) -> Vec<Process> {
    let mut found = processes::descendants(all, &[process::id()]);
    found.retain(|process| {
        process.group == command.pid || process.session == command.pid || is_marked(process.id, marker)
    });
    let roots: Vec<u32> = found.iter().map(|process| process.id.pid).collect();
    found.extend(processes::descendants(all, &roots));
    found
}

fn is_marked(process: ProcessId, marker: &[u8]) -> bool {
    let environment = fs::read(format!("/proc/{}/environ", process.pid)).unwrap_or_default();
    environment.split(|byte| *byte == 0).any(|variable| variable == marker)
}

/// Whether the process still exists; reaps it if it is a child of ours that has ended.
fn is_left(process: ProcessId) -> bool {
    if let Some(pid) = i32::try_from(process.pid).ok().and_then(Pid::from_raw) {
        // Fails if it is not, or not yet, our child.
        let _ = waitpid(Some(pid), WaitOptions::NOHANG);
    }
    process.exists()
}
