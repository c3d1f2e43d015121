//! A journal that does something before each commit, counts what is read from it, and can have small batches or
//! hold its answers back.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use menagerie_journal::{
    Batch, Commit, Committed, Consumer, Created, Fence, Journal, JournalError, MessageId, Opened,
    PartitionId, PartitionStats, RandomId, Read, Reply, Store, Ticks, Topic, TopicConfig, TopicView, Usage,
};
use menagerie_queues::Journals;
use tokio::sync::watch;

use crate::world::{JOURNAL, World};

/// What happens before a commit; an error refuses it.
type Before = dyn Fn(Store, &Commit) -> Reply<'static, ()> + Send + Sync;

pub struct Watched {
    store: Store,
    before: Mutex<Option<Arc<Before>>>,
    reads: AtomicU64,
    batch_max: AtomicU32,
    largest_read: AtomicU32,
    /// Reads get their answers while this is `false`.
    is_held: watch::Sender<bool>,
}

impl Watched {
    pub fn new(world: &World) -> Arc<Self> {
        let store = world.store().clone();
        Arc::new(Self {
            store,
            before: Mutex::default(),
            reads: AtomicU64::new(0),
            batch_max: AtomicU32::new(u32::MAX),
            largest_read: AtomicU32::new(0),
            is_held: watch::Sender::new(false),
        })
    }

    pub fn journals(self: &Arc<Self>) -> Journals {
        Journals::from([(JOURNAL.to_owned(), self.clone() as _)])
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

impl Journal for Watched {
    fn read(&self, read: Read) -> Reply<'_, Batch> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.largest_read.fetch_max(read.bytes_max, Ordering::Relaxed);
        let limit = read.limit.min(self.batch_max.load(Ordering::Relaxed));
        let mut held = self.is_held.subscribe();
        Box::pin(async move {
            let _ = held.wait_for(|is_held| !is_held).await;
            self.store.read(read.limit(limit)).await
        })
    }

    fn commit(&self, commit: Commit) -> Reply<'_, Committed> {
        let before = self.before.lock().unwrap().clone();
        Box::pin(async move {
            if let Some(before) = before {
                before(self.store.clone(), &commit).await?;
            }
            self.store.commit(commit).await
        })
    }

    fn folder(&self) -> Reply<'_, RandomId> {
        self.store.folder()
    }

    fn open<'a>(
        &'a self,
        partition: &'a PartitionId,
        consumer: &'a Consumer,
        fence: Fence,
    ) -> Reply<'a, Opened> {
        self.store.open(partition, consumer, fence)
    }

    fn consumer<'a>(
        &'a self,
        partition: &'a PartitionId,
        consumer: &'a Consumer,
    ) -> Reply<'a, Option<Opened>> {
        self.store.consumer(partition, consumer)
    }

    fn at_time<'a>(&'a self, partition: &'a PartitionId, time: Ticks) -> Reply<'a, Option<MessageId>> {
        self.store.at_time(partition, time)
    }

    fn trim<'a>(&'a self, partition: &'a PartitionId, through: MessageId) -> Reply<'a, ()> {
        self.store.trim(partition, through)
    }

    fn stats<'a>(&'a self, topic: &'a Topic) -> Reply<'a, Vec<PartitionStats>> {
        self.store.stats(topic)
    }

    fn usage(&self) -> Reply<'_, Usage> {
        self.store.usage()
    }

    fn create_topic<'a>(&'a self, topic: &'a Topic, config: TopicConfig) -> Reply<'a, Created> {
        self.store.create_topic(topic, config)
    }

    fn topics(&self) -> Reply<'_, Vec<TopicView>> {
        self.store.topics()
    }

    fn alter_topic<'a>(&'a self, topic: &'a Topic, config: TopicConfig) -> Reply<'a, ()> {
        self.store.alter_topic(topic, config)
    }

    fn delete_topic<'a>(&'a self, topic: &'a Topic) -> Reply<'a, bool> {
        self.store.delete_topic(topic)
    }
}
