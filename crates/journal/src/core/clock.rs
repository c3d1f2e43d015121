//! Whether the wall clock can be trusted. Ids rise whatever it does; but operators want to know, and messages that are
//! dropped because of their age never come back.

use std::time::Duration;

use crate::id::Ticks;

/// A wall clock that deviates from the monotonic clock by this much has jumped.
const JUMP: Duration = Duration::from_secs(60);
/// A wall clock that is this far ahead is not trusted at once: a machine may boot with any time, until its clock is
/// set.
const FAR: Duration = Duration::from_secs(366 * 24 * 3600);
/// If it stays ahead for this long, it is trusted: the journal or the machine was down.
const PROBATION: Duration = Duration::from_secs(600);

/// A jump of the wall clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Jump {
    Ahead(Duration),
    Back(Duration),
}

/// Compares the wall clock with the monotonic clock.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct JumpDetector {
    last: Option<(Ticks, Duration)>,
}

impl JumpDetector {
    /// Records both clocks, and returns a jump of the wall clock since the last time.
    pub(crate) fn observe(&mut self, wall: Ticks, steady: Duration) -> Option<Jump> {
        let (last_wall, last_steady) = self.last.replace((wall, steady))?;
        let expected = last_wall.plus(steady.saturating_sub(last_steady));
        match (wall.since(expected), expected.since(wall)) {
            (ahead, _) if ahead > JUMP => Some(Jump::Ahead(ahead)),
            (_, back) if back > JUMP => Some(Jump::Back(back)),
            _ => None,
        }
    }
}

/// Time that passes only while the journal runs, in ticks: dedup ids expire by it. The wall clock may be set at any
/// moment, and a clock that was set while the journal was down looks like a long downtime; so neither counts. An id is
/// remembered for its window of this time, which is never less than its window of real time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Steady {
    /// When the journal was opened.
    opened: u64,
}

impl Steady {
    /// `last` is the latest known value of this time. Without one it may begin anywhere: it begins at the wall clock,
    /// which old versions used instead.
    pub(crate) fn new(last: u64, wall: Ticks) -> Self {
        Self { opened: if last > 0 { last } else { wall.0 } }
    }

    /// The time this long after the journal was opened.
    pub(crate) fn after(self, elapsed: Duration) -> u64 {
        Ticks(self.opened).plus(elapsed).0
    }
}

/// Decides which time to use for messages that existed before: whether they are due, or old. Ids follow the wall clock
/// in any case.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClockTrust {
    /// Both clocks when the wall clock was last trusted; `None` for a new journal.
    last: Option<(Ticks, Duration)>,
    /// The latest trusted time: a clock that was behind and is corrected is not ahead.
    latest: Ticks,
    /// Both clocks when the wall clock was first doubted.
    doubted: Option<(Ticks, Duration)>,
}

/// A change of trust.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TrustChange {
    /// The clock is doubted: it is this far ahead.
    Doubted(Duration),
    /// The clock is trusted again: it was right, or has gone back.
    Trusted,
}

/// The current time, and how much of it is certain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TrustedTime {
    /// The wall clock.
    pub(crate) now: u64,
    /// Whatever is due or old by this time certainly is. Earlier than `now` only while the wall clock is doubted.
    pub(crate) sure: u64,
    /// Since when the wall clock is doubted, by itself; else `now`. Messages since then have their times from it.
    pub(crate) since: u64,
}

impl ClockTrust {
    /// `newest` is the latest known time when the monotonic clock begins.
    pub(crate) fn new(newest: Ticks) -> Self {
        let last = (newest > Ticks(0)).then_some((newest, Duration::ZERO));
        Self { last, latest: newest, doubted: None }
    }

