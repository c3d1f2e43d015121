//! Whether the wall clock can be believed. Ids rise whatever it does; but a person wants to know, and what goes because of
//! its age never comes back.

use std::time::Duration;

use crate::id::Ticks;

/// A wall clock that moves by this much more or less than time does has jumped.
const JUMP: Duration = Duration::from_secs(60);
/// One that is so far ahead of what it should be is not believed at once: a machine may begin with any time, until somebody
/// sets its clock.
const FAR: Duration = Duration::from_secs(366 * 24 * 3600);
/// But if it stays there for so long: then the journal, or the machine, has slept.
const PROBATION: Duration = Duration::from_secs(600);

/// A jump of the wall clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Jump {
    Ahead(Duration),
    Back(Duration),
}

/// The wall clock beside one that only moves forward.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Watch {
    last: Option<(Ticks, Duration)>,
}

impl Watch {
    /// Notes both clocks, and tells when the wall clock has jumped since the last time.
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

/// Time that passes only while the journal runs, in ticks: by it dedup ids are forgotten. The wall clock may be set at any
/// moment, and nobody can tell a clock that was set while the journal was down from a long absence; so neither counts. An id
/// is remembered for its window of this time, which is never less than its window of real time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Steady {
    /// When the journal was opened.
    opened: u64,
}

impl Steady {
    /// `last` is the latest of this time that is known. Where there is none it may begin anywhere: at the wall clock, as
    /// versions did that knew no other time.
    pub(crate) fn new(last: u64, wall: Ticks) -> Self {
        Self { opened: if last > 0 { last } else { wall.0 } }
    }

    /// So long after the journal was opened.
    pub(crate) fn after(self, elapsed: Duration) -> u64 {
        Ticks(self.opened).plus(elapsed).0
    }
}

/// What time it is for what was there before: whether it is due, or old. Ids follow the wall clock all the same.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Belief {
    /// Both clocks when the wall clock was last believed; nothing when nothing was there before.
    last: Option<(Ticks, Duration)>,
    /// The latest time that was believed: a clock that was behind and is set right is not ahead.
    latest: Ticks,
    /// Both when it was first doubted.
    doubted: Option<(Ticks, Duration)>,
}

/// What is believed has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// The clock is so far ahead.
    Doubted(Duration),
    /// It was right, or it has gone back.
    Believed,
}

/// What time it is, and how much of that is certain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hour {
    /// The wall clock.
    pub(crate) now: u64,
    /// What was due or old by this time is. Before `now` only while the wall clock is doubted.
    pub(crate) sure: u64,
    /// Since when it is doubted, in its own time; else `now`. What has come since then has its time from it.
    pub(crate) since: u64,
}

impl Belief {
    /// `newest` is the last time that is known, when the steady clock begins.
    pub(crate) fn new(newest: Ticks) -> Self {
        let last = (newest > Ticks(0)).then_some((newest, Duration::ZERO));
        Self { last, latest: newest, doubted: None }
    }

    /// Notes both clocks.
    pub(crate) fn observe(&mut self, wall: Ticks, steady: Duration) -> Option<Turn> {
        let ahead = self.expected(steady).map_or(Duration::ZERO, |expected| wall.since(expected));
        match self.doubted {
            None if ahead > FAR => {
                self.doubted = Some((wall, steady));
                Some(Turn::Doubted(ahead))
            }
            Some((_, since)) if ahead > FAR && steady.saturating_sub(since) < PROBATION => None,
            doubted => {
                (self.last, self.doubted) = (Some((wall, steady)), None);
                self.latest = self.latest.max(wall);
                doubted.map(|_| Turn::Believed)
            }
        }
    }

    /// What time it is by what was last observed.
    pub(crate) fn hour(&self, wall: Ticks, steady: Duration) -> Hour {
        let doubted = self.doubted.zip(self.expected(steady));
        let (sure, since) = doubted.map_or((wall, wall), |((since, _), expected)| (expected, since));
        Hour { now: wall.0, sure: sure.0.min(wall.0), since: since.0 }
    }

    /// What the wall clock should show.
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
            let mut belief = Belief::new(start);
            if !running.is_zero() {
                assert_eq!(belief.observe(start.plus(running), running), None);
            }
            let expected = start.plus(running);
            let ahead = wrong.since(expected);
            assert_eq!(belief.observe(wrong, running), Some(Turn::Doubted(ahead)));
            let (wall, steady) = (wrong.plus(second(599)), running + second(599));
            assert_eq!(belief.observe(wall, steady), None);
            let hour = Hour { now: wall.0, sure: expected.plus(second(599)).0, since: wrong.0 };
            assert_eq!(belief.hour(wall, steady), hour, "time goes on");
            let mut back = belief;
            let right = expected.plus(second(600));
            assert_eq!(back.observe(right, running + second(600)), Some(Turn::Believed));
            assert_eq!(back.hour(right, running + second(600)).sure, right.0);
            let (wall, steady) = (wrong.plus(second(600)), running + second(600));
            assert_eq!(belief.observe(wall, steady), Some(Turn::Believed));
            assert_eq!(belief.hour(wall, steady), Hour { now: wall.0, sure: wall.0, since: wall.0 });
            assert_eq!(belief.observe(wall.plus(second(1)), steady + second(1)), None);
        }
    }

    #[test]
    fn a_short_absence_and_a_journal_without_a_past_raise_no_doubt() {
        let now = Ticks::now();
        assert_eq!(Belief::new(now).observe(now.plus(DAY), Duration::ZERO), None);
        assert_eq!(Belief::new(now).observe(now.minus(DAY * 1000), Duration::ZERO), None);
        assert_eq!(Belief::new(Ticks(0)).observe(now, Duration::ZERO), None);
        let mut behind = Belief::new(now);
        assert_eq!(behind.observe(now.minus(DAY * 10_000), Duration::ZERO), None);
        let minute = Duration::from_secs(60);
        assert_eq!(behind.observe(now.plus(minute), minute), None, "it was set right");
    }

    #[test]
    fn a_clock_that_runs_is_believed_and_one_that_jumps_is_reported() {
        let mut watch = Watch::default();
        let start = Ticks::now();
        let second = Duration::from_secs;
        assert_eq!(watch.observe(start, second(10)), None);
        assert_eq!(watch.observe(start.plus(second(3600)), second(3610)), None);
        assert_eq!(watch.observe(start.plus(second(7300)), second(3611)), Some(Jump::Ahead(second(3699))));
        assert_eq!(watch.observe(start.plus(second(7310)), second(3621)), None);
        assert_eq!(watch.observe(start, second(3621)), Some(Jump::Back(second(7310))));
    }
}
