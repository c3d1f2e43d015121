//! Progress of long work on stderr: on a terminal one line that is rewritten, elsewhere a line now and then.

use std::io::{self, IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

/// On a terminal: often enough to look alive.
const REDRAW: Duration = Duration::from_millis(100);
/// Elsewhere: rarely enough not to fill a log.
const LINE: Duration = Duration::from_secs(10);

/// Shows progress until it is dropped.
#[derive(Debug)]
pub struct Meter {
    terminal: bool,
    last: Instant,
    drawn: bool,
}

impl Meter {
    /// Shows nothing for the first interval.
    pub fn new() -> Self {
        Self { terminal: io::stderr().is_terminal(), last: Instant::now(), drawn: false }
    }

    /// Shows the progress, unless it did so less than an interval ago.
    pub fn show(&mut self, step: &str, done: u64, total: Option<u64>) {
        let pause = if self.terminal { REDRAW } else { LINE };
        if self.last.elapsed() < pause {
            return;
        }
        self.last = Instant::now();
        let of = total.map_or(String::new(), |total| format!(" of {total}"));
        // stderr may be closed; that is no reason to fail.
        let mut err = io::stderr().lock();
        let _ = if self.terminal {
            self.drawn = true;
            write!(err, "\r\x1b[K{step} {done}{of}").and_then(|()| err.flush())
        } else {
            writeln!(err, "{step} {done}{of}")
        };
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        if self.drawn {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}
