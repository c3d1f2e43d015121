//! What a term's driver publishes about it, as watchable values.

use std::time::Duration;

use tokio::sync::watch;

use super::lease::LeaseClock;
use super::term::State;
use crate::clock::Moment;

/// The driver's side.
pub struct LevelSenders {
    state: watch::Sender<State>,
    timeout: watch::Sender<Duration>,
    valid_until: watch::Sender<Moment>,
    trusted_until: watch::Sender<Moment>,
    is_lapsed: watch::Sender<bool>,
}

/// The term's side.
pub struct LevelReceivers {
    pub state: watch::Receiver<State>,
    /// The session time-out that the lease counts with.
    pub timeout: watch::Receiver<Duration>,
    /// The end of the lease.
    pub valid_until: watch::Receiver<Moment>,
    /// Until when something new may begin.
    pub trusted_until: watch::Receiver<Moment>,
    /// Whether the lease has ended. A separate value, because `valid_until` changes with every heartbeat and would wake
    /// thousands of waiters each time.
    pub is_lapsed: watch::Receiver<bool>,
}

/// Both sides, for a term that begins.
pub fn levels(clock: &LeaseClock) -> (LevelSenders, LevelReceivers) {
    let (state, state_seen) = watch::channel(State::Connected);
    let (timeout, timeout_seen) = watch::channel(clock.timeout());
    let (valid_until, valid_until_seen) = watch::channel(clock.valid_until());
    let (trusted_until, trusted_until_seen) = watch::channel(clock.trusted_until());
    let (is_lapsed, is_lapsed_seen) = watch::channel(false);
    let levels = LevelSenders { state, timeout, valid_until, trusted_until, is_lapsed };
    let seen = LevelReceivers {
        state: state_seen,
        timeout: timeout_seen,
        valid_until: valid_until_seen,
        trusted_until: trusted_until_seen,
        is_lapsed: is_lapsed_seen,
    };
    (levels, seen)
}

impl LevelSenders {
    pub fn publish_state(&self, state: State) {
        self.state.send_replace(state);
    }

    /// Publishes what the lease clock says, and returns whether the lease has ended.
    pub fn publish_lease(&self, clock: &LeaseClock, now: Moment) -> bool {
        let is_lapsed = clock.valid_until() <= now;
        publish(&self.timeout, clock.timeout());
        // Readers may come between two of these. In this order, a reader that finds the lease trusted finds it valid,
        // and one that finds it valid does not find it lapsed.
        if is_lapsed {
            publish(&self.trusted_until, clock.trusted_until());
            publish(&self.valid_until, clock.valid_until());
            publish(&self.is_lapsed, true);
        } else {
            publish(&self.is_lapsed, false);
            publish(&self.valid_until, clock.valid_until());
            publish(&self.trusted_until, clock.trusted_until());
        }
        is_lapsed
    }
}

/// Wakes waiters only if the value is new.
fn publish<T: PartialEq>(level: &watch::Sender<T>, value: T) {
    level.send_if_modified(|level| {
        let is_new = *level != value;
        *level = value;
        is_new
    });
}
