//! Serving one term: follows the client's state, sends the heartbeats of the lease clock, and says when the lease runs out.

use std::pin::Pin;
use std::sync::Weak;

use futures_util::FutureExt as _;
use tokio::sync::watch;
use zookeeper_client::{Client, SessionState, StateWatcher};

use super::config::{Config, Role};
use super::lease::LeaseClock;
use super::levels::Announced;
use super::term::State;
use crate::clock::{Moment, Timer};

/// The side of a term that only its supervisor has.
pub struct Office {
    /// Weak, because the ZooKeeper session ends when nobody else has the client any more.
    client: Weak<Client>,
    watcher: StateWatcher,
    announced: Announced,
    clock: LeaseClock,
    /// One for all who wait for the end of this lease, and for the next heartbeat. Tokio's would stand still while the
    /// machine is suspended.
    timer: Timer,
    is_connected: bool,
    next_beat: Moment,
}

/// Something that is on its way to the server.
type Errand = Pin<Box<dyn Future<Output = Came> + Send>>;

/// What came of it.
enum Came {
    /// A heartbeat that was handed over then is answered.
    Answered(Moment),
    /// A heartbeat is not.
    Silence,
}

impl Office {
    /// Of a session that was opened a moment ago.
    pub fn new(
        client: Weak<Client>,
        watcher: StateWatcher,
        announced: Announced,
        clock: LeaseClock,
        timer: Timer,
    ) -> Self {
        let next_beat = Moment::now();
        Self { client, watcher, announced, clock, timer, is_connected: true, next_beat }
    }

    /// Follows the client until its session is over.
    pub async fn serve(&mut self, config: &Config, session_state: &watch::Sender<State>) {
        let mut errand = None;
        loop {
            let is_lapsed = self.announced.say_lease(&self.clock, Moment::now());
            let beats = config.role == Role::Owner && self.is_connected;
            if beats && errand.is_none() && self.next_beat.has_passed() {
                errand = Some(beat(self.client.clone()));
            }
            let lease_ends = if is_lapsed { Moment::NEVER } else { self.clock.valid_until() };
            let next_beat = if beats && errand.is_none() { self.next_beat } else { Moment::NEVER };
            let mut changed = None;
            tokio::select! {
                biased;
                state = self.watcher.changed() => changed = Some(state),
                came = carry_out(&mut errand) => {
                    errand = None;
                    // The state is older news than the answer, and may say that another connection has brought it.
                    changed = self.watcher.changed().now_or_never();
                    if changed.is_none() {
                        self.take_note(&came);
                    }
                }
                () = self.timer.wait_until(lease_ends.min(next_beat)) => {}
            }
            if let Some(client_state) = changed {
                errand = None;
                let Some(state) = self.follow(client_state) else { return };
                self.announced.say_state(state);
                session_state.send_replace(state);
            }
        }
    }

    /// How the session is doing when the client is in this state; none when it is over.
    fn follow(&mut self, client_state: SessionState) -> Option<State> {
        match client_state {
            SessionState::SyncConnected | SessionState::ConnectedReadOnly => {
                self.is_connected = true;
                self.next_beat = Moment::now();
                Some(State::Connected)
            }
            SessionState::Disconnected => {
                self.is_connected = false;
                Some(State::Suspended)
            }
            SessionState::AuthFailed | SessionState::Expired | SessionState::Closed => None,
        }
    }

    fn take_note(&mut self, came: &Came) {
        match came {
            Came::Answered(sent) => {
                self.clock.answered(*sent);
                self.next_beat = *sent + self.clock.interval();
            }
            // The state will tell what is wrong.
            Came::Silence => self.next_beat = Moment::after(self.clock.interval() / 4),
        }
    }

    /// Says that the session is over.
    pub fn leave(&self, session_state: &watch::Sender<State>) {
        self.announced.say_state(State::Lost);
        session_state.send_replace(State::Lost);
    }
}

/// Waits for what is on its way, if anything is.
async fn carry_out(errand: &mut Option<Errand>) -> Came {
    match errand {
        Some(errand) => errand.await,
        None => std::future::pending().await,
    }
}

/// A heartbeat is a write: the follower that we talk to cannot answer it without its leader. It checks that our root exists,
/// and changes nothing.
fn beat(client: Weak<Client>) -> Errand {
    Box::pin(async move {
        let sent = Moment::now();
        let Some(client) = client.upgrade() else { return Came::Silence };
        let mut write = client.new_multi_writer();
        let answered = write.add_check_version("/", -1).is_ok() && write.commit().await.is_ok();
        if answered { Came::Answered(sent) } else { Came::Silence }
    })
}
