//! Drives one term: follows the client's state, sends heartbeats, and publishes when the lease ends.

use std::pin::Pin;
use std::sync::Weak;
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::sync::watch;
use tracing::warn;
use zookeeper_client::{Client, SessionState, StateWatcher};

use super::config::{Config, Rights};
use super::lease::{Granted, LeaseClock};
use super::levels::LevelSenders;
use super::probe;
use super::term::State;
use crate::clock::{Moment, Timer};

/// The state of a term's loop.
pub struct TermDriver {
    /// Weak, because the ZooKeeper session ends when all others have dropped the client.
    client: Weak<Client>,
    watcher: StateWatcher,
    levels: LevelSenders,
    clock: LeaseClock,
    /// For the next heartbeat and the end of the lease. A timer of tokio would stand still while the machine is
    /// suspended.
    timer: Timer,
    is_connected: bool,
    /// When the last change of the client's state was seen.
    changed_at: Moment,
    next_beat: Moment,
}

/// Why the driver of a term has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The ZooKeeper session is over.
    Over,
    /// The session may live, but there is no way to find out its time-out.
    Forfeited,
}

/// A request to the servers; at most one is in flight.
type Request = Pin<Box<dyn Future<Output = Reply> + Send>>;

enum Reply {
    /// The server answered the heartbeat that was sent at this moment.
    Beat(Moment),
    /// The heartbeat failed.
    NoBeat,
    Granted(Granted),
}

impl TermDriver {
    /// For a session that was just opened.
    pub fn new(
        client: Weak<Client>,
        watcher: StateWatcher,
        levels: LevelSenders,
        clock: LeaseClock,
        timer: Timer,
    ) -> Self {
        let now = Moment::now();
        let (is_connected, changed_at, next_beat) = (true, now, now);
        Self { client, watcher, levels, clock, timer, is_connected, changed_at, next_beat }
    }

    /// Runs until the session is over or must be given up.
    pub async fn serve(&mut self, config: &Config, session_state: &watch::Sender<State>) -> Ending {
        let mut in_flight = None;
        loop {
            let now = Moment::now();
            self.clock.check(now);
            let is_lapsed = self.levels.publish_lease(&self.clock, now);
            if self.clock.is_forfeited() {
                warn!("cannot find out the granted session time-out; giving up this session");
                // Work under the lease stops now. Closing the session lets others in, so leave as much time as between
                // the end of a lease and the end of its session.
                tokio::time::sleep(self.clock.slack()).await;
                return Ending::Forfeited;
            }
            // Observers have no lease to renew.
            let may_ask = config.rights == Rights::Owner && self.is_connected;
            if may_ask && in_flight.is_none() {
                in_flight = self.next_request(config);
            }
            let lease_ends = if is_lapsed { Moment::NEVER } else { self.clock.valid_until() };
            let next_beat = if may_ask && in_flight.is_none() { self.next_beat } else { Moment::NEVER };
            let wake_at = lease_ends.min(next_beat).min(self.clock.decide_by());
            let mut changed = None;
            tokio::select! {
                biased;
                state = self.watcher.changed() => changed = Some(state),
                reply = reply_to(&mut in_flight) => {
                    in_flight = None;
                    // The client publishes its state before it passes on replies. If the state has changed, the reply
                    // may have come over a connection that we do not know yet, and must not extend the lease.
                    changed = self.watcher.changed().now_or_never();
                    if changed.is_none() {
                        self.on_reply(&reply);
                    }
                }
                () = self.timer.wait_until(wake_at) => {}
            }
            if let Some(client_state) = changed {
                in_flight = None;
                let Some(state) = self.on_client_state(client_state, config.rights) else {
                    return Ending::Over;
                };
                // Before the state, so that nobody who learns of the connection finds an expired lease valid.
                self.levels.publish_lease(&self.clock, Moment::now());
                self.levels.publish_state(state);
                session_state.send_replace(state);
            }
        }
    }

    /// The request that is due, if any.
    fn next_request(&self, config: &Config) -> Option<Request> {
        if !self.clock.is_granted() {
            let (config, timeout) = (config.clone(), self.clock.timeout());
            let is_urgent = self.clock.decide_by() != Moment::NEVER;
            let delay = if is_urgent { Duration::ZERO } else { probe::random_delay(timeout) };
            return Some(Box::pin(async move {
                tokio::time::sleep(delay).await;
                Reply::Granted(probe::granted(&config, timeout).await)
            }));
        }
        self.next_beat.has_passed().then(|| beat(self.client.clone()))
    }

    /// Maps the client's state to ours; `None` when the session is over.
    fn on_client_state(&mut self, client_state: SessionState, rights: Rights) -> Option<State> {
        let now = Moment::now();
        let last_change = std::mem::replace(&mut self.changed_at, now);
        match client_state {
            SessionState::SyncConnected | SessionState::ConnectedReadOnly => {
                self.is_connected = true;
                self.next_beat = now;
                if rights == Rights::Owner {
                    self.clock.reconnected(now);
                }
                Some(State::Connected)
            }
            SessionState::Disconnected => {
                // The client reports only changes, and only the last of several. So there was a connection in between,
                // at some time since the loss that we saw.
                if !self.is_connected && rights == Rights::Owner {
                    self.clock.reconnected(last_change);
                }
                self.is_connected = false;
                self.clock.disconnected();
                Some(State::Suspended)
            }
            SessionState::AuthFailed | SessionState::Expired | SessionState::Closed => None,
        }
    }

    fn on_reply(&mut self, reply: &Reply) {
        match reply {
            Reply::Beat(sent) => {
                self.clock.answered(*sent);
                self.next_beat = *sent + self.clock.interval();
            }
            // The client's state will show what is wrong.
            Reply::NoBeat => self.next_beat = Moment::after(self.clock.interval() / 4),
            Reply::Granted(granted) => {
                let before = self.clock.timeout();
                self.clock.granted(*granted);
                let now = self.clock.timeout();
                if now < before {
                    let (before_ms, now_ms) = (before.as_millis(), now.as_millis());
                    warn!(before_ms, now_ms, "the server grants a shorter session time-out than before");
                }
            }
        }
    }

    /// Publishes that the session is over.
    pub fn leave(&self, session_state: &watch::Sender<State>) {
        self.levels.publish_state(State::Lost);
        session_state.send_replace(State::Lost);
    }
}

/// The reply to the request in flight; never resolves if there is none.
async fn reply_to(in_flight: &mut Option<Request>) -> Reply {
    match in_flight {
        Some(request) => request.await,
        None => std::future::pending().await,
    }
}

/// A heartbeat is a multi, so that a follower cannot answer it without its leader. It checks that our root exists, and
/// changes nothing.
fn beat(client: Weak<Client>) -> Request {
    Box::pin(async move {
        let sent = Moment::now();
        let Some(client) = client.upgrade() else { return Reply::NoBeat };
        let mut write = client.new_multi_writer();
        let is_answered = write.add_check_version("/", -1).is_ok() && write.commit().await.is_ok();
        if is_answered { Reply::Beat(sent) } else { Reply::NoBeat }
    })
}
