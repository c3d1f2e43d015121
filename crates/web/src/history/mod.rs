//! The last hour of queues as this process has seen it, for charts: in memory, and gone with the process.
//!
//! - this file: the loop that takes a sample every ten seconds. [`sample`]: a sample, made of what the engine shows.
//!   `samples`: which of them are kept, decided without IO or clock.
//!
//! # When samples are taken
//! While somebody looks at queues, on a page, a stream or over REST, and for an hour after the last look, so that the
//! charts of somebody who comes back have no gap. A process that nobody has looked at for an hour asks ZooKeeper and
//! journals nothing: its loop only wakes to see that. One read gives the samples of all queues.
//!
//! # Gaps
//! A sample that cannot be taken, as ZooKeeper or a journal is away, is left out: there are neither errors nor zeros.

pub mod sample;
mod samples;

use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use menagerie_queues::view::{self, QueueRow};
use menagerie_znodes::queues::QueueName;
use tokio::time::{Instant, sleep, timeout};
use tracing::debug;

pub use sample::{INTERVAL_MS, Sample, hour, slot_ms};
use samples::Samples;

use crate::reads::now_ms;
use crate::sources::Sources;

/// Samples are taken this long after the last look.
const ATTENTION: Duration = Duration::from_secs(60 * 60);
/// A read that takes longer gives no sample: it would be told as of a time that is long over.
const READ_MAX: Duration = Duration::from_secs(8);

/// The last hour of queues. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct History {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    looked: Option<Instant>,
    samples: Samples,
}

impl History {
    /// Notes that somebody looks at queues.
    pub fn look(&self) {
        self.state().looked = Some(Instant::now());
    }

    /// Notes that somebody looks at a queue, which exists: its samples are kept rather than those of others.
    pub fn look_at(&self, queue: &QueueName) {
        let mut state = self.state();
        state.looked = Some(Instant::now());
        state.samples.look_at(queue, now_ms());
    }

    /// The samples of a queue, oldest first; `None` if it is not known here.
    pub fn of_queue(&self, queue: &QueueName) -> Option<Vec<Sample>> {
        self.state().samples.of_queue(queue)
    }

    /// The samples of all queues together, oldest first.
    pub fn of_all(&self) -> Vec<Sample> {
        self.state().samples.of_all()
    }

    fn is_due(&self) -> bool {
        is_due(self.state().looked.map(|looked| looked.elapsed()))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes samples for ever.
pub async fn follow(sources: &Sources) -> Infallible {
    loop {
        sleep(until_next_slot(now_ms())).await;
        if !sources.history.is_due() {
            continue;
        }
        let at_ms = slot_ms(now_ms());
        match timeout(READ_MAX, view::rows(&sources.session, &sources.journals)).await {
            Ok(Ok(rows)) => {
                let rows: Vec<QueueRow> = rows.into_iter().map(|(row, _)| row).collect();
                sources.history.state().samples.take_in(at_ms, &rows);
            }
            Ok(Err(error)) => debug!(error = %menagerie_kernel::whole(&error), "no sample of queues"),
            Err(_) => debug!(error = "no answer in time", "no sample of queues"),
        }
    }
}

/// Whether a sample is worth its reads, this long after the last look.
fn is_due(since_look: Option<Duration>) -> bool {
    since_look.is_some_and(|since| since < ATTENTION)
}

fn until_next_slot(now_ms: u64) -> Duration {
    Duration::from_millis(INTERVAL_MS - now_ms % INTERVAL_MS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_taken_for_an_hour_after_the_last_look() {
        assert!(!is_due(None), "nobody has ever looked");
        assert!(is_due(Some(Duration::ZERO)));
        assert!(is_due(Some(Duration::from_secs(3_599))));
        assert!(!is_due(Some(Duration::from_secs(3_600))));
    }

    #[test]
    fn samples_are_taken_when_a_slot_begins() {
        assert_eq!(until_next_slot(20_000), Duration::from_secs(10));
        assert_eq!(until_next_slot(29_999), Duration::from_millis(1));
    }

    #[test]
    fn a_look_wakes_the_history_up() {
        let history = History::default();
        assert!(!history.is_due());
        history.clone().look();
        assert!(history.is_due());
    }
}
