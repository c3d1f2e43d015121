//! A journal that loses replies.

use std::collections::VecDeque;
use std::sync::Mutex;

use menagerie_journal::{
    Batch, Commit, Committed, Consumer, Created, Fence, Journal, JournalError, MessageId, Opened,
    PartitionId, PartitionStats, RandomId, Read, Reply, Store, Ticks, Topic, TopicConfig, TopicView, Usage,
};

/// What happens to a commit, or to the open after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It happens, but the reply is lost.
    ReplyLost,
    /// It does not happen, and the reply is lost.
    RequestLost,
    /// It happens only after the next one.
    Late,
    /// The journal is down.
    Away,
    /// The journal never answers.
    Silent,
}

/// A store behind a bad connection.
pub struct Lossy {
    store: Store,
    faults: Mutex<VecDeque<Fault>>,
    late: Mutex<Option<Commit>>,
}

impl Lossy {
    /// Commits, and the opens that check them, meet these faults in turn; then all is well.
    pub fn new(store: &Store, faults: &[Fault]) -> Self {
        let faults = Mutex::new(faults.iter().copied().collect());
        Self { store: store.clone(), faults, late: Mutex::default() }
    }

    fn fault(&self) -> Option<Fault> {
        self.faults.lock().unwrap().pop_front()
    }
}

fn unknown() -> JournalError {
    JournalError::Unknown("the line is bad".to_owned())
}

fn away() -> JournalError {
    JournalError::Unreachable { address: "here".to_owned(), why: "it is away".to_owned() }
}

impl Journal for Lossy {
    fn folder(&self) -> Reply<'_, RandomId> {
        self.store.folder()
    }

    fn open<'a>(
        &'a self,
        partition: &'a PartitionId,
        consumer: &'a Consumer,
        fence: Fence,
    ) -> Reply<'a, Opened> {
        let is_away = self.faults.lock().unwrap().front() == Some(&Fault::Away);
        if is_away {
            self.fault();
        }
        match is_away {
            true => Box::pin(async { Err(away()) }),
            false => self.store.open(partition, consumer, fence),
        }
    }

    fn consumer<'a>(
        &'a self,
        partition: &'a PartitionId,
        consumer: &'a Consumer,
    ) -> Reply<'a, Option<Opened>> {
        self.store.consumer(partition, consumer)
    }

    fn commit(&self, commit: Commit) -> Reply<'_, Committed> {
        let fault = self.fault();
        Box::pin(async move {
            match fault {
                Some(Fault::ReplyLost) => {
                    self.store.commit(commit).await?;
                    Err(unknown())
                }
                Some(Fault::RequestLost) => Err(unknown()),
                Some(Fault::Late) => {
                    *self.late.lock().unwrap() = Some(commit);
                    Err(unknown())
                }
                Some(Fault::Away) => Err(away()),
                Some(Fault::Silent) => std::future::pending().await,
                None => {
                    let committed = self.store.commit(commit).await;
                    let late = self.late.lock().unwrap().take();
                    if let Some(late) = late {
                        self.store.commit(late).await?;
                    }
                    committed
                }
            }
        })
    }

    fn read(&self, read: Read) -> Reply<'_, Batch> {
        self.store.read(read)
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
