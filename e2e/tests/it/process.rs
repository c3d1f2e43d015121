//! What the kernel knows about a process.

use std::fs;
use std::thread;
use std::time::Duration;

/// Resident memory, in megabytes.
pub fn rss_mb(pid: u32) -> u64 {
    status_mb(pid, "VmRSS:")
}

/// Peak resident memory, in megabytes.
pub fn peak_rss_mb(pid: u32) -> u64 {
    status_mb(pid, "VmHWM:")
}

fn status_mb(pid: u32, field: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("the process runs");
    let line = status.lines().find_map(|line| line.strip_prefix(field)).expect("a process has memory");
    let kb: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number of kilobytes");
    kb / 1024
}

/// Lets time pass, where the passing of time is itself the trouble. To wait for something, use `eventually`.
pub fn let_pass(time: Duration) {
    thread::sleep(time);
}
