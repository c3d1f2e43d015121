//! A lock that readers share and a writer holds alone. Fair: a reader that comes after a waiting writer waits for it.
//!
//! It is the [lock](super::lock) with another exclusion rule, and makes the same promises. The layout is kazoo's
//! (`ReadLock`, `WriteLock`). A reader waits for the last writer before it; a writer for the nearest contender. A
//! writer that leaves wakes all readers up to the next writer, because all of them hold then.
//!
//! What it does not promise: a reader cannot become a writer without releasing; and a reader's fence excludes no other
//! readers.
//!
//! ```no_run
//! # use menagerie_kernel::{Session, recipes::rw_lock::RwLock};
//! # use menagerie_znodes::{Dir, Znode};
//! # async fn look(session: Session, dir: Znode<Dir>) -> Result<(), Box<dyn std::error::Error>> {
//! let catalogue = RwLock::new(&session, dir).identified_by("host-7");
//! let reading = catalogue.reader().acquire().await?;
//! reading.release().await?;
//! let writing = catalogue.writer().acquire().await?;
//! writing.release().await?;
//! # Ok(())
//! # }
//! ```

use menagerie_znodes::{Dir, Znode};

use super::contest::Mode;
use super::lock::{Contestant, Lock, LockError};
use crate::session::Session;

/// A read-write lock. Cheap to clone.
#[derive(Debug, Clone)]
pub struct RwLock {
    reader: Lock,
    writer: Lock,
}

impl RwLock {
    /// The lock whose contenders are in this directory, which is created if it is missing.
    pub fn new(session: &Session, dir: Znode<Dir>) -> Self {
        let reader = Lock::in_mode(session, dir.clone(), Mode::Shared);
        Self { reader, writer: Lock::in_mode(session, dir, Mode::Exclusive) }
    }

    /// The identifier that [`contenders`](Self::contenders) shows.
    pub fn identified_by(self, identifier: impl Into<String>) -> Self {
        let identifier = identifier.into();
        Self {
            reader: self.reader.identified_by(identifier.clone()),
            writer: self.writer.identified_by(identifier),
        }
    }

    /// The lock to hold together with other readers.
    pub fn reader(&self) -> &Lock {
        &self.reader
    }

    /// The lock to hold alone.
    pub fn writer(&self) -> &Lock {
        &self.writer
    }

    /// All contenders, in order.
    pub async fn contenders(&self) -> Result<Vec<Contestant>, LockError> {
        self.writer.contenders().await
    }
}
