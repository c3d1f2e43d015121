//! A journal that does something before each commit.

use std::sync::{Arc, Mutex};

use menagerie_journal::{
    Batch, Commit, Committed, Consumer, Created, Fence, Journal, JournalError, MessageId, Opened,
    PartitionId, PartitionStats, RandomId, Read, Reply, Store, Ticks, Topic, TopicConfig, TopicView, Usage,
};
use menagerie_queues::Journals;

use crate::world::{JOURNAL, World};

/// What happens before a commit; an error refuses it.
type Before = dyn Fn(Store, &Commit) -> Reply<'static, ()> + Send + Sync;

pub struct Watched {
    store: Store,
    before: Mutex<Option<Arc<Before>>>,
}

impl Watched {
    pub fn new(world: &World) -> Arc<Self> {
        let store = world.store().clone();
        Arc::new(Self { store, before: Mutex::default() })
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
}

impl Journal for Watched {
    fn read(&self, read: Read) -> Reply<'_, Batch> {
        self.store.read(read)
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
