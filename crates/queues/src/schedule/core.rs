//! Which times of a schedule are due. Pure: times are whole seconds since 1970, and so is the clock.

use serde::{Deserialize, Serialize};

/// A time that is put at most this much later counts as put on time; after that it was missed.
pub const LATE_MAX_SECONDS: i64 = 60;

/// Missed times that are put in a row: whoever was away for a year does not want them all.
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
    /// How many missed times were put in a row, up to [`CATCH_UP_MAX`]; zero if none is left to be caught up with.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub caught_up: usize,
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
        Self {
            added_ms,
            through: since,
            put: None,
            caught_up: 0,
            missed: 0,
            last_missed: None,
            problem: None,
        }
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
            Step::Put { time, caught_up, .. } => {
                Self { through: time, put: Some(time), caught_up, problem: None, ..self.clone() }
            }
            Step::Skip { times, last } => Self {
                through: last,
                caught_up: 0,
                missed: self.missed.saturating_add(times),
                last_missed: Some(last),
                ..self.clone()
            },
        }
    }
}

fn is_zero(number: &usize) -> bool {
    *number == 0
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
        /// How many missed times were put in a row, this one included; zero if it ends the row.
        caught_up: usize,
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

/// What is due after the last time of `record`. Whatever the clock does, a time is in the steps at most once, because they
/// begin after the last one, and it is not left out, because they end before the next one. But a clock that is ahead skips
/// what it takes for missed, for good: so check it before.
pub fn due(next_after: impl Fn(i64) -> Option<i64>, record: &Record, now: i64, catch_up: bool) -> Due {
    let on_time = now.saturating_sub(LATE_MAX_SECONDS);
    let mut steps = Vec::new();
    let mut next = next_after(record.through);
    // The record counts across failures: whoever goes on does not begin to count anew.
    let mut caught_up = if catch_up { record.caught_up } else { CATCH_UP_MAX };
    let (mut skipped, mut last) = (0, 0);
    while let Some(time) = next.filter(|time| *time < on_time) {
        if caught_up < CATCH_UP_MAX {
            caught_up += 1;
            let is_last = next_after(time).is_none_or(|next| next >= on_time);
            steps.push(Step::Put { time, missed: true, caught_up: if is_last { 0 } else { caught_up } });
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
        steps.push(Step::Put { time, missed: false, caught_up: 0 });
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

    fn since(time: i64) -> Record {
        Record::new(0, time)
    }

    fn on_time(time: i64) -> Step {
        Step::Put { time, missed: false, caught_up: 0 }
    }

    fn missed(time: i64, caught_up: usize) -> Step {
        Step::Put { time, missed: true, caught_up }
    }

    #[test]
    fn nothing_is_due_before_its_time() {
        assert_eq!(due(every(300), &since(600), 899, false), Due { steps: vec![], next: Some(900) });
        assert_eq!(
            due(every(300), &since(600), 900, false),
            Due { steps: vec![on_time(900)], next: Some(1200) }
        );
        assert_eq!(due(|_| None, &since(600), 900, false), Due { steps: vec![], next: None });
    }

    #[test]
    fn a_minute_late_is_not_missed() {
        assert_eq!(due(every(300), &since(600), 960, false).steps, [on_time(900)]);
        assert_eq!(due(every(300), &since(600), 961, false).steps, [Step::Skip { times: 1, last: 900 }]);
        assert_eq!(due(every(300), &since(600), 961, true).steps, [missed(900, 0)]);
    }

    #[test]
    fn missed_times_are_skipped_and_counted_or_caught_up_with() {
        let away = due(every(300), &since(0), 1510, false);
        assert_eq!(away.steps, [Step::Skip { times: 4, last: 1200 }, on_time(1500)]);
        let caught = due(every(300), &since(0), 1510, true);
        assert_eq!(
            caught.steps,
            [missed(300, 1), missed(600, 2), missed(900, 3), missed(1200, 0), on_time(1500)]
        );
        assert_eq!((away.next, caught.next), (Some(1800), Some(1800)));
    }

    #[test]
    fn catching_up_is_bounded() {
        let caught = due(every(10), &since(0), 10_000, true);
        let put = caught.steps.iter().filter(|step| matches!(step, Step::Put { missed: true, .. })).count();
        assert_eq!(put, CATCH_UP_MAX);
        assert_eq!(caught.steps[CATCH_UP_MAX], Step::Skip { times: 893, last: 9930 });
        assert_eq!(caught.steps[CATCH_UP_MAX + 1..].first(), Some(&on_time(9940)));
        let year = due(every(1), &since(0), 31_536_000, false);
        assert_eq!(year.steps[0], Step::Skip { times: MISSED_COUNT_MAX, last: 31_536_000 - 61 });
        assert_eq!(year.steps[1], on_time(31_536_000 - 60), "what is not counted is skipped nevertheless");
    }

    #[test]
    fn catching_up_is_bounded_across_failures() {
        let (mut record, mut put) = (since(0), 0);
        // Whoever leads dies after 40 steps, and time goes on: the bound holds all the same.
        for now in [10_000, 10_100, 10_200] {
            for step in due(every(10), &record, now, true).steps.into_iter().take(40) {
                put += usize::from(matches!(step, Step::Put { missed: true, .. }));
                record = record.after(step);
            }
        }
        assert_eq!((put, record.through, record.caught_up), (CATCH_UP_MAX, 10_200, 0));
    }

    #[test]
    fn each_outage_is_caught_up_with_anew() {
        // A machine that is off whenever its time comes is never on time.
        let mut record = since(0);
        for outage in 1..=200 {
            let steps = due(every(1000), &record, outage * 1000 + 500, true).steps;
            assert_eq!(steps, [missed(outage * 1000, 0)]);
            record = record.after(steps[0]);
        }
    }

    #[test]
    fn a_clock_that_goes_back_puts_nothing_twice() {
        assert_eq!(due(every(60), &since(6000), 3000, true), Due { steps: vec![], next: Some(6060) });
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
                let due = due(every(period), &record, now, catch_up);
                // Whoever leads dies after some of the steps; each is recorded by the commit that does it.
                for step in due.steps.iter().take(done) {
                    match *step {
                        Step::Put { time, .. } => decided.push(time),
                        Step::Skip { times, last } => {
                            decided.extend((0..times as i64).rev().map(|back| last - back * period));
                        }
                    }
                    record = record.after(*step);
                    prop_assert!(record.caught_up <= CATCH_UP_MAX);
                }
            }
            let expected: Vec<i64> = std::iter::successors(every(period)(100), |time| every(period)(*time))
                .take(decided.len()).collect();
            prop_assert_eq!(decided, expected);
        }

        #[test]
        fn the_next_time_is_the_first_in_the_future(period in 1_i64..400, through in 0_i64..1000, now in 0_i64..5000) {
            let due = due(every(period), &since(through), now, false);
            prop_assert_eq!(due.next, every(period)(through.max(now)));
        }
    }
}
