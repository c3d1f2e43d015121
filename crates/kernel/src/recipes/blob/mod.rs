//! Values of any size, which nobody ever sees half written.
//!
//! A value that fits is one znode: the marker, which carries it. A longer one is cut into shards of 1,000,000 bytes, children
//! of the marker, and the marker is written last: until then the old value is the value. All of it is compressed where that
//! helps, and checked by a checksum when it is read.
//!
//! # Promises
//! - A reader gets one whole value that was current at some moment of its call, or is told that it is damaged.
//! - A writer may die at any step: the value is the old one or the new one. What it leaves behind is removed by a later
//!   writer, as soon as its session is over: while it writes, an ephemeral znode says so, and no clock is asked.
//! - Of writers at the same time, each commit replaces the value as a whole; with [`Expect`] one that is not based on the
//!   current value is refused. The loser's shards are removed.
//! - A write [under a fence](Blob::write_fenced) happens only while its ticket exists.
//!
//! A damaged value is reported and not written over; who can make it anew deletes it first, expecting anything.
//!
//! It does not promise that a reader sees the newest value on an ensemble where it talks to a server that is behind; `sync`
//! first if it must. It is no place for files: all of it is in the memory of every server.
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

/// Shards on their way at once: each is as long as a frame may be, and other calls want their turn.
const SHARDS_IN_FLIGHT: usize = 4;

/// Deletions on their way at once: they are short.
const DELETES_IN_FLIGHT: usize = 32;

/// From this length on, compressing and checking takes long enough to be done beside the loop.
const LONG_BYTES: usize = 256 * 1024;

/// Which of its values a blob has. It is never used for another one, even if the blob is deleted and made anew.
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

/// What a writer wants to find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// Whatever it is: the last writer wins.
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

/// What is there now.
struct Found {
    stat: Stat,
    marker: Option<Marker>,
    /// What the marker carries of the content.
    inline: Vec<u8>,
}

impl Found {
    fn satisfies(&self, expect: Expect) -> bool {
        match expect {
            Expect::Anything => true,
            Expect::Nothing => self.marker.is_none(),
            Expect::Version(version) => self.marker.is_some() && version == Version::of(&self.stat),
        }
    }

    /// Whether it is the value of this write.
    fn is_of(&self, write: &str) -> bool {
        self.marker.as_ref().is_some_and(|marker| marker.write == write)
    }

    /// Whether there are children that do not belong to the value: of a writer that works, or that died.
    fn has_others(&self) -> bool {
        let own = self.marker.as_ref().map_or(0, |marker| marker.shards);
        usize::try_from(self.stat.children).is_ok_and(|children| children > own)
    }
}

impl Blob {
    /// The blob at a place. All below that place is the blob's.
    pub fn new(session: &Session, znode: Znode<Raw>) -> Self {
        Self { session: session.clone(), znode }
    }

    /// The value, if there is one.
    pub async fn read(&self) -> Result<Option<(Vec<u8>, Version)>, BlobError> {
        let term = self.session.term();
        loop {
            let Some(found) = self.look(&term).await? else { return Ok(None) };
            let version = Version::of(&found.stat);
            let Some(marker) = found.marker else { return Ok(None) };
            let stored =
                if marker.shards == 0 { Some(found.inline) } else { self.shards(&term, &marker).await? };
            match stored {
                Some(stored) => {
                    let content = decode(marker, stored).await.map_err(|why| self.damaged(why))?;
                    return Ok(Some((content, version)));
                }
                // Shards go only after another value has come, or with the blob; read that then.
                None => match term.stat(self.path()).await? {
                    Some(stat) if Version::of(&stat) == version => {
                        return Err(self.damaged("a shard is missing".to_owned()));
                    }
                    _ => {}
                },
            }
        }
    }

    /// Replaces the value, and tells the version of the new one.
    pub async fn write(&self, content: &[u8], expect: Expect) -> Result<Version, BlobError> {
        self.write_fenced(Transaction::new(&self.session.term()), content, expect).await
    }

    /// The same in a transaction: under its ticket, and together with whatever else it does. If it is refused for another
    /// part than ours, nothing has happened.
    pub async fn write_fenced(
        &self,
        transaction: Transaction,
        content: &[u8],
        expect: Expect,
    ) -> Result<Version, BlobError> {
        write::write(self, transaction, content, expect).await
    }

    /// Removes the value and its place. `false`: there was nothing.
    pub async fn delete(&self, expect: Expect) -> Result<bool, BlobError> {
        self.delete_fenced(Transaction::new(&self.session.term()), expect).await
    }

    /// The same in a transaction. Where there is nothing, the transaction is not committed.
    pub async fn delete_fenced(&self, transaction: Transaction, expect: Expect) -> Result<bool, BlobError> {
        write::delete(self, transaction, expect).await
    }

    /// Removes what dead writers have left. Writers do it by themselves when they see something; this is for who deletes
    /// nothing and writes seldom.
    pub async fn collect(&self) -> Result<usize, BlobError> {
        self.collect_in(&self.session.term()).await
    }

    async fn collect_in(&self, term: &Term) -> Result<usize, BlobError> {
        let names = match term.children(self.path()).await {
            Err(CallError::NoZnode { .. }) => return Ok(0),
            names => names?,
        };
        // After the names: see `garbage`.
        let marker = self.look(term).await?.and_then(|found| found.marker);
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

    async fn look(&self, term: &Term) -> Result<Option<Found>, BlobError> {
        let (data, stat) = match term.get(self.path()).await {
            Err(CallError::NoZnode { .. }) => return Ok(None),
            found => found?,
        };
        match Marker::parse(&data).map_err(|why| self.damaged(why))? {
            Some((marker, inline)) => Ok(Some(Found { stat, marker: Some(marker), inline: inline.to_vec() })),
            None => Ok(Some(Found { stat, marker: None, inline: Vec::new() })),
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
        // Collected, because a stream that borrows as it goes cannot move between threads.
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
    beside(move || marker.decode(stored)).await
}

/// Runs what takes long where it holds up nobody.
async fn beside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.expect("compressing and checking do not panic")
}
