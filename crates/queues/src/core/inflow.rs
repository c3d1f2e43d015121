//! How fast messages are put into a partition, as its owner can tell.
//!
//! The journal says how many messages are behind the cursor, the owner knows how many it has passed: whatever their sum
//! grows by was put. How messages ended (done, given up, expired) does not matter, nor what is done beyond an unfinished
//! one: that is behind the cursor, and not passed.
//!
//! Where somebody deletes messages that the owner has read already, the rate is wrong for a minute. Where somebody sets the
//! cursor back, messages count as put again, for a minute after the owner has seen them behind it.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Looks that are remembered are this far apart, or farther.
const STEP: Duration = Duration::from_secs(10);
/// The rate is an average over this time, or less.
const PERIOD: Duration = Duration::from_secs(60);
/// Over less than this, there is no rate.
const PERIOD_MIN: Duration = Duration::from_secs(1);

/// Counts messages that were put.
#[derive(Debug, Clone, Default)]
pub struct Inflow {
    /// Messages passed by the record in flight, by the cursor as it is stored, and as the journal was last told.
    recording: u64,
    recorded: u64,
    reported: u64,
    /// Messages passed, and behind the cursor; oldest first.
    looks: VecDeque<(Instant, u64)>,
    newest: Option<(Instant, u64)>,
}

impl Inflow {
    /// A record has begun whose cursor passes this many messages, counted from when the partition was taken.
    pub fn start_record(&mut self, passed: u64) {
        self.recording = passed;
    }

    /// The record is stored.
    pub fn confirm_record(&mut self) {
        self.recorded = self.recording;
    }

    /// The journal is told the cursor.
    pub fn report(&mut self) {
        self.reported = self.recorded;
    }

    /// The journal says how many messages are behind the cursor that it was last told.
    pub fn on_lag(&mut self, lag: u64, now: Instant) {
        let total = self.reported + lag;
        // Somebody has deleted messages, or what an earlier owner had done was passed: begin anew.
        if self.newest.is_some_and(|(_, newest)| total < newest) {
            self.looks.clear();
        }
        self.newest = Some((now, total));
        if self.looks.back().is_none_or(|(at, _)| now.saturating_duration_since(*at) >= STEP) {
            self.looks.push_back((now, total));
        }
        while self.looks.front().is_some_and(|(at, _)| now.saturating_duration_since(*at) > PERIOD) {
            self.looks.pop_front();
        }
    }

    /// Messages put per 1,000 seconds; `None` if that is not known yet.
    pub fn per_1000_s(&self) -> Option<u64> {
        let ((then, before), (now, total)) = (*self.looks.front()?, self.newest?);
        let time = now.saturating_duration_since(then);
        (time >= PERIOD_MIN).then(|| ((total - before) as f64 * 1000.0 / time.as_secs_f64()) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records that this many messages are passed, and looks at what is behind them.
    fn look(inflow: &mut Inflow, passed: u64, lag: u64, now: Instant) {
        inflow.start_record(passed);
        inflow.confirm_record();
        inflow.report();
        inflow.on_lag(lag, now);
    }

    #[test]
    fn what_was_put_follows_from_what_was_passed_and_what_is_behind() {
        let (mut inflow, began) = (Inflow::default(), Instant::now());
        look(&mut inflow, 0, 100, began);
        assert_eq!(inflow.per_1000_s(), None);
        look(&mut inflow, 30, 90, began + Duration::from_secs(10));
        assert_eq!(inflow.per_1000_s(), Some(2_000), "20 within 10 seconds");
        look(&mut inflow, 50, 70, began + Duration::from_secs(20));
        assert_eq!(inflow.per_1000_s(), Some(1_000), "none since");
    }

    #[test]
    fn a_message_that_hangs_while_others_are_done_puts_none() {
        let (mut inflow, began) = (Inflow::default(), Instant::now());
        for second in 0..40 {
            look(&mut inflow, 0, 100, began + Duration::from_secs(second));
        }
        assert_eq!(inflow.per_1000_s(), Some(0));
        look(&mut inflow, 80, 20, began + Duration::from_secs(40));
        assert_eq!(inflow.per_1000_s(), Some(0), "it was done, and the cursor passed all of them");
    }

    #[test]
    fn a_cursor_that_the_journal_does_not_know_yet_does_not_count() {
        let (mut inflow, began) = (Inflow::default(), Instant::now());
        look(&mut inflow, 0, 10, began);
        inflow.start_record(5);
        inflow.on_lag(10, began + Duration::from_secs(1));
        inflow.confirm_record();
        inflow.on_lag(10, began + Duration::from_secs(2));
        assert_eq!(inflow.per_1000_s(), Some(0));
    }

    #[test]
    fn a_minute_is_remembered_and_deleted_messages_were_not_put() {
        let (mut inflow, began) = (Inflow::default(), Instant::now());
        for second in 0..300 {
            let lag = if second < 200 { second * 10 } else { 2_000 };
            look(&mut inflow, 0, lag, began + Duration::from_secs(second));
            assert!(inflow.looks.len() <= 7);
        }
        assert_eq!(inflow.per_1000_s(), Some(0));
        look(&mut inflow, 0, 0, began + Duration::from_secs(300));
        assert_eq!(inflow.per_1000_s(), None, "it begins anew");
        look(&mut inflow, 0, 5, began + Duration::from_secs(310));
        assert_eq!(inflow.per_1000_s(), Some(500));
    }
}
