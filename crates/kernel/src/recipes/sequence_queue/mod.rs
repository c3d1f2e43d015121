//! An ordered queue: its consumer gets entries in the order in which they were put, and none is lost.
//!
//! Anybody puts. One consumer takes: the holder of some lock or leadership, whose ticket is part of the transaction of
//! every [`ack`](SequenceQueue::ack). An entry stays until it is acked. A consumer that handles many entries at a time
//! acks them in one transaction of its own, with [`ack_with`](SequenceQueue::ack_with).
//!
//! # Promises
//! - All consumers see the same order: a put that was answered before another one began comes first.
//! - At least once: a consumer that dies between its work and its ack leaves the entry to the next one. A consumer that
//!   has lost its ticket cannot ack. Work that is itself a write to ZooKeeper can be part of the ack's transaction, and
//!   then happens exactly once.
//! - A put that would exceed the limit is refused with [`QueueError::Full`], never dropped.
//! - Entries of any size: a long one has its data in a side znode, which is written before the entry.
//!
//! It does not promise that the limit is exact when many put at once, nor that a put whose future was dropped has not
//! happened, nor that one whose reply was lost is not made twice when its entry was acked at once. It is for events, not for
//! bulk: that is what the journal is for.
//!
//! ```no_run
//! # async fn example(session: menagerie_kernel::Session, ticket: &str) -> Result<(), menagerie_kernel::recipes::sequence_queue::QueueError> {
//! use menagerie_kernel::Transaction;
//! use menagerie_kernel::recipes::sequence_queue::{LIMIT, SequenceQueue};
//! use menagerie_znodes::{Kind, Znode};
//!
//! let queue = SequenceQueue::new(&session, Znode::foreign("/events/tenant/main", Kind::Persistent), LIMIT);
//! queue.put(b"{\"change\": 1234}").await?;
//!
//! queue.arrival(None).await?;
//! for entry in queue.entries(None, 100).await? {
//!     // … work …
//!     queue.ack(Transaction::fenced(&session.term(), ticket), &entry.id).await?;
//! }
//! # Ok(())
//! # }
//! ```

mod entry;
mod error;

use std::time::Duration;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use menagerie_znodes::{Dir, Kind, Raw, Znode};

pub use entry::{Content, EntryId, QueueEntry};
pub use error::QueueError;

use self::entry::{DataLocation, in_order, orphans};
use super::blob::{Blob, BlobError, Expect};
use super::logical_time::Ltime;
use crate::error::CallError;
use crate::retry;
use crate::session::{Change, Session, Stat, Term};
use crate::transaction::{Transaction, TransactionError};
use crate::unique;

/// Default limit on the entries of a queue: the list of their names is read as a whole.
pub const LIMIT: usize = 90_000;

/// Entries read by one request; together no longer than a frame.
const BATCH: usize = 16;

/// Batches in flight.
const BATCHES_IN_FLIGHT: usize = 4;

/// Side znodes that are written or deleted at the same time: each may be as long as a frame.
const SIDES_IN_FLIGHT: usize = 4;

/// Outcome of an ack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ack {
    /// The entry is deleted, and the rest of the transaction has happened.
    Done,
    /// The entry was gone before. Nothing has happened.
    Gone,
}

/// An ordered queue.
#[derive(Debug, Clone)]
pub struct SequenceQueue {
    session: Session,
    dir: Znode<Dir>,
    limit: usize,
}

impl SequenceQueue {
    /// The queue in a directory of its own: `queue` has the entries, `data` the side znodes.
    pub fn new(session: &Session, dir: Znode<Dir>, limit: usize) -> Self {
        Self { session: session.clone(), dir, limit }
    }

    /// Puts an entry at the end.
    pub async fn put(&self, data: &[u8]) -> Result<EntryId, QueueError> {
        let term = self.session.term();
        loop {
            let id = unique::hex();
            let transaction = self.put_as(Transaction::new(&term), &[(id.clone(), data)]).await?;
            let (term, id) = (&term, &id);
            let proof = || async move { Ok(self.find(term, id).await?.map(|path| vec![path])) };
            let paths = match retry::commit(transaction, proof).await {
                // Somebody collected our side data as an orphan because we were too slow, or removed the queue.
                Err(TransactionError::Part { source: CallError::NoZnode { .. }, .. }) => {
                    self.make(term).await?;
                    continue;
                }
                paths => paths.map_err(|error| QueueError::from_transaction(error, self.dir.path()))?,
            };
            return self.created(&paths);
        }
    }

