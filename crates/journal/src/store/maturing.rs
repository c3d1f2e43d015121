//! The log loop's handling of delayed messages: it makes due ones visible, one group in each turn.

use std::ops::Bound;
use std::time::{Duration, Instant};

use tracing::warn;

use super::error::StoreError;
use super::log_loop::{LogLoop, TICK};
use crate::core::decide::{Answer, Proposal};
use crate::core::mature::DelayedKey;
use crate::error::JournalError;
use crate::id::Ticks;

/// Pause before unreadable messages are tried again: it may have been no damage. Shorter if only files could not be
/// opened.
const REREAD: Duration = Duration::from_secs(600);

/// Progress.
#[derive(Debug, Default)]
pub(super) struct Maturing {
    /// All due messages up to here are visible, or could not be read; and when to try those again.
    passed: DelayedKey,
    reread_at: Option<Instant>,
    /// When to retry after a failed commit.
    retry_at: Option<Instant>,
    /// After a topic was deleted: delayed messages after this one may be its orphans.
    orphans: Option<DelayedKey>,
}

impl Maturing {
    /// Begins a search for delayed messages of deleted topics.
    pub(super) fn search_orphans(&mut self) {
        self.orphans = Some(DelayedKey::default());
    }

    /// Records the time, before anything is decided: if the clock has gone back, new delayed messages may be due before
    /// the skipped ones.
    pub(super) fn observe(&mut self, now: Ticks) {
        if now.0 < self.passed.0 || self.reread_at.is_some_and(|at| at <= Instant::now()) {
            self.retry_skipped();
        }
    }

    /// Begins again with all due messages, including those that were skipped.
    pub(super) fn retry_skipped(&mut self) {
        (self.passed, self.reread_at) = (DelayedKey::default(), None);
    }
}

impl LogLoop {
    /// Time until there is work.
    pub(super) fn patience(&self) -> Duration {
        let busy = self.maturing.orphans.is_some() && self.maturing.retry_at.is_none();
        if busy { Duration::ZERO } else { self.until_due() }
    }

    /// Time until the next delayed message is due, or other work.
    pub(super) fn until_due(&self) -> Duration {
        if self.is_memory_full() {
            return TICK;
        }
        if let Some(at) = self.maturing.retry_at {
            return at.saturating_duration_since(Instant::now()).min(TICK);
        }
        let (time, passed, state) = (self.trusted_time(), self.maturing.passed, self.shared.read());
        if state.due(time, passed).next().is_some() {
            return Duration::ZERO;
        }
        // While the clock is doubted there may be others in between: each tick checks for them.
        let behind = (Bound::Excluded(passed.max((time.now, u64::MAX))), Bound::Unbounded);
        let next = state.delayed.range(behind).next().map(|((due, _), _)| Ticks(*due));
        next.map_or(TICK, |due| due.since(Ticks(time.now)).min(TICK))
    }

    /// Drops some delayed messages of deleted topics.
    pub(super) fn forget(&mut self) -> Result<(), StoreError> {
        let Some(after) = self.maturing.orphans.filter(|_| self.maturing.retry_at.is_none()) else {
            return Ok(());
        };
        match self.alone(Proposal::Forget { after })? {
            Some(Ok(Answer::Forgotten(through))) => self.maturing.orphans = through,
            _ => self.maturing.retry_at = Some(Instant::now() + TICK),
        }
        Ok(())
    }

