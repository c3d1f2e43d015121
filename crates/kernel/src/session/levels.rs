//! What a term is told about itself by its supervisor: levels that can be looked at and awaited.

use std::time::Duration;

use tokio::sync::watch;

use super::lease::LeaseClock;
use super::term::State;
use crate::clock::Moment;

/// The supervisor's side.
pub struct Announced {
    state: watch::Sender<State>,
    timeout: watch::Sender<Duration>,
    valid_until: watch::Sender<Moment>,
    trusted_until: watch::Sender<Moment>,
    is_lapsed: watch::Sender<bool>,
}

/// The term's side.
pub struct Seen {
    /// How the session is doing.
    pub state: watch::Receiver<State>,
    /// The time-out that the lease is counted by.
    pub timeout: watch::Receiver<Duration>,
    /// The end of the lease.
    pub valid_until: watch::Receiver<Moment>,
    /// Until when something new may be begun.
    pub trusted_until: watch::Receiver<Moment>,
    /// Whether the lease has run out: changes when that does, and not with every heartbeat, so that thousands can wait.
    pub is_lapsed: watch::Receiver<bool>,
}

/// Both sides of a term that begins.
pub fn levels(clock: &LeaseClock) -> (Announced, Seen) {
    let (state, state_seen) = watch::channel(State::Connected);
    let (timeout, timeout_seen) = watch::channel(clock.timeout());
    let (valid_until, valid_until_seen) = watch::channel(clock.valid_until());
    let (trusted_until, trusted_until_seen) = watch::channel(clock.trusted_until());
    let (is_lapsed, is_lapsed_seen) = watch::channel(false);
    let announced = Announced { state, timeout, valid_until, trusted_until, is_lapsed };
    let seen = Seen {
        state: state_seen,
        timeout: timeout_seen,
        valid_until: valid_until_seen,
        trusted_until: trusted_until_seen,
        is_lapsed: is_lapsed_seen,
    };
    (announced, seen)
}

impl Announced {
    /// How the session is doing.
    pub fn say_state(&self, state: State) {
        self.state.send_replace(state);
    }

    /// What the lease clock says. Tells whether the lease has run out.
    pub fn say_lease(&self, clock: &LeaseClock, now: Moment) -> bool {
        let is_lapsed = clock.valid_until() <= now;
        // First what allows less, so that nobody begins something by half of the news.
        say(&self.timeout, clock.timeout());
        say(&self.trusted_until, clock.trusted_until());
        if is_lapsed {
            say(&self.valid_until, clock.valid_until());
            say(&self.is_lapsed, true);
        } else {
            // Who finds the lease valid must not find it lapsed in the next moment.
            say(&self.is_lapsed, false);
            say(&self.valid_until, clock.valid_until());
        }
        is_lapsed
    }
}

/// Wakes nobody if nothing is new.
fn say<T: PartialEq>(level: &watch::Sender<T>, value: T) {
    level.send_if_modified(|level| {
        let is_new = *level != value;
        *level = value;
        is_new
    });
}
