//! When tasks were put and when they ended, as they report themselves.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

/// A pipe's capacity: more than a thousand stamps.
const PIPE_BYTES: usize = 64 << 10;
/// Interval between two reads of the pipe: a reader woken by every stamp competes with the workers, most of all with
/// fast ones. What arrives meanwhile is a small part of the pipe's capacity.
const REST: Duration = Duration::from_millis(2);

/// A named pipe that tasks report to; large enough that no task waits for us to read.
pub struct Stamps {
    lines: Receiver<String>,
    path: PathBuf,
}

/// The result of a number of tasks.
pub struct Ended {
    /// Between the first and the last end.
    pub per_s: f64,
    /// From put to end, sorted.
    pub latencies_ms: Vec<f64>,
}

impl Ended {
    /// The given quantile of the latencies.
    pub fn latency_ms(&self, part: f64) -> f64 {
        let last = self.latencies_ms.len().saturating_sub(1);
        self.latencies_ms.get((last as f64 * part) as usize).copied().unwrap_or(f64::NAN)
    }
}

impl Stamps {
    pub fn open(folder: &Path) -> Result<Self> {
        let path = folder.join("stamps");
        let made = Command::new("mkfifo").arg(&path).status().context("cannot run mkfifo")?;
        ensure!(made.success(), "mkfifo: {made}");
        // Open for writing, too, though we never write: otherwise we would see the end whenever no task has it open.
        let pipe = File::options().read(true).write(true).open(&path).context("cannot open the pipe")?;
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            let mut pipe = BufReader::with_capacity(PIPE_BYTES, pipe);
            let mut line = String::new();
            while matches!(pipe.read_line(&mut line), Ok(1..))
                && sender.send(std::mem::take(&mut line)).is_ok()
            {
                if pipe.buffer().is_empty() {
                    std::thread::sleep(REST);
                }
            }
        });
        Ok(Self { lines, path })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Waits for this many stamps.
    pub fn collect(&self, count: usize, patience: Duration) -> Result<Ended> {
        let deadline = Instant::now() + patience;
        let (mut ends, mut latencies_ms) = (Vec::with_capacity(count), Vec::with_capacity(count));
        while ends.len() < count {
            let left = deadline.saturating_duration_since(Instant::now());
            let line = self.lines.recv_timeout(left);
            let line = line.with_context(|| format!("only {} of {count} tasks have ended", ends.len()))?;
            let (put, end) = line.trim_end().split_once(' ').context("no stamp")?;
            let (put, end): (u64, u64) = (put.parse()?, end.parse()?);
            ends.push(end);
            latencies_ms.push(end.saturating_sub(put) as f64 / 1e6);
        }
        latencies_ms.sort_by(f64::total_cmp);
        let (first, last) = (ends.iter().min().copied(), ends.iter().max().copied());
        let nanos = last.unwrap_or(0).saturating_sub(first.unwrap_or(0)).max(1);
        Ok(Ended { per_s: (count.saturating_sub(1)) as f64 * 1e9 / nanos as f64, latencies_ms })
    }
}
