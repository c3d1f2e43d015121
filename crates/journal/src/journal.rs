//! The trait between engines and whatever keeps their messages.

use std::pin::Pin;

use crate::Fence;
use crate::commit::{Commit, Committed, Opened};
use crate::error::JournalError;
use crate::id::{MessageId, Ticks};
use crate::identity::RandomId;
use crate::read::{Batch, Read};
use crate::stats::{PartitionStats, Usage};
use crate::topic::{Consumer, Created, PartitionId, Topic, TopicConfig, TopicView};

/// What a call gives, later. Boxed, so that an engine can hold an `Arc<dyn Journal>` and not care which one it is.
pub type Reply<'a, T> = Pin<Box<dyn Future<Output = Result<T, JournalError>> + Send + 'a>>;

/// A partitioned, durable message log.
///
/// # Promises
/// - *Durable*: what a call answered is there after any crash. Nobody sees what is not durable.
/// - *Atomic*: a [`Commit`] happens whole or not at all: its appends to any partitions, the positions that it moves, the
///   state that it writes, the messages that it replaces, removes or cancels. All topics that one commit names are of one
///   [`Group`](crate::Group), the atomic domain: in our store all groups of a journal could be one, but a cluster
///   engine has atomic batches only within, say, one stream; so a group is what must fit into one stream.
/// - *Ordered*: the ids of a partition rise strictly, in the order in which commits became durable. A reader that asks
///   for what is after the last id it has seen misses nothing and sees nothing twice.
/// - *Fenced*: after [`Journal::open`] with a fence, no older fence of that partition and consumer opens it or moves its
///   position or writes its state, also after a restart. Plain appends need no fence.
/// - *Deduplicated*: of appends with the same dedup id to one topic within its window, only the first makes a message,
///   also after a restart.
///
/// # When the answer is lost
/// [`JournalError::Unknown`] means that a commit may have happened or not. A commit whose appends all have dedup ids, and
/// that else only moves positions and writes state, can simply be made again.
///
/// A topic belongs to one journal: no call spans two of them.
pub trait Journal: Send + Sync {
    /// Which data folder the messages are in. Ids and positions mean nothing in another one.
    fn folder(&self) -> Reply<'_, RandomId>;

    /// Takes a partition over for a consumer: from now on, older fences of this consumer are refused. Tells how far it
    /// had come and what it had stored. A journal does not care who consumers are; each has its own position.
    fn open<'a>(
        &'a self,
        partition: &'a PartitionId,
        consumer: &'a Consumer,
        fence: Fence,
    ) -> Reply<'a, Opened>;

    /// What a consumer has stored, without taking anything over. Nothing, if it has never opened the partition.
    fn consumer<'a>(
        &'a self,
        partition: &'a PartitionId,
        consumer: &'a Consumer,
    ) -> Reply<'a, Option<Opened>>;

    /// Makes everything in the batch happen together. Commits of one caller happen in the order in which their futures
    /// are first polled, also when they are not awaited one by one.
    fn commit(&self, commit: Commit) -> Reply<'_, Committed>;

    /// Messages of one partition. Where there are none yet, waits as long as the read says.
    fn read(&self, read: Read) -> Reply<'_, Batch>;

    /// The id of the first message at or after a time.
    fn at_time<'a>(&'a self, partition: &'a PartitionId, time: Ticks) -> Reply<'a, Option<MessageId>>;

    /// Forgets all messages up to this id, included. A reader that had not come so far is told of the gap.
    fn trim<'a>(&'a self, partition: &'a PartitionId, through: MessageId) -> Reply<'a, ()>;

    /// Each partition of a topic, with its consumers.
    fn stats<'a>(&'a self, topic: &'a Topic) -> Reply<'a, Vec<PartitionStats>>;

    /// The journal as a whole.
    fn usage(&self) -> Reply<'_, Usage>;

    /// Makes a topic, unless there is one of that name; then it is left as it is.
    fn create_topic<'a>(&'a self, topic: &'a Topic, config: TopicConfig) -> Reply<'a, Created>;

    /// All topics, by name.
    fn topics(&self) -> Reply<'_, Vec<TopicView>>;

    /// Changes a topic. Partitions can only be added, and its group stays.
    fn alter_topic<'a>(&'a self, topic: &'a Topic, config: TopicConfig) -> Reply<'a, ()>;

    /// Removes a topic with everything in it: messages, positions, state, delayed appends. False if there was none.
    fn delete_topic<'a>(&'a self, topic: &'a Topic) -> Reply<'a, bool>;
}