    /// Adds an entry to a transaction, which puts it when it commits: together with an ack, say, or with entries for
    /// other queues.
    pub async fn put_with(&self, transaction: Transaction, data: &[u8]) -> Result<Transaction, QueueError> {
        self.put_all_with(transaction, &[data]).await
    }

    /// Adds several entries to a transaction, in this order. It checks the limit once, for all of them: if they do not
    /// all fit, it is [`QueueError::Full`]. The limit does not count what the transaction puts already. Whether the
    /// transaction still [fits](Transaction::bytes) into one request is up to the caller.
    pub async fn put_all_with(
        &self,
        transaction: Transaction,
        entries: &[impl AsRef<[u8]>],
    ) -> Result<Transaction, QueueError> {
        let entries: Vec<_> = entries.iter().map(|data| (unique::hex(), data.as_ref())).collect();
        self.put_as(transaction, &entries).await
    }

    /// Adds entries with these ids.
    async fn put_as(
        &self,
        mut transaction: Transaction,
        entries: &[(String, &[u8])],
    ) -> Result<Transaction, QueueError> {
        if entries.is_empty() {
            return Ok(transaction);
        }
        let len = self.len_in(transaction.term()).await?;
        if len.saturating_add(entries.len()) > self.limit {
            return Err(QueueError::Full { path: self.dir.path().to_owned(), limit: self.limit, len });
        }
        self.write_sides(transaction.term(), entries).await?;
        for (id, data) in entries {
            let location = DataLocation::of(data);
            let entry = self.queue().child(&location.prefix(id), Kind::PersistentSequence);
            transaction = match location {
                DataLocation::Inline => transaction.create(&entry, &Raw(data.to_vec())),
                // Only if nobody has collected the side data as an orphan meanwhile.
                DataLocation::Side => {
                    transaction.check(&self.side(id), None).create(&entry, &Raw(Vec::new()))
                }
            };
        }
        Ok(transaction)
    }

    async fn write_sides(&self, term: &Term, entries: &[(String, &[u8])]) -> Result<(), QueueError> {
        let long = entries.iter().filter(|(_, data)| DataLocation::of(data) == DataLocation::Side);
        // Collected first: a stream that borrows lazily is not `Send`.
        let writes: Vec<_> = long
            .map(|(id, data)| async move {
                self.blob(id).write_fenced(Transaction::new(term), data, Expect::Anything).await.map(drop)
            })
            .collect();
        Ok(stream::iter(writes).buffer_unordered(SIDES_IN_FLIGHT).try_collect().await?)
    }

    /// The first entries, or the first after one, in order; at most `max`.
    pub async fn entries(&self, after: Option<&EntryId>, max: usize) -> Result<Vec<QueueEntry>, QueueError> {
        let term = &self.session.term();
        let mut ids = in_order(&self.names(term, &self.queue()).await?, after);
        ids.truncate(max);
        let reads: Vec<_> = ids.chunks(BATCH).map(|ids| self.read(term, ids)).collect();
        let batches: Vec<Vec<QueueEntry>> =
            stream::iter(reads).buffered(BATCHES_IN_FLIGHT).try_collect().await?;
        Ok(batches.into_iter().flatten().collect())
    }

    /// Removes an entry whose work is done. The transaction carries the consumer's ticket, and may have other parts
    /// that belong to the work: all happen, or none. It resolves lost replies and removes the entry's side data.
    pub async fn ack(&self, transaction: Transaction, entry: &EntryId) -> Result<Ack, QueueError> {
        let (term, ticket) = (&transaction.term().patient(), transaction.ticket().map(str::to_owned));
        let (place, ours) = (&self.entry(entry), transaction.parts());
        let ticket = ticket.as_deref();
        let proof = || async move {
            if term.stat(place.path()).await?.is_some() {
                return Ok(None);
            }
            // Only the holder of the ticket acks. If we have lost it, our successor may have acked the entry.
            match ticket {
                Some(ticket) if term.stat(ticket).await?.is_none() => {
                    Err(CallError::Unknown { path: place.path().to_owned() })
                }
                _ => Ok(Some(Vec::new())),
            }
        };
        match retry::commit(self.ack_with(transaction, entry), proof).await {
            Ok(_) => {}
            Err(TransactionError::Part { index, source: CallError::NoZnode { .. } }) if index == ours => {
                return Ok(Ack::Gone);
            }
            Err(error) => return Err(QueueError::from_transaction(error, self.dir.path())),
        }
        self.delete_sides(term, entry.side().into_iter().collect()).await;
        Ok(Ack::Done)
    }

