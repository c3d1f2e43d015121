//! A journal of which a test changes a few calls.

use std::ops::Deref;

use menagerie_journal::{
    Batch, Commit, Committed, Consumer, Created, Fence, Journal, MessageId, Opened, PartitionId,
    PartitionStats, RandomId, Read, Reply, Store, Ticks, Topic, TopicConfig, TopicView, Usage,
};

/// What a journal does differently from the store behind it: faults, counts, pauses.
pub trait Interpose: Send + Sync {
    /// A partition is taken over.
    fn open<'a>(
        &'a self,
        store: &'a Store,
        partition: &'a PartitionId,
        consumer: &'a Consumer,
        fence: Fence,
    ) -> Reply<'a, Opened> {
        store.open(partition, consumer, fence)
    }

    /// Messages are read.
    fn read<'a>(&'a self, store: &'a Store, read: Read) -> Reply<'a, Batch> {
        store.read(read)
    }

    /// A batch is committed.
    fn commit<'a>(&'a self, store: &'a Store, commit: Commit) -> Reply<'a, Committed> {
        store.commit(commit)
    }
}

/// A store behind an [`Interpose`], which this dereferences to.
pub struct Interposed<T> {
    store: Store,
    interpose: T,
}

impl<T: Interpose> Interposed<T> {
    /// What is not changed goes to the store as it is.
    pub fn new(store: &Store, interpose: T) -> Self {
        Self { store: store.clone(), interpose }
    }
}

impl<T> Deref for Interposed<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.interpose
    }
}

impl<T: Interpose> Journal for Interposed<T> {
    fn open<'a>(
        &'a self,
        partition: &'a PartitionId,
        consumer: &'a Consumer,
        fence: Fence,
    ) -> Reply<'a, Opened> {
        self.interpose.open(&self.store, partition, consumer, fence)
    }

    fn read(&self, read: Read) -> Reply<'_, Batch> {
        self.interpose.read(&self.store, read)
    }

    fn commit(&self, commit: Commit) -> Reply<'_, Committed> {
        self.interpose.commit(&self.store, commit)
    }

    fn folder(&self) -> Reply<'_, RandomId> {
        self.store.folder()
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
