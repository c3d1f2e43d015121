//! A journal in trouble.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use menagerie_journal::{
    Append, Batch, Commit, Committed, Consumer, Created, Fence, Journal, JournalError, MessageId, Opened,
    PartitionId, PartitionStats, RandomId, Read, Reply, Store, Ticks, Topic, TopicConfig, TopicView, Usage,
};
use menagerie_queues::Journals;

use crate::world::{JOURNAL, World};

/// What happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// There is no answer to opening a partition.
    Silence,
    /// Opening a partition panics the first time.
    Panic,
    /// Messages that say "large" are too large.
    SmallLimit,
}

pub struct Troubled {
    store: Store,
    trouble: Trouble,
    opened: AtomicBool,
}

impl Troubled {
    /// The world's journal, with this trouble.
    pub fn journals(world: &World, trouble: Trouble) -> Journals {
        let journal = Self { store: world.store().clone(), trouble, opened: AtomicBool::new(false) };
        Journals::from([(JOURNAL.to_owned(), Arc::new(journal) as _)])
    }
}

impl Journal for Troubled {
    fn open<'a>(
        &'a self,
        partition: &'a PartitionId,
        consumer: &'a Consumer,
        fence: Fence,
    ) -> Reply<'a, Opened> {
        match self.trouble {
            Trouble::Silence => Box::pin(std::future::pending()),
            Trouble::Panic if !self.opened.swap(true, Ordering::Relaxed) => panic!("a bug"),
            Trouble::Panic | Trouble::SmallLimit => self.store.open(partition, consumer, fence),
        }
    }

    fn read(&self, read: Read) -> Reply<'_, Batch> {
        self.store.read(read)
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

    fn commit(&self, commit: Commit) -> Reply<'_, Committed> {
        let is_large = |append: &Append| &append.message.body[..] == b"large";
        if self.trouble == Trouble::SmallLimit && commit.appends.iter().any(is_large) {
            let refused = JournalError::TooLarge { what: "a message".into(), size: 5, max: 4 };
            return Box::pin(async move { Err(refused) });
        }
        self.store.commit(commit)
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
