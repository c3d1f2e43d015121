//! A journal that does something before each commit, counts what is read from it, and can have small batches or
//! hold its answers back.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use menagerie_journal::{Batch, Commit, Committed, Journal as _, JournalError, Read, Reply, Store};
use menagerie_queues::Journals;
use menagerie_testkit::{Interpose, Interposed};
use tokio::sync::watch;

use crate::site::Site;
use crate::world::{JOURNAL, World};

/// What happens before a commit; an error refuses it.
type Before = dyn Fn(Store, &Commit) -> Reply<'static, ()> + Send + Sync;

pub struct Watched {
    before: Mutex<Option<Arc<Before>>>,
    reads: AtomicU64,
    batch_max: AtomicU32,
    largest_read: AtomicU32,
    /// Reads get their answers while this is `false`.
    is_held: watch::Sender<bool>,
}

impl Watched {
    /// A site on the world's journal, which is watched.
    pub async fn site(world: &World) -> (Arc<Interposed<Self>>, Site) {
        let watched = Self {
            before: Mutex::default(),
            reads: AtomicU64::new(0),
            batch_max: AtomicU32::new(u32::MAX),
            largest_read: AtomicU32::new(0),
            is_held: watch::Sender::new(false),
        };
        let journal = Arc::new(Interposed::new(world.store(), watched));
        let journals = Journals::from([(JOURNAL.to_owned(), journal.clone() as _)]);
        (journal, Site::over(world, journals).await)
    }

    /// The same in a world of its own, with an empty queue.
    pub async fn world(name: &str) -> (World, Arc<Interposed<Self>>, Site) {
        let world = World::new(name);
        let (journal, site) = Self::site(&world).await;
        site.queue("queue_name=mail&partitions=1").await;
        (world, journal, site)
    }

    pub fn before_commit(
        &self,
        before: impl Fn(Store, &Commit) -> Reply<'static, ()> + Send + Sync + 'static,
    ) {
        *self.before.lock().unwrap() = Some(Arc::new(before));
    }

    /// Commits with appends are refused like this.
    pub fn refuse_appends(&self, with: JournalError) {
        self.before_commit(move |_, commit| {
            let refused = (!commit.appends.is_empty()).then(|| with.clone());
            Box::pin(async move { refused.map_or(Ok(()), Err) })
        });
    }

    /// From now on, a read returns no more messages than this, as if they were large.
    pub fn limit_batches(&self, messages: u32) {
        self.batch_max.store(messages, Ordering::Relaxed);
    }

    /// Whether reads wait from now on.
    pub fn hold_reads(&self, is_held: bool) {
        self.is_held.send_replace(is_held);
    }

    /// Most bytes that a read has asked for.
    pub fn largest_read(&self) -> u32 {
        self.largest_read.load(Ordering::Relaxed)
    }

    /// Reads since the last time.
    pub fn take_reads(&self) -> u64 {
        self.reads.swap(0, Ordering::Relaxed)
    }
}

impl Interpose for Watched {
    fn read<'a>(&'a self, store: &'a Store, read: Read) -> Reply<'a, Batch> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.largest_read.fetch_max(read.bytes_max, Ordering::Relaxed);
        let limit = read.limit.min(self.batch_max.load(Ordering::Relaxed));
        let mut held = self.is_held.subscribe();
        Box::pin(async move {
            let _ = held.wait_for(|is_held| !is_held).await;
            store.read(read.limit(limit)).await
        })
    }

    fn commit<'a>(&'a self, store: &'a Store, commit: Commit) -> Reply<'a, Committed> {
        let before = self.before.lock().unwrap().clone();
        Box::pin(async move {
            if let Some(before) = before {
                before(store.clone(), &commit).await?;
            }
            store.commit(commit).await
        })
    }
}
