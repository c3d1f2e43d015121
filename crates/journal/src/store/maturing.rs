//! Delayed messages within the log loop: what is due becomes visible, one group in each turn.

use std::ops::Bound;
use std::time::{Duration, Instant};

use tracing::warn;

use super::error::StoreError;
use super::log_loop::{LogLoop, TICK};
use crate::core::decide::{Answer, Wish};
use crate::core::mature::Waits;
use crate::error::JournalError;
use crate::id::Ticks;

/// What could not be read is tried again after this: it may have been no damage. If only files could not be opened, soon.
const REREAD: Duration = Duration::from_secs(600);

/// How far it has come.
#[derive(Debug, Default)]
pub(super) struct Maturing {
    /// Whatever is due up to here is visible, or could not be read; and when that is tried again.
    passed: Waits,
    reread_at: Option<Instant>,
    /// It could not be made durable, and is tried again then.
    retry_at: Option<Instant>,
    /// Topics were deleted: what waits behind this may be theirs.
    orphans: Option<Waits>,
}

impl Maturing {
    /// A topic is gone: what waits for it goes, too.
    pub(super) fn look_for_orphans(&mut self) {
        self.orphans = Some(Waits::default());
    }

    /// Notes what time it is, before anything is decided: where the clock has gone back, what is delayed from now on may
    /// be due before what was passed over.
    pub(super) fn observe(&mut self, now: Ticks) {
        if now.0 < self.passed.0 || self.reread_at.is_some_and(|at| at <= Instant::now()) {
            self.look_again();
        }
    }

    /// Nothing is passed over any more.
    pub(super) fn look_again(&mut self) {
        (self.passed, self.reread_at) = (Waits::default(), None);
    }
}

impl LogLoop {
    /// Until there is something to do.
    pub(super) fn patience(&self) -> Duration {
        let busy = self.maturing.orphans.is_some() && self.maturing.retry_at.is_none();
        if busy { Duration::ZERO } else { self.until_due() }
    }

    /// Until a delayed message is due and may become visible, or something else is to be looked at.
    pub(super) fn until_due(&self) -> Duration {
        if self.is_stuffed() {
            return TICK;
        }
        if let Some(at) = self.maturing.retry_at {
            return at.saturating_duration_since(Instant::now()).min(TICK);
        }
        let (hour, passed, state) = (self.hour(), self.maturing.passed, self.shared.read());
        if state.due(hour, passed).next().is_some() {
            return Duration::ZERO;
        }
        // While the clock is doubted there may be others between: they are looked at from time to time.
        let behind = (Bound::Excluded(passed.max((hour.now, u64::MAX))), Bound::Unbounded);
        let next = state.delayed.range(behind).next().map(|((due, _), _)| Ticks(*due));
        next.map_or(TICK, |due| due.since(Ticks(hour.now)).min(TICK))
    }

    /// Lets some of what waits for deleted topics go.
    pub(super) fn forget(&mut self) -> Result<(), StoreError> {
        let Some(after) = self.maturing.orphans.filter(|_| self.maturing.retry_at.is_none()) else {
            return Ok(());
        };
        match self.alone(Wish::Forget { after })? {
            Some(Ok(Answer::Forgotten(through))) => self.maturing.orphans = through,
            _ => self.maturing.retry_at = Some(Instant::now() + TICK),
        }
        Ok(())
    }

    /// Makes some of what is due visible. The rest has its turn when others have had theirs.
    pub(super) fn mature(&mut self) -> Result<(), StoreError> {
        let hour = self.look_at_clock();
        if !self.until_due().is_zero() {
            return Ok(());
        }
        let failed_before = self.maturing.retry_at.take().is_some();
        match self.alone(Wish::Mature { after: self.maturing.passed, hour })? {
            Some(Ok(Answer::Matured(Some(passed)))) => {
                warn!(
                    count = passed.count,
                    topic = passed.spot.0,
                    partition = passed.spot.1,
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
                    warn!(%error, "cannot make visible what is due; trying again");
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
        // When the clock goes back, something may be due before them.
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
