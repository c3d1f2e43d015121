//! The lease clock: until when we may believe that what a session holds is still ours.
//!
//! The server counts a session's silence from what *it* heard; we count from when we *sent* it, which is earlier. A
//! follower that is cut off from its leader still answers for a while, but tells the leader nothing; so only a heartbeat
//! that was followed by another answered one is known to have arrived.

use std::time::Duration;

use crate::clock::Moment;

/// Clocks of two machines do not run at the same speed, and a signal takes a moment to act.
const SLACK_MIN: Duration = Duration::from_millis(50);

/// Fed with heartbeats, it knows the end of the lease. Pure: it reads no clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseClock {
    timeout: Duration,
    /// When the last answered heartbeat, and the one before, were handed over.
    last: Moment,
    before: Moment,
}

impl LeaseClock {
    /// A session that was asked for at `asked`, and granted `timeout`. Opening it was a write of the leader's.
    pub fn new(asked: Moment, timeout: Duration) -> Self {
        Self { timeout, last: asked, before: asked }
    }

    /// A heartbeat that was handed over at `sent` is answered.
    pub fn answered(&mut self, sent: Moment) {
        self.before = self.last;
        self.last = self.last.max(sent);
    }

    /// What was granted.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Until then nobody else can have been given what this session holds.
    pub fn valid_until(&self) -> Moment {
        self.before + self.timeout.saturating_sub(slack(self.timeout))
    }

    /// Until then something new may be begun: it keeps its lease, as long as heartbeats are answered. Not after a gap: the
    /// lease counts from before it until the next heartbeat, and what was begun then would have to stop at once. Programs
    /// are told to end a quarter of the time-out before their lease does, so more than that must be left at every time.
    pub fn trusted_until(&self) -> Moment {
        let gap = self.last - self.before;
        if gap > self.timeout * 3 / 8 {
            return self.before;
        }
        self.valid_until() - self.timeout * 3 / 10
    }

    /// How often heartbeats are due.
    pub fn interval(&self) -> Duration {
        self.timeout / 4
    }
}

fn slack(timeout: Duration) -> Duration {
    (timeout / 20).max(SLACK_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(20);
    const SLACK: Duration = Duration::from_secs(1);

    #[test]
    fn lease_counts_from_the_last_but_one_answered_heartbeat() {
        let asked = Moment::now();
        let at = |s| asked + Duration::from_secs(s);
        let mut clock = LeaseClock::new(asked, TIMEOUT);
        assert_eq!(clock.valid_until(), asked + TIMEOUT - SLACK);
        clock.answered(at(5));
        assert_eq!(clock.valid_until(), asked + TIMEOUT - SLACK, "one answer proves nothing yet");
        clock.answered(at(10));
        assert_eq!(clock.valid_until(), at(5) + TIMEOUT - SLACK);
    }

    #[test]
    fn nothing_is_begun_after_a_gap_before_the_lease_counts_from_behind_it() {
        let asked = Moment::now();
        let at = |quarters: u32| asked + TIMEOUT * quarters / 4;
        let mut clock = LeaseClock::new(asked, TIMEOUT);
        for quarter in 0..3 {
            clock.answered(at(quarter));
            let late = at(quarter + 1) + TIMEOUT / 20;
            assert!(clock.trusted_until() > late, "one that is kept up is trusted all the time");
        }
        // Silence for half a time-out. The session has survived, and so has the lease: but not for long.
        clock.answered(at(4));
        assert!(clock.valid_until() > at(5) && clock.trusted_until() < at(4));
        clock.answered(at(5));
        assert!(clock.trusted_until() > at(6));
    }

    #[test]
    fn lease_never_goes_back() {
        let asked = Moment::now();
        let mut clock = LeaseClock::new(asked, TIMEOUT);
        let mut until = clock.valid_until();
        for s in [3, 1, 7, 7, 2] {
            clock.answered(asked + Duration::from_secs(s));
            assert!(clock.valid_until() >= until);
            until = clock.valid_until();
        }
    }
}
