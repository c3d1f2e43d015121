//! The lease clock: until when we may believe that what a session holds is still ours.
//!
//! The server counts a session's silence from what *it* heard; we count from when we *sent* it, which is earlier. A
//! follower that is cut off from its leader still answers for a while, but tells the leader nothing; so only a heartbeat
//! that was followed by another answered one is known to have arrived.
//!
//! A server may grant a session a shorter time-out when it reconnects: the server was restarted with other settings, or the
//! session came to another server of the ensemble. Until the new time-out is known, heartbeats prolong nothing.

use std::time::Duration;

use crate::clock::Moment;

/// No server is expected to grant less. So for that long after a reconnect, not knowing what was granted is harmless, and a
/// connection that is lost several times in a row ends no lease.
const GRANT_MIN: Duration = Duration::from_secs(2);

/// Clocks of two machines do not run at the same speed, and a signal takes a moment to act.
const SLACK_MIN: Duration = Duration::from_millis(50);

/// What servers grant to a session that asks for the time-out that ours has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Granted {
    /// The least of their answers.
    pub least: Duration,
    /// All of them have answered.
    pub by_all: bool,
}

/// Fed with heartbeats, it knows the end of the lease. Pure: it reads no clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseClock {
    timeout: Duration,
    /// When the last answered heartbeat, and the one before, were handed over.
    last: Moment,
    before: Moment,
    grant: Grant,
}

/// What is known of the time-out that came with the current connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Grant {
    /// At least what we count by.
    Known,
    /// Reconnected, and not known yet.
    Unknown { since: Moment },
    /// That connection was lost before its time-out was known. With the next one the client asks for that time-out, which
    /// some server has granted, but we do not know which.
    Missed { since: Moment },
    /// The same, for too long.
    Overdue,
    /// Impossible to find out.
    Forfeited,
}

impl LeaseClock {
    /// A session that was asked for at `asked`, and granted `timeout`. Opening it was a write of the leader's.
    pub fn new(asked: Moment, timeout: Duration) -> Self {
        Self { timeout, last: asked, before: asked, grant: Grant::Known }
    }

    /// A heartbeat that was handed over at `sent` is answered.
    pub fn answered(&mut self, sent: Moment) {
        if self.grant == Grant::Known {
            self.before = self.last;
            self.last = self.last.max(sent);
        }
    }

    /// The connection is lost.
    pub fn disconnected(&mut self) {
        if let Grant::Unknown { since } = self.grant {
            self.grant = Grant::Missed { since };
        }
    }

    /// There is a new connection.
    pub fn reconnected(&mut self, now: Moment) {
        self.grant = match self.grant {
            Grant::Known => Grant::Unknown { since: now },
            // Connected twice in a row: the connection in between was lost unnoticed.
            Grant::Unknown { since } => Grant::Missed { since },
            same @ (Grant::Missed { .. } | Grant::Overdue | Grant::Forfeited) => same,
        };
    }

    /// When [`check`](Self::check) is due, if not before.
    pub fn decide_by(&self) -> Moment {
        match self.grant {
            Grant::Missed { since } => since + GRANT_MIN,
            Grant::Known | Grant::Unknown { .. } | Grant::Overdue | Grant::Forfeited => Moment::NEVER,
        }
    }

    /// Ends the lease if the time-out has been unknown for too long after a connection was lost.
    pub fn check(&mut self, now: Moment) {
        if matches!(self.grant, Grant::Missed { .. }) && self.decide_by() <= now {
            self.grant = Grant::Overdue;
        }
    }

    /// The servers have told what they grant. If it is less than before, the end of the lease goes back. If it is more,
    /// nothing changes: counting too little is safe.
    pub fn granted(&mut self, Granted { least, by_all }: Granted) {
        match self.grant {
            // The server whose time-out was missed may be one that has not answered.
            Grant::Missed { .. } | Grant::Overdue if !by_all => self.grant = Grant::Forfeited,
            Grant::Unknown { .. } | Grant::Missed { .. } | Grant::Overdue => {
                self.timeout = self.timeout.min(least);
                self.grant = Grant::Known;
            }
            Grant::Known | Grant::Forfeited => {}
        }
    }

    /// Whether heartbeats prolong the lease.
    pub fn is_granted(&self) -> bool {
        self.grant == Grant::Known
    }

    /// Whether the lease is over for good.
    pub fn is_forfeited(&self) -> bool {
        self.grant == Grant::Forfeited
    }

    /// The shortest time-out that was granted so far; the lease is counted by it.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Until then nobody else can have been given what this session holds. It goes back when less is granted than before.
    pub fn valid_until(&self) -> Moment {
        let until = self.before + self.timeout.saturating_sub(self.slack());
        match self.grant {
            Grant::Known => until,
            // The old time-out is assumed for half of its length: programs are told to end a quarter before the lease does,
            // so finding out may take another quarter before any program is stopped needlessly.
            Grant::Unknown { since } | Grant::Missed { since } => until.min(since + self.timeout / 2),
            Grant::Overdue | Grant::Forfeited => Moment::PAST,
        }
    }

