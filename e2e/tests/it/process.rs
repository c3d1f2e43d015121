//! What the kernel knows about a process, and what a test asks of its own.

use std::fs;
use std::thread;
use std::time::Duration;

use rustix::process::{Resource, getrlimit, setrlimit};

/// Memory that a process has in use, in megabytes.
pub fn rss_mb(pid: u32) -> u64 {
    status_mb(pid, "VmRSS:")
}

/// The most memory that a process ever had in use, in megabytes.
pub fn peak_rss_mb(pid: u32) -> u64 {
    status_mb(pid, "VmHWM:")
}

fn status_mb(pid: u32, field: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("the process runs");
    let line = status.lines().find_map(|line| line.strip_prefix(field)).expect("a process has memory");
    let kb: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number of kilobytes");
    kb / 1024
}

/// Lets this process open `wanted` files.
pub fn allow_files(wanted: u64) {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= wanted) {
        return;
    }
    assert!(
        limit.maximum.is_none_or(|maximum| maximum >= wanted),
        "this test needs {wanted} open files, but the hard limit is {:?}: raise it (ulimit -Hn)",
        limit.maximum
    );
    limit.current = Some(wanted);
    setrlimit(Resource::Nofile, limit).expect("the soft limit may be raised up to the hard one");
}

/// Lets time pass, where the passing of time is itself the trouble. To wait for something, use `eventually`.
pub fn let_pass(time: Duration) {
    thread::sleep(time);
}