    /// Records both clocks.
    pub(crate) fn observe(&mut self, wall: Ticks, steady: Duration) -> Option<TrustChange> {
        let ahead = self.expected(steady).map_or(Duration::ZERO, |expected| wall.since(expected));
        match self.doubted {
            None if ahead > FAR => {
                self.doubted = Some((wall, steady));
                Some(TrustChange::Doubted(ahead))
            }
            Some((_, since)) if ahead > FAR && steady.saturating_sub(since) < PROBATION => None,
            doubted => {
                (self.last, self.doubted) = (Some((wall, steady)), None);
                self.latest = self.latest.max(wall);
                doubted.map(|_| TrustChange::Trusted)
            }
        }
    }

    /// The time, given the last observation.
    pub(crate) fn at(&self, wall: Ticks, steady: Duration) -> TrustedTime {
        let doubted = self.doubted.zip(self.expected(steady));
        let (sure, since) = doubted.map_or((wall, wall), |((since, _), expected)| (expected, since));
        TrustedTime { now: wall.0, sure: sure.0.min(wall.0), since: since.0 }
    }

    /// What the wall clock should show now.
    fn expected(&self, steady: Duration) -> Option<Ticks> {
        self.last.map(|(wall, then)| wall.plus(steady.saturating_sub(then)).max(self.latest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 3600);

    #[test]
    fn a_clock_that_is_far_ahead_is_believed_when_it_has_stayed_so_for_a_while() {
        let second = Duration::from_secs;
        let start = Ticks::now();
        let wrong = start.plus(DAY * 1000);
        // When the journal is opened, and later.
        for running in [0, 50_000].map(second) {
            let mut trust = ClockTrust::new(start);
            if !running.is_zero() {
                assert_eq!(trust.observe(start.plus(running), running), None);
            }
            let expected = start.plus(running);
            let ahead = wrong.since(expected);
            assert_eq!(trust.observe(wrong, running), Some(TrustChange::Doubted(ahead)));
            let (wall, steady) = (wrong.plus(second(599)), running + second(599));
            assert_eq!(trust.observe(wall, steady), None);
            let time = TrustedTime { now: wall.0, sure: expected.plus(second(599)).0, since: wrong.0 };
            assert_eq!(trust.at(wall, steady), time, "time goes on");
            let mut back = trust;
            let right = expected.plus(second(600));
            assert_eq!(back.observe(right, running + second(600)), Some(TrustChange::Trusted));
            assert_eq!(back.at(right, running + second(600)).sure, right.0);
            let (wall, steady) = (wrong.plus(second(600)), running + second(600));
            assert_eq!(trust.observe(wall, steady), Some(TrustChange::Trusted));
            assert_eq!(trust.at(wall, steady), TrustedTime { now: wall.0, sure: wall.0, since: wall.0 });
            assert_eq!(trust.observe(wall.plus(second(1)), steady + second(1)), None);
        }
    }

    #[test]
    fn a_short_absence_and_a_journal_without_a_past_raise_no_doubt() {
        let now = Ticks::now();
        assert_eq!(ClockTrust::new(now).observe(now.plus(DAY), Duration::ZERO), None);
        assert_eq!(ClockTrust::new(now).observe(now.minus(DAY * 1000), Duration::ZERO), None);
        assert_eq!(ClockTrust::new(Ticks(0)).observe(now, Duration::ZERO), None);
        let mut behind = ClockTrust::new(now);
        assert_eq!(behind.observe(now.minus(DAY * 10_000), Duration::ZERO), None);
        let minute = Duration::from_secs(60);
        assert_eq!(behind.observe(now.plus(minute), minute), None, "it was set right");
    }

    #[test]
    fn a_clock_that_runs_is_believed_and_one_that_jumps_is_reported() {
        let mut jumps = JumpDetector::default();
        let start = Ticks::now();
        let second = Duration::from_secs;
        assert_eq!(jumps.observe(start, second(10)), None);
        assert_eq!(jumps.observe(start.plus(second(3600)), second(3610)), None);
        assert_eq!(jumps.observe(start.plus(second(7300)), second(3611)), Some(Jump::Ahead(second(3699))));
        assert_eq!(jumps.observe(start.plus(second(7310)), second(3621)), None);
        assert_eq!(jumps.observe(start, second(3621)), Some(Jump::Back(second(7310))));
    }
}
