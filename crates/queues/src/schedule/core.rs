//! Which times of a schedule are due. Pure: times are whole seconds since 1970, and so is the clock.

use serde::{Deserialize, Serialize};

/// A time that is put at most this much later counts as put on time; after that it was missed.
pub const LATE_MAX_SECONDS: i64 = 60;

/// Missed times that are caught up with at once: whoever was away for a year does not want them all.
pub const CATCH_UP_MAX: usize = 100;

/// Missed times that are counted at once. Beyond that, counting takes longer than the number is worth.
pub const MISSED_COUNT_MAX: u64 = 100_000;

/// How far a schedule has come, as the journal stores it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// When the schedule was added: one of the same name that was added at another time is another one.
    pub added_ms: u64,
    /// The last time that was put or skipped.
    pub through: i64,
    /// The last time that was put.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub put: Option<i64>,
    /// How many times were missed and not put.
    #[serde(default)]
    pub missed: u64,
    /// The last of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_missed: Option<i64>,
    /// Why its next time is not put, if the journal or the queue refuses this message. Others of the queue go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

impl Record {
    /// Of a schedule that has not come far: nothing up to `since` is put.
    pub fn new(added_ms: u64, since: i64) -> Self {
        Self { added_ms, through: since, put: None, missed: 0, last_missed: None, problem: None }
    }

    /// Whether its last time lies in the future of this clock, by more than clocks of hosts differ: then a clock was wrong,
    /// and nothing is put before that time.
    pub fn lies_ahead(&self, now: i64) -> bool {
        self.through > now.saturating_add(LATE_MAX_SECONDS)
    }

    /// The record after this step.
    #[must_use]
    pub fn after(&self, step: Step) -> Self {
        match step {
            Step::Put { time, .. } => Self { through: time, put: Some(time), problem: None, ..self.clone() },
            Step::Skip { times, last } => Self {
                through: last,
                missed: self.missed.saturating_add(times),
                last_missed: Some(last),
                ..self.clone()
            },
        }
    }
}

/// What is to be done about times that are due. Each step is one commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Put a message for this time.
    Put {
        /// The time.
        time: i64,
        /// Nobody was there when it was due.
        missed: bool,
    },
    /// Skip times that were missed.
    Skip {
        /// How many, up to [`MISSED_COUNT_MAX`].
        times: u64,
        /// The last of them; if there are more than were counted, a time after all of them.
        last: i64,
    },
}

/// What is to be done, in order, and the next time after that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Due {
    /// What is to be done now.
    pub steps: Vec<Step>,
    /// When there is more to do; `None` if never.
    pub next: Option<i64>,
}