    /// Adds the ack of an entry to a transaction: several acks, of several queues if need be, happen together with the
    /// work that they belong to. If the entry is gone when the transaction commits, ZooKeeper refuses this part, and
    /// with it all: [`TransactionError::Part`] with [`CallError::NoZnode`], at the index that
    /// [`parts`](Transaction::parts) had before.
    ///
    /// The caller commits, and resolves a lost reply: while it still has its ticket, a missing entry proves that the
    /// transaction has happened, because nobody else acks. One that also releases its lock needs
    /// [another proof](super::lock::LockGuard::release_with). Afterwards it calls
    /// [`forget_sides`](Self::forget_sides).
    pub fn ack_with(&self, transaction: Transaction, entry: &EntryId) -> Transaction {
        transaction.delete(&self.entry(entry), None)
    }

    /// Removes the side data of entries that were [acked in a transaction](Self::ack_with). Entries that still exist
    /// keep theirs, so it may also be called when the outcome of the transaction is unknown. Best effort: what stays
    /// behind is collected as orphans are. Costs nothing for entries without side data.
    pub async fn forget_sides(&self, entries: &[EntryId]) {
        let term = &self.session.term();
        let (paths, sides): (Vec<String>, Vec<&str>) = entries
            .iter()
            .filter_map(|entry| Some((self.entry(entry).path().to_owned(), entry.side()?)))
            .unzip();
        if paths.is_empty() {
            return;
        }
        // In a new term we may be connected to a server that lags behind and does not show an entry yet.
        if term.sync("/").await.is_err() {
            return;
        }
        let Ok(found) = term.get_many(&paths).await else { return };
        let acked = sides.into_iter().zip(found).filter(|(_, found)| found.is_none());
        self.delete_sides(term, acked.map(|(side, _)| side).collect()).await;
    }

    /// Deletes the side data of entries that are gone. If that fails, it is an orphan, and collected as such.
    async fn delete_sides(&self, term: &Term, sides: Vec<&str>) {
        let deletions: Vec<_> = sides
            .into_iter()
            .map(|side| async move {
                let _ = self.blob(side).delete_fenced(Transaction::new(term), Expect::Anything).await;
            })
            .collect();
        stream::iter(deletions).buffer_unordered(SIDES_IN_FLIGHT).collect().await
    }

    /// Whether an entry is still in the queue: the proof for a transaction with [`ack_with`](Self::ack_with).
    pub async fn contains(&self, term: &Term, entry: &EntryId) -> Result<bool, CallError> {
        let place = self.queue().child::<Raw>(entry.name(), Kind::Persistent);
        Ok(term.stat(place.path()).await?.is_some())
    }

    /// Number of entries.
    pub async fn backlog(&self) -> Result<usize, QueueError> {
        self.len_in(&self.session.term()).await
    }

    /// Waits until there is an entry, or one after the given one.
    pub async fn arrival(&self, after: Option<&EntryId>) -> Result<(), QueueError> {
        let term = self.session.term().patient();
        loop {
            let (names, _, watch) = match term.children_watched(self.queue().path()).await {
                Err(CallError::NoZnode { .. }) => {
                    self.make(&term).await?;
                    continue;
                }
                listed => listed?,
            };
            if !in_order(&names, after).is_empty() {
                return Ok(());
            }
            if watch.changed().await == Change::Ended {
                return Err(CallError::Expired.into());
            }
        }
    }

