//! The lease clock: until when we may believe that what a session holds is still ours.
//!
//! The server counts a session's silence from what *it* heard; we count from when we *sent* it, which is earlier. A
//! follower that is cut off from its leader still answers for a while, but tells the leader nothing; so only a heartbeat
//! that was followed by another answered one is known to have arrived.

use std::time::{Duration, Instant};

/// Clocks of two machines do not run at the same speed, and a signal takes a moment to act.
const SLACK_MIN: Duration = Duration::from_millis(50);

/// Fed with heartbeats, it knows the end of the lease. Pure: it reads no clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseClock {
    timeout: Duration,
    /// When the last answered heartbeat, and the one before, were handed over.
    last: Instant,
    before: Instant,
}

impl LeaseClock {
    /// A session that was asked for at `asked`, and granted `timeout`. Opening it was a write of the leader's.
    pub fn new(asked: Instant, timeout: Duration) -> Self {
        Self { timeout, last: asked, before: asked }
    }

    /// A heartbeat that was handed over at `sent` is answered.
    pub fn answered(&mut self, sent: Instant) {
        self.before = self.last;
        self.last = self.last.max(sent);
    }

    /// Until then nobody else can have been given what this session holds.
    pub fn valid_until(&self) -> Instant {
        self.before + self.timeout.saturating_sub(slack(self.timeout))
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
        let asked = Instant::now();
        let at = |s| asked + Duration::from_secs(s);
        let mut clock = LeaseClock::new(asked, TIMEOUT);
        assert_eq!(clock.valid_until(), asked + TIMEOUT - SLACK);
        clock.answered(at(5));
        assert_eq!(clock.valid_until(), asked + TIMEOUT - SLACK, "one answer proves nothing yet");
        clock.answered(at(10));
        assert_eq!(clock.valid_until(), at(5) + TIMEOUT - SLACK);
    }

    #[test]
    fn lease_never_goes_back() {
        let asked = Instant::now();
        let mut clock = LeaseClock::new(asked, TIMEOUT);
        let mut until = clock.valid_until();
        for s in [3, 1, 7, 7, 2] {
            clock.answered(asked + Duration::from_secs(s));
            assert!(clock.valid_until() >= until);
            until = clock.valid_until();
        }
    }
}
