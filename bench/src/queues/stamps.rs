//! When tasks were put and when they ended, as they say themselves.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

/// What a pipe holds: more than a thousand stamps.
const PIPE_BYTES: usize = 64 << 10;
/// Between two looks at the pipe: a reader that every stamp wakes takes the machine from those who are measured, most of all
/// from the fast ones. What comes meanwhile is a small part of what the pipe holds.
const REST: Duration = Duration::from_millis(2);

/// Where tasks say so: a pipe with a name. It is large enough that nobody waits for us to read.
pub struct Stamps {
    lines: Receiver<String>,
    path: PathBuf,
}

/// What came of a number of tasks.
pub struct Ended {
    /// Between the first and the last end.
    pub per_s: f64,
    /// From put to end, in ms, in order.
    pub latencies_ms: Vec<f64>,
}

impl Ended {
    /// The latency that this part of all did not exceed.
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
        // Written to by us, too, though we never do: it does not end when no task has it open.
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

    /// Waits for so many.
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
