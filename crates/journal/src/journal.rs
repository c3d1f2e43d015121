//! The trait between engines and the store of their messages.

use std::pin::Pin;

use crate::Fence;
use crate::commit::{Commit, Committed, Opened};
use crate::error::JournalError;
use crate::id::{MessageId, Ticks};
use crate::identity::RandomId;
use crate::read::{Batch, Read};
use crate::stats::{PartitionStats, Usage};
use crate::topic::{Consumer, Created, PartitionId, Topic, TopicConfig, TopicView};

/// The future of a call. Boxed, so that an engine can hold an `Arc<dyn Journal>` of any kind.
pub type Reply<'a, T> = Pin<Box<dyn Future<Output = Result<T, JournalError>> + Send + 'a>>;

/// A partitioned, durable message log.
///
/// # Promises
/// - *Durable*: an acknowledged change survives any crash. Nobody sees a change before it is durable.
/// - *Atomic*: a [`Commit`] happens whole or not at all: its appends to any partitions, the positions that it moves,
///   the state that it writes, the messages that it replaces, removes or cancels. All topics that one commit names are
///   of one [`Group`](crate::Group), the atomic domain: our store could treat all groups of a journal as one, but a
///   cluster engine has atomic batches only within, say, one stream; so a group must fit into one stream.
/// - *Ordered*: the ids of a partition rise strictly, in the order in which commits became durable. A reader that
///   continues after the last id it has seen misses nothing and sees nothing twice.
/// - *Fenced*: after [`Journal::open`] with a fence, no older fence of that partition and consumer opens it or moves its
///   position or writes its state, also after a restart. Plain appends need no fence.
/// - *Deduplicated*: of appends with the same dedup id to one topic within its window, only the first creates a
///   message, also after a restart.
///
/// # When the answer is lost
/// [`JournalError::Unknown`] means that a commit may or may not have happened. A commit whose appends all have dedup
/// ids, and that otherwise only moves positions and writes state, is idempotent: just repeat it.
///
/// A topic belongs to one journal: no call spans two of them.
pub trait Journal: Send + Sync {
    /// The data folder with the messages. Ids and positions are meaningless in another one.
    fn folder(&self) -> Reply<'_, RandomId>;

    /// Takes over a partition for a consumer: from now on, older fences of this consumer are refused. Returns the
    /// consumer's position and state. Consumers are independent; each has its own position.
    fn open<'a>(
        &'a self,
        partition: &'a PartitionId,
        consumer: &'a Consumer,
        fence: Fence,
    ) -> Reply<'a, Opened>;

    /// A consumer's position and state, without taking over. `None` if it has never opened the partition.
    fn consumer<'a>(
        &'a self,
        partition: &'a PartitionId,
        consumer: &'a Consumer,
    ) -> Reply<'a, Option<Opened>>;

    /// Commits a batch atomically. Commits of one caller happen in the order in which their futures are first polled,
    /// also when they are not awaited one by one.
    fn commit(&self, commit: Commit) -> Reply<'_, Committed>;

    /// Reads messages of one partition. If there are none yet, waits as long as the read says.
    fn read(&self, read: Read) -> Reply<'_, Batch>;

    /// The id of the first message at or after a time.
    fn at_time<'a>(&'a self, partition: &'a PartitionId, time: Ticks) -> Reply<'a, Option<MessageId>>;

    /// Drops all messages up to and including this id. A reader that has not read that far sees a gap.
    fn trim<'a>(&'a self, partition: &'a PartitionId, through: MessageId) -> Reply<'a, ()>;

    /// Each partition of a topic, with its consumers.
    fn stats<'a>(&'a self, topic: &'a Topic) -> Reply<'a, Vec<PartitionStats>>;

    /// The journal as a whole.
    fn usage(&self) -> Reply<'_, Usage>;

    /// Creates a topic; an existing one of that name is left as it is.
    fn create_topic<'a>(&'a self, topic: &'a Topic, config: TopicConfig) -> Reply<'a, Created>;

    /// All topics, by name.
    fn topics(&self) -> Reply<'_, Vec<TopicView>>;

    /// Changes a topic. Partitions can only be added, and its group stays.
    fn alter_topic<'a>(&'a self, topic: &'a Topic, config: TopicConfig) -> Reply<'a, ()>;

    /// Removes a topic with everything in it: messages, positions, state, delayed appends. False if there was none.
    fn delete_topic<'a>(&'a self, topic: &'a Topic) -> Reply<'a, bool>;
}
