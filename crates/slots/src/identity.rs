//! What identifies us: this host, this boot, this process.

use std::fs;

use menagerie_znodes::slots::Process;
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use crate::core::{Local, machine_id};

/// File with the machine id.
pub const MACHINE_ID: &str = "/etc/machine-id";

/// What identifies this host and boot. Unreadable parts are left out and prove nothing.
pub fn local() -> Local {
    Local {
        host: host(),
        machine_id: read(MACHINE_ID).and_then(|text| machine_id(&text)),
        boot_id: read("/proc/sys/kernel/random/boot_id").unwrap_or_default(),
        pid_namespace: pid_namespace().unwrap_or(0),
    }
}

/// This host's name.
pub fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Pid and start time of this process.
pub fn this_process() -> Process {
    let pid = std::process::id();
    Process { pid, started: start_time(pid).unwrap_or(0) }
}

/// Whether exactly this process runs. Another one with its pid does not count, unless /proc hides which one it is.
pub fn is_running(process: Process) -> bool {
    match fs::read_to_string(format!("/proc/{}/stat", process.pid)) {
        Ok(stat) => start_time_in(&stat) == Some(process.started),
        // /proc may hide other users' processes, but signals reach them.
        Err(_) => exists(process.pid),
    }
}

fn exists(pid: u32) -> bool {
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return false };
    test_kill_process(pid) != Err(Errno::SRCH)
}

/// Start time in clock ticks since boot; `None` if there is no such process or it is a zombie.
fn start_time(pid: u32) -> Option<u64> {
    start_time_in(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

fn start_time_in(stat: &str) -> Option<u64> {
    // The name, in parentheses, may contain anything; the fields behind it are numbers.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X") {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

fn pid_namespace() -> Option<u64> {
    let link = fs::read_link("/proc/self/ns/pid").ok()?;
    link.to_str()?.strip_prefix("pid:[")?.strip_suffix(']')?.parse().ok()
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_runs_and_its_number_with_another_start_does_not() {
        let me = this_process();
        assert!(me.started > 0 && is_running(me));
        assert!(!is_running(Process { started: me.started + 1, ..me }));
        assert!(exists(me.pid) && !exists(0) && !exists(i32::MAX.unsigned_abs()));
        assert!(
            !is_running(Process { pid: i32::MAX.unsigned_abs(), started: 0 }),
            "there is no such process"
        );
    }

    #[test]
    fn this_host_can_tell_its_boot_and_pid_namespace() {
        let local = local();
        assert_eq!(local.boot_id.len(), 36);
        assert!(local.pid_namespace > 0);
    }
}
