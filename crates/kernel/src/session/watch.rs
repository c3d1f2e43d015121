//! Watches. They tell *that* something changed, never how often: read again.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::FutureExt as _;
use zookeeper_client::{EventType, OneshotWatcher, PersistentWatcher, SessionState, WatchedEvent};

use crate::error::CallError;

/// Bytes of paths that one session may watch. After a lost connection the client asks for all its watches again; beyond
/// 128 KiB it sends several requests with one id, cannot match the second reply, and never reconnects. The margin is
/// for watches that were dropped here, but not yet in the client.
const WATCHED_BYTES_MAX: usize = 120 << 10;

/// What a watch reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// A znode was created.
    Created,
    /// A znode was deleted.
    Deleted,
    /// Its data changed.
    Data,
    /// Its children changed.
    Children,
    /// The ZooKeeper session is over: no more events follow.
    Ended,
}

/// Reports one change, once. It survives a lost connection: a change meanwhile is reported after the reconnect.
#[derive(Debug)]
pub struct Watch {
    pub(super) watcher: OneshotWatcher,
    pub(super) share: Share,
}

impl Watch {
    /// Waits for the change.
    pub async fn changed(self) -> Change {
        let _until_then = self.share;
        change(&self.watcher.changed().await).unwrap_or(Change::Ended)
    }
}

/// The watch budget of one session.
#[derive(Debug, Clone)]
pub(super) struct Budget {
    /// Bytes of all paths that are watched.
    used: Arc<AtomicUsize>,
    /// Bytes that the client puts before every path of ours.
    namespace: usize,
}

/// One watch's share of the budget, until it is dropped.
#[derive(Debug)]
pub(super) struct Share {
    bytes: usize,
    budget: Budget,
}

impl Budget {
    /// For a session below this path.
    pub fn new(namespace: &str) -> Self {
        Self { used: Arc::default(), namespace: namespace.len() }
    }

    /// Reserves room for one watch.
    pub fn take(&self, path: &str) -> Result<Share, CallError> {
        let bytes = self.namespace + path.len();
        let add = |used: usize| Some(used + bytes).filter(|used| *used <= WATCHED_BYTES_MAX);
        match self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add) {
            Ok(_) => Ok(Share { bytes, budget: self.clone() }),
            Err(used) => {
                let why = format!(
                    "this session watches {used} bytes of paths already, of at most {WATCHED_BYTES_MAX}: let fewer wait \
                     at once, or spread them over several sessions"
                );
                Err(CallError::Refused { path: path.to_owned(), why })
            }
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// An event of a tree watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TreeEvent {
    /// Something changed at this path.
    At(String, Change),
    /// The connection was lost: events may be missing from here on.
    Suspended,
    /// The connection is back: set a new watch, then read everything again. This watch may report nothing more, because
    /// the client does not restore it.
    Resumed,
    /// The ZooKeeper session is over: no more events follow.
    Ended,
}

/// Reports every change at a path and below it.
#[derive(Debug)]
pub struct TreeWatch {
    pub(super) watcher: PersistentWatcher,
    pub(super) ended: bool,
    pub(super) _share: Share,
}

impl TreeWatch {
    /// The next event, if it is there already.
    pub fn try_next(&mut self) -> Option<TreeEvent> {
        self.next().now_or_never()
    }

    /// Waits for the next event.
    pub async fn next(&mut self) -> TreeEvent {
        // The client panics when it is asked again after the end.
        if self.ended {
            return TreeEvent::Ended;
        }
        let event = self.watcher.changed().await;
        match change(&event) {
            Some(change) => TreeEvent::At(event.path, change),
            None => match event.session_state {
                SessionState::Disconnected => TreeEvent::Suspended,
                SessionState::SyncConnected | SessionState::ConnectedReadOnly => TreeEvent::Resumed,
                SessionState::AuthFailed | SessionState::Expired | SessionState::Closed => {
                    self.ended = true;
                    TreeEvent::Ended
                }
            },
        }
    }
}

fn change(event: &WatchedEvent) -> Option<Change> {
    match event.event_type {
        EventType::Session => None,
        EventType::NodeCreated => Some(Change::Created),
        EventType::NodeDeleted => Some(Change::Deleted),
        EventType::NodeDataChanged => Some(Change::Data),
        EventType::NodeChildrenChanged => Some(Change::Children),
    }
}
