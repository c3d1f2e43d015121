//! What a role lives by: whether it is asked to stop, and its entry under `/components`.

use std::sync::mpsc;
use std::time::Duration;

use menagerie_kernel::recipes::membership::Member;
use menagerie_kernel::{Session, whole};
use menagerie_znodes::Name;
use menagerie_znodes::components::{Component, ComponentState};
use serde_json::{Map, Value};
use tokio::sync::{Mutex, watch};
use tokio::time::timeout;
use tracing::warn;

use super::Ready;
use super::host::Event;
use crate::who::this_host;

/// Wait at most this long for ZooKeeper to store a state: the role serves and drains without it, too, and the entry is
/// corrected as soon as ZooKeeper answers again.
const STATE_PATIENCE: Duration = Duration::from_secs(1);

/// One role's view of its own life. Made by the [`Host`](super::Host).
pub struct Life {
    kind: &'static str,
    events: mpsc::Sender<Event>,
    stop: watch::Receiver<bool>,
    /// Locked while a state is stored, so that states are stored in order.
    entry: Mutex<Entry>,
}

/// What `menagerie status` shows, or will show once the role has joined.
#[derive(Default)]
struct Entry {
    state: ComponentState,
    /// `None` before it has joined and after it has left.
    member: Option<Member>,
}

/// Stops a role that listens for its own signals.
#[derive(Clone)]
pub struct Stopper(pub(super) watch::Sender<bool>);

impl Stopper {
    /// From here on the role is asked to stop.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}

impl Life {
    pub(super) fn new(kind: &'static str, events: mpsc::Sender<Event>, stop: watch::Receiver<bool>) -> Self {
        Self { kind, events, stop, entry: Mutex::default() }
    }

    /// Registers, with these details and the state that it is in. A role that cannot be registered serves all the same:
    /// `menagerie status` does not list it, and the log says why.
    pub async fn join(&self, session: &Session, details: Map<String, Value>) {
        let (kind, host) = match (Name::new(self.kind), Name::new(this_host())) {
            (Ok(kind), Ok(host)) => (kind, host),
            (Err(error), _) | (_, Err(error)) => {
                return warn!(%error, role = self.kind, "`menagerie status` does not list this role");
            }
        };
        let mut component = Component::new(&host, env!("CARGO_PKG_VERSION"));
        component.details = details;
        let mut entry = self.entry.lock().await;
        component.state = entry.state.clone();
        let joined = tokio::select! {
            joined = Member::join(session, &kind, component) => joined,
            () = self.stopping() => return,
        };
        match joined {
            Ok(member) => entry.member = Some(member),
            Err(error) => {
                warn!(error = %whole(&error), role = self.kind, "`menagerie status` does not list this role");
            }
        }
    }

    /// It serves: from here on it is `running`, and its ready line is printed.
    pub async fn ready(&self, ready: Ready) {
        self.publish(ComponentState::Running).await;
        // The host waits for it as long as the process lives.
        let _ = self.events.send(Event::Ready(ready));
    }

    /// Waits until the role is asked to stop.
    pub async fn stopping(&self) {
        self.stop_signal().await;
    }

    /// The same, for others to wait for.
    pub fn stop_signal(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut stop = self.stop.clone();
        async move {
            // Without a host, nobody needs the role any more.
            let _ = stop.wait_for(|stop| *stop).await;
        }
    }

    /// It takes no new work from here on, and finishes what it has begun.
    pub async fn draining(&self) {
        self.publish(ComponentState::Paused).await;
    }

    /// Works until it is asked to stop, then lets the work end by itself (it watches [`stop_signal`](Self::stop_signal)),
    /// but not for longer than `limit`. `None` if it was cut off then.
    pub async fn drain<T>(&self, limit: Duration, work: impl Future<Output = T>) -> Option<T> {
        tokio::pin!(work);
        tokio::select! {
            done = &mut work => return Some(done),
            () = self.stopping() => {}
        }
        let drained = async { tokio::join!(self.draining(), work).1 };
        timeout(limit, drained).await.ok()
    }

    /// It has stopped: is listed no more.
    pub async fn leave(&self) {
        self.publish(ComponentState::Stopped).await;
        if let Some(member) = self.entry.lock().await.member.take() {
            // Else the end of the session removes the entry.
            let _ = timeout(STATE_PATIENCE, member.leave()).await;
        }
    }

    async fn publish(&self, state: ComponentState) {
        let mut entry = self.entry.lock().await;
        entry.state = state.clone();
        if let Some(member) = &entry.member
            && let Ok(Err(error)) = timeout(STATE_PATIENCE, member.set_state(state)).await
        {
            warn!(error = %whole(&error), role = self.kind, "the state that `menagerie status` shows is out of date");
        }
    }
}
