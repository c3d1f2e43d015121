//! A subtree in memory, kept up to date.
//!
//! One persistent recursive watch reports changes; only changed znodes are read. The cache survives lost connections,
//! expired sessions and restarted servers: then it reads everything again, and publishes differences like any other
//! change.
//!
//! # Promises
//! - What the cache shows of a path was there at some moment, and never goes back to an older state.
//! - Every change becomes visible, about one round trip after the server's event.
//! - [`ready`](TreeCache::ready) means that everything that existed at the start has been read.
//! - Readers never wait for the network: they read memory.
//!
//! It does not promise that different paths show the same moment, nor that every intermediate state is seen. The counts
//! of children in a [`Stat`] are as of the last change of the znode itself; use [`children`](TreeCache::children).
//! While the connection is down it shows its last state, and [`freshness`](TreeCache::freshness) says so. A znode that
//! our user may not read is not shown.
//!
//! ```no_run
//! # async fn example(session: menagerie_kernel::Session) -> Result<(), menagerie_kernel::recipes::tree_cache::TreeCacheError> {
//! use menagerie_kernel::recipes::tree_cache::TreeCache;
//! use menagerie_znodes::{Dir, Kind, Znode};
//!
//! let components: Znode<Dir> = Znode::foreign("/components", Kind::Persistent);
//! let cache = TreeCache::start(&session, &components);
//! let mut revision = cache.subscribe();
//! cache.ready().await?;
//! loop {
//!     revision.borrow_and_update();
//!     for kind in cache.children("/components") {
//!         println!("{kind}: {}", cache.children(&format!("/components/{kind}")).len());
//!     }
//!     if revision.changed().await.is_err() {
//!         return cache.ready().await;
//!     }
//! }
//! # }
//! ```

mod agenda;
mod follow;
mod mirror;
#[cfg(test)]
mod tests;

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use menagerie_znodes::{Payload, Znode};
use thiserror::Error;
use tokio::sync::{broadcast, watch};
use tokio::task::JoinHandle;

use self::mirror::Mirror;
use crate::error::{CallError, Remedy};
use crate::session::{Session, Stat, Versioned};

/// Changes that a listener may lag behind before it must read everything.
const CHANGES_MAX: usize = 1_024;

/// How current the cache is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Freshness {
    /// The first walk is in progress.
    Loading,
    /// It follows the server.
    Live,
    /// The connection was lost: it shows the last known state.
    Stale,
    /// The loop has ended: nothing changes any more.
    Stopped(TreeCacheError),
}

/// Why a cache has stopped.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the cache of {root} has stopped")]
#[allow(missing_docs, reason = "the fields of errors name themselves")]
pub struct TreeCacheError {
    pub root: String,
    pub source: CallError,
}

impl TreeCacheError {
    /// What the caller may do.
    pub fn remedy(&self) -> Remedy {
        self.source.remedy()
    }
}

/// An event for listeners.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Changed {
    /// The znode at this path changed.
    At(Arc<str>),
    /// The listener was too slow: anything may have changed.
    Everything,
    /// The cache has stopped.
    Ended,
}

/// A listener for changed paths.
#[derive(Debug)]
pub struct Changes(broadcast::Receiver<Arc<str>>);

impl Changes {
    /// Waits for the next event.
    pub async fn next(&mut self) -> Changed {
        match self.0.recv().await {
            Ok(path) => Changed::At(path),
            Err(broadcast::error::RecvError::Lagged(_)) => {
                self.0 = self.0.resubscribe();
                Changed::Everything
            }
            Err(broadcast::error::RecvError::Closed) => Changed::Ended,
        }
    }
}

/// A subtree in memory. Cheap to clone; dropping the last clone stops it.
#[derive(Debug, Clone)]
pub struct TreeCache {
    mirror: Arc<RwLock<Mirror>>,
    revision: watch::Receiver<u64>,
    freshness: watch::Receiver<Freshness>,
    /// Weak, so that listeners notice the end.
    changes: broadcast::WeakSender<Arc<str>>,
    _loop: Arc<AbortOnDrop>,
}

#[derive(Debug)]
struct AbortOnDrop(JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl TreeCache {
    /// Begins to read `root` and all below it. The root need not exist.
    pub fn start<T>(session: &Session, root: &Znode<T>) -> Self {
        let mirror = Arc::new(RwLock::new(Mirror::default()));
        let (revision, revision_seen) = watch::channel(0);
        let (freshness, freshness_seen) = watch::channel(Freshness::Loading);
        let changes = broadcast::channel(CHANGES_MAX).0;
        let weak = changes.downgrade();
        let follower = follow::Follower::new(root.path(), mirror.clone(), revision, freshness, changes);
        let follow = tokio::spawn(follower.run(session.clone()));
        Self {
            mirror,
            revision: revision_seen,
            freshness: freshness_seen,
            changes: weak,
            _loop: Arc::new(AbortOnDrop(follow)),
        }
    }

    /// Waits until the cache is live.
    pub async fn ready(&self) -> Result<(), TreeCacheError> {
        let mut freshness = self.freshness.clone();
        let settled = |now: &Freshness| matches!(now, Freshness::Live | Freshness::Stopped(_));
        match freshness.wait_for(settled).await.as_deref() {
            Ok(Freshness::Stopped(error)) => Err(error.clone()),
            Ok(_) => Ok(()),
            // The loop is aborted only with the last clone, and otherwise publishes why it ends; so the runtime has
            // shut down.
            Err(_) => Err(TreeCacheError { root: String::new(), source: CallError::Closed }),
        }
    }

    /// What a znode holds; `None` if it does not exist, as far as the cache knows.
    ///
    /// # Errors
    /// [`CallError::Payload`] if the data does not decode.
    pub fn read<T: Payload>(&self, znode: &Znode<T>) -> Result<Option<Versioned<T>>, CallError> {
        self.get(znode.path()).map(|(data, stat)| Versioned::decode(znode, &data, stat)).transpose()
    }

    /// Whether a znode exists, whatever it holds.
    pub fn contains<T>(&self, znode: &Znode<T>) -> bool {
        self.get(znode.path()).is_some()
    }

    /// Data and facts of a znode.
    pub fn get(&self, path: &str) -> Option<(Arc<[u8]>, Stat)> {
        self.mirror().get(path)
    }

    /// The names of a znode's children, sorted.
    pub fn children(&self, path: &str) -> Vec<String> {
        self.mirror().children(path)
    }

    /// How many znodes there are.
    pub fn len(&self) -> usize {
        self.mirror().len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A revision that rises with every change, as a watchable value.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.revision.clone()
    }

    /// The paths that change from now on.
    pub fn changes(&self) -> Changes {
        match self.changes.upgrade() {
            Some(changes) => Changes(changes.subscribe()),
            // A channel without sender: the listener sees the end at once.
            None => Changes(broadcast::channel(1).1),
        }
    }

    /// How current the cache is, as a watchable value.
    pub fn freshness(&self) -> watch::Receiver<Freshness> {
        self.freshness.clone()
    }

    fn mirror(&self) -> RwLockReadGuard<'_, Mirror> {
        self.mirror.read().unwrap_or_else(PoisonError::into_inner)
    }
}
