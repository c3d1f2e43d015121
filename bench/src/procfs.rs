//! CPU time and resident memory of processes.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use nix::time::{ClockId, clock_getcpuclockid};
use nix::unistd::Pid;

/// CPU time of all threads of the process, including those that ended.
///
/// From its CPU clock, to the nanosecond: `/proc/PID/stat` counts ticks of 10 ms, and `schedstat`, which has
/// nanoseconds, too, is not built into every kernel.
pub fn cpu_time(pid: u32) -> Result<Duration> {
    let clock: ClockId =
        clock_getcpuclockid(as_pid(pid)?).with_context(|| format!("no CPU clock of process {pid}"))?;
    Ok(clock.now().with_context(|| format!("cannot read the CPU clock of process {pid}"))?.into())
}

/// CPU time of the whole machine, except idle and IO wait. Includes time stolen from a virtual machine: it is lost to
/// us just the same.
pub fn machine_cpu_time() -> Result<Duration> {
    /// The unit of `/proc/stat`, on every Linux that we run on.
    const TICKS_PER_SECOND: f64 = 100.0;
    let stat = std::fs::read_to_string("/proc/stat").context("cannot read /proc/stat")?;
    let line = stat.lines().next().unwrap_or_default();
    let ticks: Vec<u64> = line.split_whitespace().skip(1).map_while(|field| field.parse().ok()).collect();
    let [user, nice, system, _idle, _iowait, irq, softirq, steal, ..] = ticks[..] else {
        bail!("cannot make sense of {line:?} in /proc/stat");
    };
    Ok(Duration::from_secs_f64((user + nice + system + irq + softirq + steal) as f64 / TICKS_PER_SECOND))
}

/// Resident memory (`VmRSS`) in KiB.
pub fn resident_kib(pid: u32) -> Result<u64> {
    let path = format!("/proc/{pid}/status");
    let status = std::fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    let Some(line) = status.lines().find_map(|line| line.strip_prefix("VmRSS:")) else {
        bail!("no VmRSS in {path}: the process has ended");
    };
    let kib = line.trim().trim_end_matches(" kB");
    kib.parse().with_context(|| format!("VmRSS in {path} is {kib:?}, not a number"))
}

/// The pid as signals and clocks take it.
pub fn as_pid(pid: u32) -> Result<Pid> {
    Ok(Pid::from_raw(i32::try_from(pid).context("process ids fit into 31 bits")?))
}

/// Cores, kernel and load of the machine, for the head of the report.
pub fn machine() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let cpuinfo = read("/proc/cpuinfo");
    let model =
        cpuinfo.lines().find(|line| line.starts_with("model name")).and_then(|line| line.split(": ").nth(1));
    let loads = read("/proc/loadavg");
    let load = loads.split(' ').next().unwrap_or_default();
    let kernel = read("/proc/sys/kernel/osrelease");
    format!("{cores} cores ({}), Linux {}, load {load} before", model.unwrap_or("unknown"), kernel.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_cpu_time_and_memory_can_be_read() {
        let before = cpu_time(std::process::id()).unwrap();
        let sum: u64 = (0..1_000_000u64).map(std::hint::black_box).sum();
        assert!(sum > 0 && cpu_time(std::process::id()).unwrap() > before);
        assert!(machine_cpu_time().unwrap() > Duration::ZERO);
        assert!(resident_kib(std::process::id()).unwrap() > 0);
    }
}
