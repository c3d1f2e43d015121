//! What a role is given to live by: the request to stop, and its registration under `/components`.

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

/// Longest wait for ZooKeeper to store a state. The role serves and drains without it, and the registration is
/// corrected as soon as ZooKeeper answers again.
const STATE_PATIENCE: Duration = Duration::from_secs(1);

/// A role's access to its host. Created by the [`Host`](super::Host).
pub struct Life {
    kind: &'static str,
    events: mpsc::Sender<Event>,
    stop: watch::Receiver<bool>,
    /// What `menagerie status` shows, or will show as soon as the role has joined and ZooKeeper answers.
    state: watch::Sender<ComponentState>,
    /// `None` before it has joined and after it has left. Locked while a state is stored, so that states are stored in order.
    member: Mutex<Option<Member>>,
}

/// Stops a role that handles its own signals.
#[derive(Clone)]
pub struct Stopper(pub(super) watch::Sender<bool>);

impl Stopper {
    /// Tells the role to stop.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}

impl Life {
    pub(super) fn new(kind: &'static str, events: mpsc::Sender<Event>, stop: watch::Receiver<bool>) -> Self {
        Self { kind, events, stop, state: watch::Sender::default(), member: Mutex::default() }
    }

    /// Registers the role with these details and its current state. A role that cannot be registered serves all the
    /// same: `menagerie status` does not list it, and the log says why.
    pub async fn join(&self, session: &Session, details: Map<String, Value>) {
        let (kind, host) = match (Name::new(self.kind), Name::new(this_host())) {
            (Ok(kind), Ok(host)) => (kind, host),
            (Err(error), _) | (_, Err(error)) => {
                return warn!(%error, role = self.kind, "`menagerie status` does not list this role");
            }
        };
        let mut component = Component::new(&host, env!("CARGO_PKG_VERSION"));
        component.details = details;
        let mut member = self.member.lock().await;
        component.state = self.state.borrow().clone();
        let stored = component.state.clone();
        let joined = tokio::select! {
            joined = Member::join(session, &kind, component) => joined,
            () = self.stopping() => return,
        };
        match joined {
            Ok(joined) => {
                *member = Some(joined);
                drop(member);
                let state = self.state.borrow().clone();
                // It may have changed while ZooKeeper was silent.
                if state != stored {
                    self.publish(state).await;
                }
            }
            Err(error) => {
                warn!(error = %whole(&error), role = self.kind, "`menagerie status` does not list this role");
            }
        }
    }

    /// The role serves: publishes `running` and prints the ready line.
    pub async fn ready(&self, ready: Ready) {
        self.publish(ComponentState::Running).await;
        // Nobody receives it only when the process is ending anyway.
        let _ = self.events.send(Event::Ready(ready));
    }

    /// Waits until the role is told to stop.
    pub async fn stopping(&self) {
        self.stop_signal().await;
    }

    /// The same as a future that outlives this borrow.
    pub fn stop_signal(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut stop = self.stop.clone();
        async move {
            // If the host is gone, nobody needs the role any more.
            let _ = stop.wait_for(|stop| *stop).await;
        }
    }

    /// Publishes that the role takes no new work and finishes what is in flight.
    pub async fn draining(&self) {
        self.publish(ComponentState::Paused).await;
    }

    /// Works until told to stop, then drains: the work, which watches [`stop_signal`](Self::stop_signal), may finish
    /// within `limit`. `None` if it did not.
    pub async fn drain<T>(&self, limit: Duration, work: impl Future<Output = T>) -> Option<T> {
        tokio::pin!(work);
        tokio::select! {
            done = &mut work => return Some(done),
            () = self.stopping() => {}
        }
        let drained = async { tokio::join!(self.draining(), work).1 };
        timeout(limit, drained).await.ok()
    }

    /// Publishes that the role has stopped, and removes its registration.
    pub async fn leave(&self) {
        self.publish(ComponentState::Stopped).await;
        let leave = async {
            if let Some(member) = self.member.lock().await.take() {
                // The end of the session removes it, too.
                let _ = member.leave().await;
            }
        };
        let _ = timeout(STATE_PATIENCE, leave).await;
    }

    async fn publish(&self, state: ComponentState) {
        self.state.send_replace(state.clone());
        let store = async {
            match &*self.member.lock().await {
                Some(member) => member.set_state(state).await,
                None => Ok(()),
            }
        };
        if let Ok(Err(error)) = timeout(STATE_PATIENCE, store).await {
            warn!(error = %whole(&error), role = self.kind, "the state that `menagerie status` shows is out of date");
        }
    }
}