    /// Makes some due messages visible. The rest follows in later turns.
    pub(super) fn mature(&mut self) -> Result<(), StoreError> {
        let time = self.observe_clock();
        if !self.until_due().is_zero() {
            return Ok(());
        }
        let failed_before = self.maturing.retry_at.take().is_some();
        match self.alone(Proposal::Mature { after: self.maturing.passed, time })? {
            Some(Ok(Answer::Matured(Some(passed)))) => {
                warn!(
                    count = passed.count,
                    topic = passed.partition_key.topic,
                    partition = passed.partition_key.partition,
                    error = %passed.why,
                    "delayed messages are due and cannot be read: they stay delayed, and others go on"
                );
                self.maturing.passed = passed.last;
                let after = if passed.why == JournalError::OutOfFiles { TICK } else { REREAD };
                self.maturing.reread_at.get_or_insert(Instant::now() + after);
            }
            Some(Ok(_)) => {}
            failed => {
                if let (Some(Err(error)), false) = (&failed, failed_before) {
                    warn!(%error, "cannot make due messages visible; retrying");
                }
                self.maturing.retry_at = Some(Instant::now() + TICK);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::super::bench::Bench;
    use super::*;
    use crate::core::mature::MATURE_MAX;

    #[test]
    fn what_is_due_together_leaves_others_their_turns() {
        let mut bench = Bench::new(16 << 20);
        bench.append(3 * MATURE_MAX, 10, Some(2_000_000));
        bench.clock.store(3_000_000, Ordering::SeqCst);
        for turn in 1..=3 {
            bench.append(1, 10, None);
            assert_eq!(bench.waiting(), (3 - turn) * MATURE_MAX, "one group in each turn");
        }
        assert_eq!(bench.visible(), 3 * (MATURE_MAX as u64 + 1));
    }

    #[test]
    fn what_is_due_together_is_no_more_in_memory_than_other_messages() {
        let (flush_bytes, body) = (1 << 20, 100_000);
        let mut bench = Bench::new(flush_bytes);
        for _ in 0..10 {
            bench.append(20, body, Some(2_000_000));
        }
        bench.clock.store(3_000_000, Ordering::SeqCst);
        while bench.waiting() > 0 {
            assert!(bench.log_loop.turn().unwrap().is_none());
            let fresh = bench.log_loop.shared.read().fresh_bytes;
            assert!(fresh < 2 * flush_bytes + (5 << 20), "{fresh} bytes are in memory only");
        }
        assert_eq!(bench.visible(), 200);
    }

    #[test]
    fn what_is_due_and_cannot_be_read_is_passed_over() {
        let mut bench = Bench::new(16 << 20);
        bench.append(2, 500, Some(2_000_000));
        bench.checkpoint();
        let path = bench.log_loop.folder.segments().join("00000000-00000000");
        let mut bytes = std::fs::read(&path).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        bench.append(3, 10, Some(2_000_001));
        bench.clock.store(3_000_000, Ordering::SeqCst);
        bench.append(1, 10, None);
        assert_eq!((bench.visible(), bench.waiting()), (4, 2), "those that can be read are visible");
        assert!(!bench.log_loop.until_due().is_zero(), "the others keep nobody busy");
        // When the clock goes back, others may be due before them.
        bench.clock.store(1_000_000, Ordering::SeqCst);
        bench.append(1, 10, Some(1_500_000));
        bench.clock.store(1_600_000, Ordering::SeqCst);
        bench.append(1, 10, None);
        assert_eq!((bench.visible(), bench.waiting()), (6, 2));
        *bytes.last_mut().unwrap() ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        bench.log_loop.maturing.reread_at = Some(Instant::now());
        bench.clock.store(3_000_000, Ordering::SeqCst);
        bench.append(1, 10, None);
        assert_eq!((bench.visible(), bench.waiting()), (9, 0), "they are read again");
    }

    #[test]
    fn what_is_due_and_has_no_room_is_tried_again_after_a_while() {
        let mut bench = Bench::new(16 << 20);
        bench.append(1, 10, Some(2_000_000));
        bench.clock.store(3_000_000, Ordering::SeqCst);
        assert!(bench.log_loop.until_due().is_zero());
        bench.log_loop.strand(super::super::group::Group::default(), JournalError::DiskFull);
        bench.log_loop.mature().unwrap();
        assert!(!bench.log_loop.until_due().is_zero(), "not at once");
        bench.log_loop.stranded = None;
        bench.log_loop.maturing.retry_at = Some(Instant::now());
        bench.log_loop.mature().unwrap();
        assert_eq!((bench.visible(), bench.waiting()), (1, 0));
    }
}
