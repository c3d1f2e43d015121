//! The lease clock: until when nobody else can hold what our session holds.
//!
//! The server counts a session's silence from when it *received* a request; we count from when we *sent* it, which is
//! earlier. A follower that is cut off from its leader still answers for a while, but tells the leader nothing; so only
//! a heartbeat that was followed by another answered one is known to have arrived.
//!
//! A server may grant a session a shorter time-out when it reconnects: the server was restarted with other settings, or the
//! session came to another server of the ensemble. Until the new time-out is known, heartbeats prolong nothing.

use std::time::Duration;

use crate::clock::Moment;

/// The shortest time-out that we expect a server to grant. For that long after a reconnect, an unknown grant is
/// harmless, and a connection that is lost several times in a row ends no lease.
const GRANT_MIN: Duration = Duration::from_secs(2);

/// Clocks of two machines do not run at the same speed, and a signal takes a moment to act.
const SLACK_MIN: Duration = Duration::from_millis(50);

/// The time-outs that servers grant to a session that asks for ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Granted {
    /// The shortest of their answers.
    pub least: Duration,
    /// Whether all servers have answered.
    pub by_all: bool,
}

/// Computes the end of the lease from answered heartbeats. Pure: it reads no clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseClock {
    timeout: Duration,
    /// When the last answered heartbeat, and the one before, were sent.
    last: Moment,
    before: Moment,
    grant: Grant,
}

/// What we know about the time-out that the server granted with the current connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Grant {
    /// At least the one we count with.
    Known,
    /// We have reconnected, and do not know it yet.
    Unknown { since: Moment },
    /// That connection was lost before its time-out was known. With the next one the client asks for that time-out, which
    /// some server has granted, but we do not know which.
    Missed { since: Moment },
    /// Missed, for too long.
    Overdue,
    /// Impossible to find out.
    Forfeited,
}

impl LeaseClock {
    /// A session that was requested at `asked`, and granted `timeout`. The leader itself committed its opening.
    pub fn new(asked: Moment, timeout: Duration) -> Self {
        Self { timeout, last: asked, before: asked, grant: Grant::Known }
    }

    /// The server answered a heartbeat that was sent at `sent`.
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

    /// Applies the servers' answers. A shorter time-out moves the end of the lease back. A longer one changes nothing:
    /// counting too short is safe.
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

    /// The shortest time-out granted so far, which the lease counts with.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Until then nobody else can hold what this session holds. It moves back when a server grants less than before.
    pub fn valid_until(&self) -> Moment {
        let until = self.before + self.timeout.saturating_sub(self.slack());
        match self.grant {
            Grant::Known => until,
            // We assume the old time-out for half of its length: programs get SIGTERM a quarter before the lease ends,
            // so finding out may take another quarter before any program is stopped needlessly.
            Grant::Unknown { since } | Grant::Missed { since } => until.min(since + self.timeout / 2),
            Grant::Overdue | Grant::Forfeited => Moment::PAST,
        }
    }

    /// Until then something new may begin under the lease. Not after a gap in the heartbeats: until the next heartbeat
    /// the lease counts from before the gap, and new work would have to stop at once. Programs get SIGTERM a quarter of
    /// the time-out before the lease ends, so more than that must always be left.
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

    /// Time between heartbeats.
    pub fn interval(&self) -> Duration {
        self.timeout / 4
    }

    /// How much earlier than the session its lease ends.
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
