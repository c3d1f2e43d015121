//! Lines on standard output that are no replies, such as those of a forgotten `print`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tracing::info;

use super::log::Log;
use crate::lines::shorten;

/// How many of them are logged per [`WINDOW`]; the others are only counted.
const LOGGED_MAX: u32 = 10;
const WINDOW: Duration = Duration::from_secs(1);

/// Logs stray lines, but not so many that a chatty program floods the log.
#[derive(Debug, Default)]
pub(super) struct Strays {
    count: AtomicU64,
    window: Mutex<Window>,
}

#[derive(Debug, Default)]
struct Window {
    began: Option<Instant>,
    logged: u32,
    /// Lines since the last one that was logged.
    omitted: u64,
}

impl Strays {
    /// Logs a line, if there were not too many, and keeps it with the rest of the program's output.
    pub(super) fn note(&self, program: &str, log: &Log, line: &[u8]) {
        log.push_line(line);
        self.count.fetch_add(1, Ordering::Relaxed);
        let omitted = self.window.lock().unwrap_or_else(PoisonError::into_inner).admit(Instant::now());
        if let Some(omitted) = omitted {
            // A text field is escaped, so that the line cannot forge others.
            let line = shorten(&String::from_utf8_lossy(line));
            info!(program, line, omitted, "the program printed a line that is no reply");
        }
    }

    /// How many there were.
    pub(super) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }
}

impl Window {
    /// Whether to log a line: if so, returns how many were omitted before it.
    fn admit(&mut self, now: Instant) -> Option<u64> {
        if self.began.is_none_or(|began| now.duration_since(began) >= WINDOW) {
            (self.began, self.logged) = (Some(now), 0);
        }
        if self.logged < LOGGED_MAX {
            self.logged += 1;
            return Some(std::mem::take(&mut self.omitted));
        }
        self.omitted += 1;
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_logged_in_part_and_the_rest_is_counted() {
        let (mut window, now) = (Window::default(), Instant::now());
        let logged = (0..1000).filter_map(|_| window.admit(now)).collect::<Vec<_>>();
        assert_eq!(logged, [0; LOGGED_MAX as usize]);
        assert_eq!(window.admit(now + WINDOW / 2), None);
        assert_eq!(window.admit(now + WINDOW), Some(991));
        assert_eq!(window.admit(now + WINDOW), Some(0));
    }
}
