//! What a slot adds to a command.

use std::fmt;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use super::cycles::NAMESPACE;

/// Medians, and the tail of the difference.
pub struct Overhead {
    bare: Duration,
    wrapped: Duration,
    wrapped_p99: Duration,
}

impl fmt::Display for Overhead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        write!(
            f,
            "{:.1} ms and {:.1} ms (p99 {:.1} ms), so a slot adds {:.1} ms",
            ms(self.wrapped),
            ms(self.bare),
            ms(self.wrapped_p99),
            ms(self.wrapped.saturating_sub(self.bare)),
        )
    }
}

pub fn measure(menagerie: &Path, address: SocketAddr, runs: usize) -> Result<Overhead> {
    let slots = |args: &[&str]| {
        let mut command = Command::new(menagerie);
        command.args(["slots", "--zookeeper", &address.to_string(), "--namespace", NAMESPACE]).args(args);
        command
    };
    timed(&mut slots(&["create", "overhead", "--max", "3"]))?;
    let (mut bare, mut wrapped) = (Vec::new(), Vec::new());
    for _ in 0..runs.max(1) {
        bare.push(timed(&mut Command::new("true"))?);
        wrapped.push(timed(&mut slots(&["run", "overhead", "--", "true"]))?);
    }
    bare.sort_unstable();
    wrapped.sort_unstable();
    Ok(Overhead {
        bare: bare[bare.len() / 2],
        wrapped: wrapped[wrapped.len() / 2],
        wrapped_p99: wrapped[wrapped.len() * 99 / 100],
    })
}

fn timed(command: &mut Command) -> Result<Duration> {
    let started = Instant::now();
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status();
    let status = status.with_context(|| format!("cannot run {command:?}"))?;
    ensure!(status.success(), "{command:?} failed: {status}");
    Ok(started.elapsed())
}
