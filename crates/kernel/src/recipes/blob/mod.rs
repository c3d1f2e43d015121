//! Values of any size, which no reader ever sees half written.
//!
//! A value that fits is one znode: the marker, which carries it. A longer one is cut into shards of 1,000,000 bytes, children
//! of the marker, and the marker is written last: until then the old value is the value. All of it is compressed where that
//! helps, and checked by a checksum when it is read.
//!
//! # Promises
//! - A reader gets one whole value that was current at some moment of its call, or [`BlobError::Damaged`].
//! - A writer may die at any step: the value is the old one or the new one. A later writer removes what it left, as
//!   soon as its session is over. An ephemeral claim marks a write in progress, so no clock is involved.
//! - With concurrent writers, each commit replaces the value as a whole; [`Expect`] refuses a write that is not based
//!   on the current value. The loser's shards are removed.
//! - A write [under a fence](Blob::write_fenced) happens only while its ticket exists.
//!
//! A write does not replace a damaged value. To recreate it, delete it first with [`Expect::Anything`].
//!
//! It does not promise that a reader connected to a lagging server sees the newest value; `sync` first if it must. It
//! is no place for files: every server keeps all of it in memory.
//!
//! ```no_run
//! # async fn example(session: menagerie_kernel::Session) -> Result<(), menagerie_kernel::recipes::blob::BlobError> {
//! use menagerie_kernel::recipes::blob::{Blob, Expect};
//! use menagerie_znodes::{Kind, Znode};
//!
//! let blob = Blob::new(&session, Znode::foreign("/layouts/main", Kind::Persistent));
//! let first = blob.write(&vec![7; 5_000_000], Expect::Nothing).await?;
//! if let Some((mut value, version)) = blob.read().await? {
//!     assert_eq!(version, first);
//!     value.push(8);
//!     blob.write(&value, Expect::Version(version)).await?;
//! }
//! # Ok(())
//! # }
//! ```

mod error;
mod format;
mod write;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use menagerie_znodes::{Kind, Raw, Znode};

pub use error::BlobError;
pub use format::{CONTENT_BYTES_MAX, SHARD_BYTES};

use self::format::Marker;
use crate::error::CallError;
use crate::retry;
use crate::session::{Session, Stat, Term};
use crate::transaction::Transaction;

/// Shards in flight: each is as long as a frame may be, and other calls need their turn.
const SHARDS_IN_FLIGHT: usize = 4;

/// Deletions in flight: they are short.
const DELETES_IN_FLIGHT: usize = 32;

/// From this length on, compression and checksums run on a blocking thread.
const LONG_BYTES: usize = 256 * 1024;

/// Identifies one value of a blob. Never reused, even if the blob is deleted and created again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Version {
    czxid: i64,
    version: i32,
}

impl Version {
    fn of(stat: &Stat) -> Self {
        Self { czxid: stat.czxid, version: stat.version }
    }
}

/// The value that a writer expects to replace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// Any or none: the last writer wins.
    Anything,
    /// No value.
    Nothing,
    /// The value that was read.
    Version(Version),
}

/// One value of any size.
#[derive(Debug, Clone)]
pub struct Blob {
    session: Session,
    znode: Znode<Raw>,
}

/// The marker znode as it was just read.
struct CurrentValue {
    stat: Stat,
    marker: Option<Marker>,
    /// The content, if the marker carries it.
    inline: Vec<u8>,
}

impl CurrentValue {
    fn satisfies(&self, expect: Expect) -> bool {
        match expect {
            Expect::Anything => true,
            Expect::Nothing => self.marker.is_none(),
            Expect::Version(version) => self.marker.is_some() && version == Version::of(&self.stat),
        }
    }

    fn is_of(&self, write: &str) -> bool {
        self.marker.as_ref().is_some_and(|marker| marker.write == write)
    }

    /// Whether there are children of other writes, in progress or dead.
    fn has_others(&self) -> bool {
        let own = self.marker.as_ref().map_or(0, |marker| marker.shards);
        usize::try_from(self.stat.children).is_ok_and(|children| children > own)
    }
}

impl Blob {
    /// The blob at this znode. All below it belongs to the blob.
    pub fn new(session: &Session, znode: Znode<Raw>) -> Self {
        Self { session: session.clone(), znode }
    }