    /// Until then something new may be begun: it keeps its lease, as long as heartbeats are answered. Not after a gap: the
    /// lease counts from before it until the next heartbeat, and what was begun then would have to stop at once. Programs
    /// are told to end a quarter of the time-out before their lease does, so more than that must be left at every time.
    pub fn trusted_until(&self) -> Moment {
        if self.grant != Grant::Known {
            return Moment::PAST;
        }
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

    /// How much earlier than the session the lease ends.
    pub fn slack(&self) -> Duration {
        (self.timeout / 20).max(SLACK_MIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(20);
    const SLACK: Duration = Duration::from_secs(1);

    fn by_all(least: Duration) -> Granted {
        Granted { least, by_all: true }
    }

    fn by_some(least: Duration) -> Granted {
        Granted { least, by_all: false }
    }

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
    fn smaller_grant_takes_the_end_of_the_lease_back_and_a_larger_one_does_not_move_it() {
        let asked = Moment::now();
        let at = |s| asked + Duration::from_secs(s);
        let mut clock = LeaseClock::new(asked, TIMEOUT);
        clock.answered(at(5));
        clock.answered(at(10));
        clock.reconnected(at(11));
        clock.granted(by_all(TIMEOUT * 2));
        assert_eq!((clock.timeout(), clock.valid_until()), (TIMEOUT, at(5) + TIMEOUT - SLACK));
        clock.reconnected(at(12));
        clock.granted(by_some(TIMEOUT / 2));
        assert_eq!((clock.timeout(), clock.interval()), (TIMEOUT / 2, TIMEOUT / 8));
        assert_eq!(clock.valid_until(), at(5) + (TIMEOUT - SLACK) / 2);
        clock.answered(at(13));
        clock.answered(at(14));
        assert_eq!(clock.valid_until(), at(13) + (TIMEOUT - SLACK) / 2, "and it goes on by the new one");
    }

    #[test]
    fn lease_that_is_over_by_a_smaller_grant_comes_back_with_two_heartbeats() {
        let asked = Moment::now();
        let at = |s| asked + Duration::from_secs(s);
        let mut clock = LeaseClock::new(asked, TIMEOUT);
        clock.answered(at(5));
        clock.answered(at(10));
        clock.reconnected(at(12));
        clock.granted(by_all(TIMEOUT / 5));
        assert!(clock.valid_until() < at(12));
        clock.answered(at(12));
        assert!(clock.valid_until() < at(14) && clock.trusted_until() < at(12), "one proves nothing yet");
        clock.answered(at(13));
        assert!(clock.valid_until() > at(15) && clock.trusted_until() > at(13));
    }

    #[test]
    fn nothing_prolongs_the_lease_before_the_grant_is_known() {
        let asked = Moment::now();
        let at = |s| asked + Duration::from_secs(s);
        let mut clock = LeaseClock::new(asked, TIMEOUT);
        clock.answered(at(5));
        clock.answered(at(10));
        let until = clock.valid_until();
        clock.disconnected();
        assert_eq!(clock.valid_until(), until, "a lost connection takes nothing away");
        clock.reconnected(at(11));
        for s in 11..20 {
            clock.answered(at(s));
            assert_eq!((clock.valid_until(), clock.trusted_until()), (at(11) + TIMEOUT / 2, Moment::PAST));
        }
        clock.granted(by_some(TIMEOUT));
        assert_eq!(clock.valid_until(), until, "what was answered meanwhile does not count");
        clock.reconnected(at(21));
        assert_eq!(clock.valid_until(), until, "nor does half a time-out from a late reconnect");
    }

    #[test]
    fn lease_ends_when_its_grant_is_unknown_for_too_long_after_the_connection_was_lost() {
        let asked = Moment::now();
        let mut lost = LeaseClock::new(asked, TIMEOUT);
        lost.reconnected(asked);
        lost.check(Moment::NEVER);
        assert_eq!(lost.decide_by(), Moment::NEVER, "while it is connected, there is time");
        let mut unnoticed = lost;
        lost.disconnected();
        unnoticed.reconnected(asked + GRANT_MIN / 2);
        for mut clock in [lost, unnoticed] {
            assert_eq!(clock.decide_by(), asked + GRANT_MIN);
            clock.check(asked + GRANT_MIN / 2);
            assert_eq!((clock.valid_until(), clock.trusted_until()), (asked + TIMEOUT / 2, Moment::PAST));
            clock.check(asked + GRANT_MIN);
            clock.answered(asked + GRANT_MIN);
            assert_eq!((clock.valid_until(), clock.trusted_until()), (Moment::PAST, Moment::PAST));
            clock.reconnected(asked + GRANT_MIN);
            assert_eq!(clock.valid_until(), Moment::PAST);
        }
    }

    #[test]
    fn missed_grant_is_known_when_all_servers_have_told_and_forfeited_when_they_have_not() {
        let asked = Moment::now();
        let mut missed = LeaseClock::new(asked, TIMEOUT);
        let until = missed.valid_until();
        missed.reconnected(asked);
        missed.disconnected();
        missed.reconnected(asked);
        let mut overdue = missed;
        overdue.check(asked + GRANT_MIN);
        for clock in [missed, overdue] {
            let mut known = clock;
            known.granted(by_all(TIMEOUT));
            assert_eq!((known.is_granted(), known.valid_until()), (true, until));
            let mut forfeited = clock;
            forfeited.granted(by_some(TIMEOUT));
            assert!(forfeited.is_forfeited());
            forfeited.reconnected(asked);
            forfeited.granted(by_all(TIMEOUT));
            assert!(forfeited.is_forfeited() && forfeited.valid_until() == Moment::PAST);
        }
    }

    #[test]
    fn lease_does_not_go_back_while_the_grant_stays() {
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
