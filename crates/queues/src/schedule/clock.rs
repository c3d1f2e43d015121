//! Whether the wall clock of this host can be trusted: times that it passes over by mistake are gone for good. Pure.

use std::time::Duration;

use menagerie_kernel::Moment;

/// A clock that deviates by more seconds than this is doubted. The same as what counts as on time, so that a smaller
/// deviation skips nothing.
const DEVIATION_MAX: i64 = super::core::LATE_MAX_SECONDS;

/// A clock that deviates for this long is right after all: it was corrected. Shorter than the longest patience, so that the
/// candidate that has it ends its doubt while it is elected.
pub const DOUBT_MAX: Duration = Duration::from_secs(180);

/// Both clocks at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// The wall clock, in seconds since 1970.
    pub wall: i64,
    /// `CLOCK_BOOTTIME`, which goes on while the machine is suspended, and which nobody can set.
    pub boot: Moment,
}

/// Compares the wall clock with `CLOCK_BOOTTIME`, as long as the process stands for election; and with ZooKeeper's clock when
/// it is elected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockCheck {
    /// The last reading that was trusted.
    trusted: Reading,
    doubt: Option<Doubt>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Doubt {
    since: Moment,
    /// By how much the clock was ahead then.
    ahead: i64,
}

impl ClockCheck {
    /// Begins with a clock that nothing is known about.
    pub fn new(now: Reading) -> Self {
        Self { trusted: now, doubt: None }
    }

    /// Records what time it is by the clock of ZooKeeper. While our clock is doubted this changes nothing: if ZooKeeper runs
    /// on the same host, its clock deviates, too.
    pub fn on_elected(&mut self, server: Reading) {
        if self.doubt.is_none() {
            self.trusted = server;
        }
    }

    /// Records both clocks. Returns the time if it can be trusted; else by how many seconds the clock is ahead.
    pub fn observe(&mut self, now: Reading) -> Result<i64, i64> {
        let passed = i64::try_from((now.boot - self.trusted.boot).as_secs()).unwrap_or(i64::MAX);
        let ahead = now.wall.saturating_sub(self.trusted.wall.saturating_add(passed));
        if ahead.saturating_abs() > DEVIATION_MAX {
            let doubt = *self.doubt.get_or_insert(Doubt { since: now.boot, ahead });
            if now.boot - doubt.since < DOUBT_MAX {
                return Err(doubt.ahead);
            }
        }
        *self = Self::new(now);
        Ok(now.wall)
    }
}

#[cfg(test)]
mod tests {
    use super::super::core::{Record, Step, due};
    use super::super::patience::PATIENCE_MAX;
    use super::*;

    const DAY: i64 = 86_400;

    /// This many seconds after the start of a test, with the wall clock so far ahead.
    fn at(second: i64, ahead: i64) -> Reading {
        Reading { wall: second + ahead, boot: Moment::PAST + Duration::from_secs(second as u64) }
    }

    #[test]
    fn clock_that_jumps_is_not_trusted_until_it_is_back() {
        for jump in [DAY, 61, -61, -DAY] {
            let mut clock = ClockCheck::new(at(DAY, 0));
            assert_eq!(clock.observe(at(DAY + 10, 0)), Ok(DAY + 10));
            assert_eq!(clock.observe(at(DAY + 20, jump)), Err(jump));
            assert_eq!(clock.observe(at(DAY + 100, jump)), Err(jump));
            assert_eq!(clock.observe(at(DAY + 110, 0)), Ok(DAY + 110));
        }
    }

    #[test]
    fn clock_that_stays_where_it_jumped_was_corrected() {
        let mut clock = ClockCheck::new(at(0, 0));
        assert_eq!(clock.observe(at(10, DAY)), Err(DAY));
        assert_eq!(clock.observe(at(189, DAY)), Err(DAY));
        assert_eq!(clock.observe(at(190, DAY)), Ok(DAY + 190));
        assert_eq!(clock.observe(at(200, DAY)), Ok(DAY + 200));
        assert!(DOUBT_MAX < PATIENCE_MAX);
    }

    #[test]
    fn suspended_machine_has_a_sound_clock() {
        let mut clock = ClockCheck::new(at(0, 0));
        assert_eq!(clock.observe(at(10, 0)), Ok(10));
        assert_eq!(clock.observe(at(10 + DAY, 0)), Ok(10 + DAY), "CLOCK_BOOTTIME went on");
    }

    #[test]
    fn small_and_slow_deviations_are_followed() {
        let mut clock = ClockCheck::new(at(0, 0));
        for step in 1..=100 {
            assert_eq!(clock.observe(at(10 * step, 60 * step)), Ok(70 * step));
        }
    }

    #[test]
    fn clock_that_is_far_from_the_servers_is_doubted_from_the_first_turn() {
        let mut clock = ClockCheck::new(at(0, DAY));
        assert_eq!(clock.observe(at(10, DAY)), Ok(DAY + 10), "nobody knows better");
        clock.on_elected(at(20, 0));
        assert_eq!(clock.observe(at(21, DAY)), Err(DAY));
        // It was set.
        assert_eq!(clock.observe(at(40, 0)), Ok(40));
    }

    #[test]
    fn server_on_the_same_host_does_not_end_a_doubt() {
        let mut clock = ClockCheck::new(at(0, 0));
        assert_eq!(clock.observe(at(10, DAY)), Err(DAY));
        clock.on_elected(at(25, DAY));
        assert_eq!(clock.observe(at(26, DAY)), Err(DAY));
        assert_eq!(clock.observe(at(60, 0)), Ok(60));
    }

    /// What became of the times of a schedule that fires every 300 s, with a turn every 10 s for an hour: those put, and the
    /// record.
    fn hour(ahead: impl Fn(i64) -> i64) -> (Vec<i64>, Record) {
        let (mut clock, mut record, mut put) = (ClockCheck::new(at(0, 0)), Record::new(0, 0), Vec::new());
        for second in (10..=3600).step_by(10) {
            let Ok(now) = clock.observe(at(second, ahead(second))) else { continue };
            let every_300 = |time: i64| Some((time.div_euclid(300) + 1) * 300);
            for step in due(every_300, &record, now, false).steps {
                put.extend(match step {
                    Step::Put { time, .. } => Some(time),
                    Step::Skip { .. } => None,
                });
                record = record.after(step);
            }
        }
        (put, record)
    }

    #[test]
    fn jump_of_less_than_three_minutes_loses_only_times_more_than_a_minute_ago() {
        let all: Vec<i64> = (1..=12).map(|time| time * 300).collect();
        let short = |from, to| hour(move |second| if (from..to).contains(&second) { DAY } else { 0 });
        assert_eq!(short(1000, 1170).0, all, "no time was due");
        assert_eq!(short(1150, 1250).0, all, "a time is put late");
        let (put, record) = short(1150, 1320);
        assert_eq!((record.missed, record.last_missed, record.through), (1, Some(1200), 3600));
        assert_eq!(put.len(), 11);
    }

    #[test]
    fn jump_that_stays_is_followed() {
        let (put, record) = hour(|second| if second >= 1000 { DAY } else { 0 });
        assert_eq!(put[..3], [300, 600, 900]);
        assert!(put[3] > DAY && record.missed > 280, "{record:?}");
    }
}
