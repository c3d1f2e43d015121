//! A journal that counts what is read from it, and cannot read some.

use std::sync::atomic::{AtomicU64, Ordering};

use menagerie_journal::{
    Batch, Commit, Committed, Consumer, Created, Fence, Journal, JournalError, Message, MessageId, Opened,
    PartitionId, PartitionStats, RandomId, Read, Reply, Store, Ticks, Topic, TopicConfig, TopicView, Usage,
};

pub struct Counted {
    store: Store,
    reads: AtomicU64,
    messages: AtomicU64,
    damaged: Vec<(PartitionId, MessageId)>,
}

impl Counted {
    pub fn new(store: &Store) -> Self {
        Self {
            store: store.clone(),
            reads: AtomicU64::new(0),
            messages: AtomicU64::new(0),
            damaged: Vec::new(),
        }
    }

    /// Cannot read this message any more.
    pub fn damaged(mut self, partition: PartitionId, message: MessageId) -> Self {
        self.damaged.push((partition, message));
        self
    }

    /// Reads, and messages that they returned, since the last time.
    pub fn take(&self) -> (u64, u64) {
        (self.reads.swap(0, Ordering::Relaxed), self.messages.swap(0, Ordering::Relaxed))
    }
}

impl Journal for Counted {
    fn read(&self, read: Read) -> Reply<'_, Batch> {
        Box::pin(async move {
            let partition = read.partition.clone();
            let mut batch = self.store.read(read).await?;
            let is_damaged =
                |message: &Message| self.damaged.iter().any(|one| *one == (partition.clone(), message.id));
            // As the store does: what comes before, then an error that names the ids.
            if let Some(at) = batch.messages.iter().position(is_damaged) {
                let id = batch.messages[at].id;
                if at == 0 {
                    let why = format!("bad checksum; messages {id} to {id} cannot be read");
                    return Err(JournalError::Damaged(why));
                }
                batch.messages.truncate(at);
            }
            self.reads.fetch_add(1, Ordering::Relaxed);
            self.messages.fetch_add(batch.messages.len() as u64, Ordering::Relaxed);
            Ok(batch)
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

    fn commit(&self, commit: Commit) -> Reply<'_, Committed> {
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