/// What is due after `through`. Whatever the clock does, a time is in the steps at most once, because they begin after
/// the last one, and it is not left out, because they end before the next one. But a clock that is ahead skips what it takes
/// for missed, for good: so check it before.
pub fn due(next_after: impl Fn(i64) -> Option<i64>, through: i64, now: i64, catch_up: bool) -> Due {
    let on_time = now.saturating_sub(LATE_MAX_SECONDS);
    let mut steps = Vec::new();
    let mut next = next_after(through);
    let (mut skipped, mut last) = (0, 0);
    while let Some(time) = next.filter(|time| *time < on_time) {
        if catch_up && steps.len() < CATCH_UP_MAX {
            steps.push(Step::Put { time, missed: true });
        } else {
            (skipped, last) = (skipped + 1, time);
        }
        if skipped == MISSED_COUNT_MAX {
            last = on_time - 1;
        }
        next = next_after(last.max(time));
    }
    if skipped > 0 {
        steps.push(Step::Skip { times: skipped, last });
    }
    while let Some(time) = next.filter(|time| *time <= now) {
        steps.push(Step::Put { time, missed: false });
        next = next_after(time);
    }
    Due { steps, next }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A schedule that fires every so many seconds.
    fn every(period: i64) -> impl Fn(i64) -> Option<i64> {
        move |time| Some((time.div_euclid(period) + 1) * period)
    }

    fn on_time(time: i64) -> Step {
        Step::Put { time, missed: false }
    }

    #[test]
    fn nothing_is_due_before_its_time() {
        assert_eq!(due(every(300), 600, 899, false), Due { steps: vec![], next: Some(900) });
        assert_eq!(due(every(300), 600, 900, false), Due { steps: vec![on_time(900)], next: Some(1200) });
        assert_eq!(due(|_| None, 600, 900, false), Due { steps: vec![], next: None });
    }

    #[test]
    fn a_minute_late_is_not_missed() {
        assert_eq!(due(every(300), 600, 960, false).steps, [on_time(900)]);
        assert_eq!(due(every(300), 600, 961, false).steps, [Step::Skip { times: 1, last: 900 }]);
        assert_eq!(due(every(300), 600, 961, true).steps, [Step::Put { time: 900, missed: true }]);
    }

    #[test]
    fn missed_times_are_skipped_and_counted_or_caught_up_with() {
        let away = due(every(300), 0, 1510, false);
        assert_eq!(away.steps, [Step::Skip { times: 4, last: 1200 }, on_time(1500)]);
        let caught = due(every(300), 0, 1510, true);
        let missed = |time| Step::Put { time, missed: true };
        assert_eq!(caught.steps, [missed(300), missed(600), missed(900), missed(1200), on_time(1500)]);
        assert_eq!((away.next, caught.next), (Some(1800), Some(1800)));
    }

    #[test]
    fn catching_up_is_bounded() {
        let caught = due(every(10), 0, 10_000, true);
        let put = caught.steps.iter().filter(|step| matches!(step, Step::Put { missed: true, .. })).count();
        assert_eq!(put, CATCH_UP_MAX);
        assert_eq!(caught.steps[CATCH_UP_MAX], Step::Skip { times: 893, last: 9930 });
        assert_eq!(caught.steps[CATCH_UP_MAX + 1..].first(), Some(&on_time(9940)));
        let year = due(every(1), 0, 31_536_000, false);
        assert_eq!(year.steps[0], Step::Skip { times: MISSED_COUNT_MAX, last: 31_536_000 - 61 });
        assert_eq!(year.steps[1], on_time(31_536_000 - 60), "what is not counted is skipped nevertheless");
    }

    #[test]
    fn a_clock_that_goes_back_puts_nothing_twice() {
        assert_eq!(due(every(60), 6000, 3000, true), Due { steps: vec![], next: Some(6060) });
    }

    #[test]
    fn last_time_in_the_future_shows_that_a_clock_was_wrong() {
        let record = Record::new(0, 1000);
        assert!(record.lies_ahead(939) && !record.lies_ahead(940) && !record.lies_ahead(2000));
    }

    proptest! {
        /// However clocks jump and leaders fail between steps, each time is put or skipped once, in order.
        #[test]
        fn each_time_is_put_or_skipped_once(
            period in 1_i64..400,
            catch_up: bool,
            looks in prop::collection::vec((0_i64..20_000, 0_usize..4), 1..30),
        ) {
            let mut record = Record::new(0, 100);
            let mut decided = Vec::new();
            for (now, done) in looks {
                let due = due(every(period), record.through, now, catch_up);
                // Whoever leads dies after some of the steps; each is recorded by the commit that does it.
                for step in due.steps.iter().take(done) {
                    match *step {
                        Step::Put { time, .. } => decided.push(time),
                        Step::Skip { times, last } => {
                            decided.extend((0..times as i64).rev().map(|back| last - back * period));
                        }
                    }
                    record = record.after(*step);
                }
            }
            let expected: Vec<i64> = std::iter::successors(every(period)(100), |time| every(period)(*time))
                .take(decided.len()).collect();
            prop_assert_eq!(decided, expected);
        }

        #[test]
        fn the_next_time_is_the_first_in_the_future(period in 1_i64..400, through in 0_i64..1000, now in 0_i64..5000) {
            let due = due(every(period), through, now, false);
            prop_assert_eq!(due.next, every(period)(through.max(now)));
        }
    }
}
