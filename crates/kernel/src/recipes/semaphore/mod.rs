//! A semaphore: at most N holders at once.
//!
//! **It promises** that nobody enters while the limit is reached, through any crashes and delays; that waiters enter in
//! the order in which they came; and that all use one limit, which is stored in ZooKeeper: a contender with another one
//! gets [`SemaphoreError::LimitDisagrees`]. It is compatible with kazoo: Python programs that use
//! `kazoo.recipe.lock.Semaphore` with the same path share its permits and its queue.
//!
//! **It does not promise** that a holder knows at once that it has lost its permit. So a holder stops when
//! [`lost`](Grant::lost) resolves, writes through its [`transaction`](Grant::transaction), and passes its
//! [`fence`](Grant::fence) along. Concurrent holders are all legitimate: the fence tells a holder from itself before a
//! crash, not from the others.
//!
//! There are two kinds of holders. A [`Permit`] lives as long as its ZooKeeper session. A [`Ticket`] lasts until it is
//! released, even if its owner crashes; it is found again by its name.
//!
//! # Layout in ZooKeeper
//! `DIR` holds the limit in decimal; each child of it is a holder, with the holder's identifier as data, and in a ticket a
//! line behind it that tells it from others of its name. `DIR-__lock__` is the queue, a lock of kazoo's: the first of it
//! watches the holders, everybody else the one before.
//!
//! ```no_run
//! # use menagerie_kernel::{Session, recipes::semaphore::{Semaphore, SemaphoreError}};
//! # use menagerie_znodes::{Dir, Znode};
//! # async fn example(session: &Session, dir: Znode<Dir>) -> Result<(), SemaphoreError> {
//! let semaphore = Semaphore::new(session, dir, 3).identified_by("web-1");
//! let permit = semaphore.acquire().await?;
//! tokio::select! {
//!     loss = permit.lost() => eprintln!("stop, {loss:?}"),
//!     () = async { /* the work, with permit.fence() */ } => permit.release().await?,
//! }
//! # Ok(())
//! # }
//! ```

mod acquire;
mod decide;
mod error;
mod limit;
mod mark;
mod permit;
mod view;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use menagerie_znodes::{Dir, Name, Znode};

pub use decide::{Decision, Limit, decide};
pub use error::SemaphoreError;
pub use permit::{Permit, Ticket};
pub use view::{Holder, Waiter};

use crate::error::CallError;
#[cfg(doc)]
use crate::recipes::grant::Grant;
use crate::session::Session;
use acquire::Patience;

/// The suffix by which kazoo derives the path of the queue.
const QUEUE: &str = "-__lock__";

/// A semaphore. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Semaphore {
    session: Session,
    dir: String,
    queue: String,
    identifier: String,
    /// The configured limit; `None`: use the stored one.
    wanted: Option<u32>,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// Whether the stored limit was once equal to the configured one. From then on the stored one decides, so that it
    /// can be changed while programs run.
    agreed: AtomicBool,
}

/// Outcome of an attempt that does not wait.
#[derive(Debug)]
#[must_use = "a permit that is dropped is released"]
pub enum TryAcquire<T> {
    /// We hold it.
    Acquired(T),
    /// The limit is reached, or others come first; they may be about to enter.
    Busy {
        /// Who is in.
        holders: Vec<Holder>,
        /// Who waits, in order.
        waiters: Vec<Waiter>,
    },
}

impl Semaphore {
    /// The semaphore in this directory, with this limit: the first contender stores it, and all others must agree.
    pub fn new(session: &Session, dir: Znode<Dir>, limit: u32) -> Self {
        Self::with(session, dir, Some(limit))
    }

    /// The semaphore in this directory, with the limit that others have stored.
    pub fn with_stored_limit(session: &Session, dir: Znode<Dir>) -> Self {
        Self::with(session, dir, None)
    }

    fn with(session: &Session, dir: Znode<Dir>, wanted: Option<u32>) -> Self {
        let shared = Shared { agreed: AtomicBool::new(false) };
        Self {
            session: session.clone(),
            dir: dir.path().to_owned(),
            queue: format!("{}{QUEUE}", dir.path()),
            identifier: String::new(),
            wanted,
            shared: Arc::new(shared),
        }
    }

    /// The identifier that [`holders`](Self::holders) and [`waiters`](Self::waiters) show.
    pub fn identified_by(mut self, identifier: impl Into<String>) -> Self {
        self.identifier = identifier.into();
        self
    }

    /// Waits for a permit, through as many ZooKeeper sessions as it takes; a lost session costs the place in the queue.
    /// Dropping the future gives up, and leaves nothing behind.
    pub async fn acquire(&self) -> Result<Permit, SemaphoreError> {
        match self.enter(None, Patience::Waits).await? {
            TryAcquire::Acquired(held) => Ok(held.into_permit()),
            TryAcquire::Busy { .. } => unreachable!("who waits is not told that it is busy"),
        }
    }

    /// Takes a permit if one is free and nobody waits.
    pub async fn try_acquire(&self) -> Result<TryAcquire<Permit>, SemaphoreError> {
        Ok(self.enter(None, Patience::None).await?.map(permit::Admission::into_permit))
    }

    /// Waits for a permit that survives a crash, or takes up the existing one of that name. A name must never be reused
    /// for something else: the id of a build qualifies, the name of a host does not.
    pub async fn acquire_ticket(&self, name: &Name) -> Result<Ticket, SemaphoreError> {
        match self.enter(Some(name), Patience::Waits).await? {
            TryAcquire::Acquired(held) => Ok(held.into_ticket()),
            TryAcquire::Busy { .. } => unreachable!("who waits is not told that it is busy"),
        }
    }

    fn agreed(&self) -> bool {
        self.shared.agreed.load(Ordering::Relaxed)
    }

    fn set_agreed(&self) {
        self.shared.agreed.store(true, Ordering::Relaxed);
    }

    fn call_error(&self, source: CallError) -> SemaphoreError {
        SemaphoreError::Call { path: self.dir.clone(), source }
    }
}

impl<T> TryAcquire<T> {
    fn map<U>(self, change: impl FnOnce(T) -> U) -> TryAcquire<U> {
        match self {
            Self::Acquired(held) => TryAcquire::Acquired(change(held)),
            Self::Busy { holders, waiters } => TryAcquire::Busy { holders, waiters },
        }
    }
}
