//! Timed work of the server: expires sessions, sweeps idle znodes, drops half-open connections.

use tracing::{debug, info};

use super::conn::Phase;
use super::server::{Server, wall_ms};
use crate::core::ConnId;
use crate::core::sessions::Millis;

/// Time-out of the handshake: a silent connection costs a file descriptor.
const GREETING_MS: u64 = 10_000;
/// Longest sleep of the network loop, so that it notices a pause of the whole process.
const PULSE_MS: u64 = 250;
/// Waking up this much late is a pause; less is an ordinary delay of the scheduler.
const PAUSE_MS: u64 = 50;

/// Znodes swept at once.
const SWEEP_MAX: usize = 500;
/// Bytes of their paths.
const SWEEP_BYTES_MAX: usize = 1 << 20;
/// How often gauges that need a walk of the tree are updated.
const COUNT_MS: u64 = 1000;

/// Watches the clock of the network loop.
#[derive(Debug)]
pub struct Pulse {
    /// When the loop should have woken up, at the latest.
    expected: Millis,
    last_sweep: Millis,
    last_count: Millis,
}

impl Pulse {
    /// A loop that starts now.
    pub fn new(now: Millis) -> Self {
        Self { expected: now, last_sweep: now, last_count: now }
    }

    /// How long the loop may sleep.
    pub fn sleep_ms(&mut self, server: &Server, now: Millis) -> u64 {
        let mut until = now.0 + PULSE_MS.min(u64::from(server.config.tick_ms).div_ceil(2));
        if let Some(Millis(deadline)) = server.state.sessions.next_deadline()
            && !server.is_full()
        {
            until = until.min(deadline.max(now.0));
        }
        self.expected = Millis(until);
        until - now.0
    }

    /// Called when the loop woke up and has read everything: does what is due.
    pub fn beat(&mut self, server: &mut Server) {
        let now = server.now();
        let late = now.0.saturating_sub(self.expected.0);
        if late > PAUSE_MS {
            // We were stopped or starved: clients could not reach us, so their silence proves nothing.
            let sessions = server.state.sessions.forgive(late, now);
            if sessions > 0 {
                info!(ms = late, sessions, "the process was paused; sessions get their full time again");
            }
        }
        self.expected = Millis(now.0 + PULSE_MS);
        server.drop_silent(now);
        server.expire(now);
        if now.0.saturating_sub(self.last_count.0) >= COUNT_MS {
            self.last_count = now;
            server.metrics.note_counts(&server.state);
        }
        if now.0.saturating_sub(self.last_sweep.0) >= server.config.sweep_interval_ms && !server.sweep() {
            self.last_sweep = now;
        }
    }
}

impl Server {
    fn expire(&mut self, now: Millis) {
        while !self.is_full() {
            let Some(session) = self.state.sessions.pop_expired(now) else { return };
            let conn = self.state.sessions.get(session).and_then(|session| session.conn);
            if conn.is_some_and(|conn| self.may_have_spoken(conn)) {
                self.state.sessions.reschedule(session, now);
                continue;
            }
            if let Some(txn) = self.state.expire_session(session, wall_ms()) {
                info!(session = format_args!("{:#x}", session.0), "session expired");
                self.metrics.sessions_expired.inc();
                self.commit(txn, None);
            }
        }
        // The group is full. The log loop wakes us when it has taken the group; then the other sessions follow.
        self.starved |= self.state.sessions.next_deadline().is_some_and(|deadline| deadline <= now);
    }

    /// Whether this client has sent something that we have not read yet: then its silence is our fault. It is the
    /// client's own if it does not read its replies.
    fn may_have_spoken(&mut self, id: ConnId) -> bool {
        self.conn(id).is_some_and(|conn| {
            let unread = conn.queued || conn.held || conn.stream.has_unread();
            !conn.is_choked() && (unread || conn.waits_for_disk())
        })
    }

    fn drop_silent(&mut self, now: Millis) {
        while let Some((since, id)) = self.greeting.front().copied() {
            let gone = self.conn(id).is_none_or(|conn| match conn.phase {
                Phase::Greeting | Phase::Closing => false,
                Phase::Opening | Phase::Open => true,
            });
            if !gone && now.0 < since.0 + GREETING_MS {
                return;
            }
            self.greeting.pop_front();
            if !gone {
                debug!(conn = id.0, "connection dropped: no handshake in time");
                self.close(id);
            }
        }
    }

    /// Removes empty containers and expired znodes, a few at a time, so that nobody has to wait for it. Returns whether
    /// there may be more.
    fn sweep(&mut self) -> bool {
        let time_ms = wall_ms();
        if self.is_full() {
            return true;
        }
        let idle = self.state.idle(time_ms, SWEEP_MAX, SWEEP_BYTES_MAX);
        let bytes: usize = idle.iter().map(|path| path.len()).sum();
        let more = idle.len() == SWEEP_MAX || bytes >= SWEEP_BYTES_MAX;
        for path in idle {
            if let Some(txn) = self.state.sweep_one(&path, time_ms) {
                debug!(%path, "idle znode swept");
                self.commit(txn, None);
            }
        }
        more
    }
}