    /// Removes side data that is older than `grace` and belongs to no entry: leftovers of interrupted puts and acks.
    /// Returns how many it removed.
    pub async fn collect(&self, grace: Duration) -> Result<usize, QueueError> {
        let term = &self.session.term();
        self.make(term).await?;
        // By the server's clock, as the ages are.
        let now_ms = retry::touch(term, self.data().path(), b"").await?.mtime_ms;
        let oldest_ms = now_ms.saturating_sub(i64::try_from(grace.as_millis()).unwrap_or(i64::MAX));
        // In this order: an entry comes after its side data.
        let sides = self.names(term, &self.data()).await?;
        let entries = self.names(term, &self.queue()).await?;
        let mut removed = 0;
        for side in orphans(&sides, &entries) {
            let old = |stat: Stat| stat.ctime_ms <= oldest_ms;
            if term.stat(self.side(side).path()).await?.is_some_and(old) {
                self.blob(side).delete_fenced(Transaction::new(term), Expect::Anything).await?;
                removed += 1;
            }
        }
        Ok(removed)
    }
}

/// Paths and reads.
impl SequenceQueue {
    fn queue(&self) -> Znode<()> {
        self.dir.child("queue", Kind::Persistent)
    }

    fn data(&self) -> Znode<()> {
        self.dir.child("data", Kind::Persistent)
    }

    fn entry(&self, entry: &EntryId) -> Znode<Raw> {
        self.queue().child(entry.name(), Kind::Persistent)
    }

    fn side(&self, id: &str) -> Znode<Raw> {
        self.data().child(id, Kind::Persistent)
    }

    fn blob(&self, id: &str) -> Blob {
        Blob::new(&self.session, self.side(id))
    }

    async fn make(&self, term: &Term) -> Result<(), CallError> {
        retry::ensure(term, self.queue().path(), b"").await?;
        retry::ensure(term, self.data().path(), b"").await
    }

    async fn len_in(&self, term: &Term) -> Result<usize, QueueError> {
        match term.stat(self.queue().path()).await? {
            Some(stat) => Ok(usize::try_from(stat.children).unwrap_or(0)),
            None => {
                self.make(term).await?;
                Ok(0)
            }
        }
    }

    async fn names(&self, term: &Term, dir: &Znode<()>) -> Result<Vec<String>, CallError> {
        match term.children(dir.path()).await {
            Err(CallError::NoZnode { .. }) => Ok(Vec::new()),
            names => names,
        }
    }

    async fn find(&self, term: &Term, id: &str) -> Result<Option<String>, CallError> {
        let names = self.names(term, &self.queue()).await?;
        let ours = |name: &String| name.strip_prefix(id).is_some_and(|rest| rest.starts_with('-'));
        Ok(names
            .into_iter()
            .find(ours)
            .map(|name| self.queue().child::<Raw>(&name, Kind::Persistent).path().to_owned()))
    }

    fn created(&self, paths: &[String]) -> Result<EntryId, QueueError> {
        let path = paths.first().map_or("", String::as_str);
        let name = path.rsplit_once('/').map_or(path, |(_, name)| name);
        EntryId::parse(name).ok_or_else(|| {
            CallError::Payload { path: path.to_owned(), why: "the server gave it another name".to_owned() }
                .into()
        })
    }

    async fn read(&self, term: &Term, ids: &[EntryId]) -> Result<Vec<QueueEntry>, QueueError> {
        let paths: Vec<String> = ids.iter().map(|id| self.entry(id).path().to_owned()).collect();
        let mut entries = Vec::with_capacity(ids.len());
        for ((id, path), found) in ids.iter().zip(&paths).zip(term.get_many(&paths).await?) {
            // Acked meanwhile.
            let Some((data, stat)) = found else { continue };
            let content = match id.side() {
                None => Content::Whole(data),
                Some(side) => match self.read_side(term, path, side).await? {
                    Some(content) => content,
                    None => continue,
                },
            };
            entries.push(QueueEntry {
                id: id.clone(),
                put_at: Ltime(stat.czxid),
                put_at_ms: stat.ctime_ms,
                content,
            });
        }
        Ok(entries)
    }

    /// Reads an entry's side data; `None` if the entry was acked meanwhile.
    async fn read_side(&self, term: &Term, entry: &str, side: &str) -> Result<Option<Content>, QueueError> {
        let why = match self.blob(side).read().await {
            Ok(Some((data, _))) => return Ok(Some(Content::Whole(data))),
            Ok(None) => "what lies beside it is missing".to_owned(),
            Err(error @ BlobError::Damaged { .. }) => error.to_string(),
            Err(error) => return Err(error.into()),
        };
        Ok(term.stat(entry).await?.map(|_| Content::Damaged(why)))
    }
}