    /// The value, if there is one.
    pub async fn read(&self) -> Result<Option<(Vec<u8>, Version)>, BlobError> {
        let term = self.session.term();
        loop {
            let Some(found) = self.read_marker(&term).await? else { return Ok(None) };
            let version = Version::of(&found.stat);
            let Some(marker) = found.marker else { return Ok(None) };
            let stored =
                if marker.shards == 0 { Some(found.inline) } else { self.shards(&term, &marker).await? };
            match stored {
                Some(stored) => {
                    let content = decode(marker, stored).await.map_err(|why| self.damaged(why))?;
                    return Ok(Some((content, version)));
                }
                // A value's shards are deleted only after it was replaced, or with the blob: read again.
                None => match term.stat(self.path()).await? {
                    Some(stat) if Version::of(&stat) == version => {
                        return Err(self.damaged("a shard is missing".to_owned()));
                    }
                    _ => {}
                },
            }
        }
    }

    /// Replaces the value, and returns the new version.
    pub async fn write(&self, content: &[u8], expect: Expect) -> Result<Version, BlobError> {
        self.write_fenced(Transaction::new(&self.session.term()), content, expect).await
    }

    /// Writes within a transaction: under its ticket, and together with its other parts. If ZooKeeper refuses one of
    /// those, nothing has happened.
    pub async fn write_fenced(
        &self,
        transaction: Transaction,
        content: &[u8],
        expect: Expect,
    ) -> Result<Version, BlobError> {
        write::write(self, transaction, content, expect).await
    }

    /// Deletes the value and its znode. `false`: there was none.
    pub async fn delete(&self, expect: Expect) -> Result<bool, BlobError> {
        self.delete_fenced(Transaction::new(&self.session.term()), expect).await
    }

    /// Deletes within a transaction. If there is no value, the transaction is not committed.
    pub async fn delete_fenced(&self, transaction: Transaction, expect: Expect) -> Result<bool, BlobError> {
        write::delete(self, transaction, expect).await
    }

    /// Removes the shards of dead writers. Writers do so when they notice any; call this where writes are rare.
    pub async fn collect(&self) -> Result<usize, BlobError> {
        self.collect_in(&self.session.term()).await
    }

    async fn collect_in(&self, term: &Term) -> Result<usize, BlobError> {
        let names = match term.children(self.path()).await {
            Err(CallError::NoZnode { .. }) => return Ok(0),
            names => names?,
        };
        // After the names: see `garbage`.
        let marker = self.read_marker(term).await?.and_then(|found| found.marker);
        let garbage = format::garbage(&names, marker.as_ref());
        let count = garbage.len();
        self.remove(term, garbage.into_iter().map(str::to_owned).collect()).await?;
        Ok(count)
    }

    fn path(&self) -> &str {
        self.znode.path()
    }

    fn child(&self, name: &str) -> Znode<()> {
        self.znode.child(name, Kind::Persistent)
    }

    fn damaged(&self, why: String) -> BlobError {
        BlobError::Damaged { path: self.path().to_owned(), why }
    }

    async fn read_marker(&self, term: &Term) -> Result<Option<CurrentValue>, BlobError> {
        let (data, stat) = match term.get(self.path()).await {
            Err(CallError::NoZnode { .. }) => return Ok(None),
            found => found?,
        };
        match Marker::parse(&data).map_err(|why| self.damaged(why))? {
            Some((marker, inline)) => {
                Ok(Some(CurrentValue { stat, marker: Some(marker), inline: inline.to_vec() }))
            }
            None => Ok(Some(CurrentValue { stat, marker: None, inline: Vec::new() })),
        }
    }

    /// All shards of a value, if none is missing.
    async fn shards(&self, term: &Term, marker: &Marker) -> Result<Option<Vec<u8>>, BlobError> {
        let reads: Vec<_> = marker
            .shard_names()
            .map(|name| async move { Ok(term.get(self.child(&name).path()).await?.0) })
            .collect();
        let shards: Result<Vec<Vec<u8>>, CallError> =
            stream::iter(reads).buffered(SHARDS_IN_FLIGHT).try_collect().await;
        match shards {
            Ok(shards) => Ok(Some(shards.concat())),
            Err(CallError::NoZnode { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    async fn remove(&self, term: &Term, names: Vec<String>) -> Result<(), CallError> {
        // Collected first: a stream that borrows lazily is not `Send`.
        let deletes: Vec<_> = names
            .into_iter()
            .map(|name| async move { retry::delete(term, self.child(&name).path()).await })
            .collect();
        stream::iter(deletes).buffer_unordered(DELETES_IN_FLIGHT).try_collect().await
    }
}

async fn decode(marker: Marker, stored: Vec<u8>) -> Result<Vec<u8>, String> {
    if stored.len() < LONG_BYTES {
        return marker.decode(stored);
    }
    run_blocking(move || marker.decode(stored)).await
}

/// Runs long computations on a blocking thread.
async fn run_blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.expect("compressing and checking do not panic")
}
