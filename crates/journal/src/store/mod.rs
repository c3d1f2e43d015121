//! The store: a journal on this machine's disk.
//!
//! # Layout
//! - [`Store`]: the journal as its callers use it. [`config`]: its configuration. [`shared`]: what the loops share.
//! - [`log_loop`]: takes proposals, decides, applies groups; [`durable`] writes them; [`maturing`] makes delayed
//!   messages visible; [`timing`]: whether the clock is trusted. [`checkpoint`], [`flush`]: from memory and log to
//!   segments. [`reader`]: reads; [`delayed`]: reads of delayed messages. [`group`]: decisions that become durable
//!   together. [`space`]: room on the disk.
//! - [`segment`], [`snapshot`]: file formats. [`image`]: a state to be written. [`files`]: open segments.
//! - [`folder`], [`recover`]: from a folder to a state. [`identity`]: the identity of a folder. [`verify`], [`backup`]:
//!   checks and copies of everything.
//!
//! A message is written twice: to the log, with one sync for a whole group, and later, in the background, to its
//! topic's segment, compressed together with its neighbours. Memory holds the index of the blocks, and the messages
//! that are only in the log.
//!
//! # A commit, step by step
//! 1. `Shared::enqueue` puts a **proposal** into a queue that is bounded in bytes; callers that bring more wait.
//! 2. The **log loop** (`store/log_loop.rs`) takes the queue and decides each proposal (`Facts::decide`) against the state and
//!    against earlier decisions of the same group. It assigns ids here. A proposal that depends on one that is not applied yet
//!    waits for the next group.
//! 3. Each commit is one record. One write and one `fdatasync` make the group durable (`LogLoop::commit`); then the loop applies
//!    it, answers the callers and wakes waiting readers (`LogLoop::finish`).
//! 4. When 16 MiB of messages are only in memory and in the log, a **checkpoint** (`store/checkpoint.rs`) takes an image of the
//!    state and writes the messages to segments, one topic per file, compressed in blocks; then a snapshot; then the log drops
//!    what is covered. An index of blocks stays in memory.

pub mod backup;
#[cfg(test)]
mod bench;
mod checkpoint;
pub mod config;
mod delayed;
mod durable;
pub mod error;
pub(crate) mod files;
mod flush;
pub(crate) mod folder;
mod group;
pub mod identity;
mod image;
mod log_loop;
mod maturing;
pub mod metrics;
pub(crate) mod reader;
mod recover;
mod segment;
mod shared;
mod snapshot;
mod space;
mod timing;
pub mod verify;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

use menagerie_wal::{Durability, Options as LogOptions};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

pub use backup::Backup;
pub use config::{Clock, Config};
pub use error::StoreError;
pub use folder::FORMAT;
pub use identity::Lineage;
pub use metrics::Metrics;

use self::checkpoint::Checkpoints;
use self::files::Files;
use self::folder::Folder;
use self::log_loop::LogLoop;
use self::reader::{Encoded, Room};
use self::recover::{Recovered, recover};
use self::shared::{OnAnswer, Shared, size};
use crate::Fence;
use crate::commit::{Commit, Committed, Opened};
use crate::core::decide::{Answer, Proposal};
use crate::core::message;
use crate::error::JournalError;
use crate::id::{MessageId, Ticks};
use crate::identity::{Identity, RandomId};
use crate::journal::{Journal, Reply};
use crate::read::{Batch, Read};
use crate::stats::{PartitionStats, Usage};
use crate::topic::{Consumer, Created, PartitionId, Topic, TopicConfig, TopicView};

/// Longest record. Independent of the configured limit of messages: a delayed message is written again when it is due,
/// whatever the limit is by then.
const RECORD_BYTES_MAX: u32 = u32::MAX >> 1;

/// A journal on this machine's disk. Clones are the same journal. Its calls need a tokio runtime.
///
/// Dropping the last clone without [`Store::close`] is like a crash: nothing is lost, but the next opening takes
/// longer.
#[derive(Clone)]
pub struct Store {
    shared: Arc<Shared>,
    folder: Arc<Folder>,
    identity: Identity,
    ended: Arc<Ended>,
}

/// The log loop's end, for those who wait for it.
struct Ended {
    thread: std::sync::Mutex<Option<JoinHandle<Result<(), StoreError>>>>,
    shared: Arc<Shared>,
}

impl Drop for Ended {
    /// Waits for the threads, for one sync or one checkpoint at most: they must be gone before the folder is opened
    /// again.
    fn drop(&mut self) {
        self.shared.queue().abandoned = true;
        self.shared.wake();
        let thread = self.thread.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        // Its outcome was logged.
        let _ = thread.map(JoinHandle::join);
    }
}

impl Store {
    /// Opens the journal in a folder, or creates one.
    pub fn open(config: Config, metrics: Metrics) -> Result<Self, StoreError> {
        let log_loop = Self::prepare(config, metrics)?;
        let (shared, folder) = (log_loop.shared.clone(), log_loop.folder.clone());
        let start = RandomId::draw().map_err(StoreError::io("draw an id for a start of", folder.path()))?;
        let identity = Identity { folder: folder.identity()?.folder, start };
        let thread = std::thread::Builder::new()
            .name("journal-log".to_owned())
            .spawn(move || log_loop.run())
            .map_err(StoreError::io("start a thread for", folder.path()))?;
        let ended = Arc::new(Ended { thread: std::sync::Mutex::new(Some(thread)), shared: shared.clone() });
        Ok(Self { shared, folder, identity, ended })
    }

    /// Loads the data, and prepares a log loop.
    fn prepare(config: Config, metrics: Metrics) -> Result<LogLoop, StoreError> {
        let folder = Arc::new(Folder::open(&config.data)?);
        let options = LogOptions {
            segment_bytes: config.log_segment_bytes,
            record_bytes_max: RECORD_BYTES_MAX,
            durability: Durability::Fsync,
        };
        let Recovered { state, log, ids, segments, covered, steady } = recover(&folder, options)?;
        let files = Files::new(folder.segments());
        let shared = Arc::new(Shared::new(config, state, files, metrics));
        let checkpoints = Checkpoints::new(ids, segments, (covered, steady), &log);
        Ok(LogLoop::new(shared, folder, log, checkpoints))
    }

    /// Refuses everything new, makes what was accepted durable, and closes the data.
    pub fn close(&self) -> Result<(), StoreError> {
        self.stop();
        self.wait()
    }

    /// Refuses everything new; what was accepted becomes durable.
    pub fn stop(&self) {
        self.shared.queue().stopping = true;
        self.shared.wake();
    }

    /// Waits until the journal is closed, or has failed.
    pub fn wait(&self) -> Result<(), StoreError> {
        let thread = self.ended.thread.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        match thread.map(JoinHandle::join) {
            None => Ok(()),
            Some(Ok(ended)) => ended,
            Some(Err(_)) => {
                Err(StoreError::damaged(self.folder.path(), 0, "the log loop has panicked: a bug"))
            }
        }
    }

    /// The identity of this folder and start.
    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// What distinguishes the folder from copies of it.
    pub fn lineage(&self) -> Result<Lineage, StoreError> {
        self.folder.lineage()
    }

    /// Records in the folder that this start may be registered. Call it before registering: a registered start that the
    /// folder does not know ran on a copy.
    pub fn note_start(&self) -> Result<(), StoreError> {
        self.folder.note_start(self.identity.start)
    }

    /// The data folder.
    pub fn data(&self) -> &std::path::Path {
        self.folder.path()
    }

    /// Moves everything to segments, and returns when that is durable.
    pub fn checkpoint(&self) -> Result<(), StoreError> {
        let (tell, told) = std::sync::mpsc::channel();
        {
            let mut queue = self.shared.queue();
            let tell = move |outcome| {
                // The caller may have gone.
                let _ = tell.send(outcome);
            };
            if !queue.closed {
                queue.checkpoints.push(Box::new(tell));
            }
        }
        self.shared.wake();
        told.recv()
            .unwrap_or_else(|_| Err(StoreError::damaged(self.folder.path(), 0, "the journal is closed")))
    }

    /// Enqueues a proposal, after waiting for room; calls `tell` when it is durable or refused.
    pub(crate) async fn submit(&self, proposal: Proposal, tell: OnAnswer) {
        let bytes = size(&proposal);
        match self.shared.room.acquire_many(bytes as u32).await {
            Ok(room) => {
                // The log loop releases it.
                room.forget();
                self.shared.enqueue(proposal, bytes, tell);
            }
            Err(_) => tell(Err(JournalError::Closed)),
        }
    }

    async fn ask(&self, proposal: Proposal) -> Result<Answer, JournalError> {
        let (tell, told) = oneshot::channel();
        let tell: OnAnswer = Box::new(move |answer| {
            // The caller may have gone.
            let _ = tell.send(answer);
        });
        self.submit(proposal, tell).await;
        // Dropped by a log loop that has failed: it may have been written before.
        let lost = || JournalError::Unknown("the journal has failed before it answered".to_owned());
        told.await.unwrap_or_else(|_| Err(lost()))
    }

    /// Reads messages in encoded form, with the room that they take.
    pub(crate) async fn read_encoded(
        &self,
        read: &Read,
        room: Option<Room<'_>>,
    ) -> Result<(Encoded, Option<OwnedSemaphorePermit>), JournalError> {
        reader::read(&self.shared, read, room).await
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.shared.metrics
    }

    pub(crate) fn message_bytes_max(&self) -> u32 {
        self.shared.config.message_bytes_max
    }

    fn current_usage(&self) -> Usage {
        let shared = &self.shared;
        let state = shared.read();
        let partitions = || state.listed().flat_map(|(_, topic)| &topic.partitions);
        Usage {
            topics: state.listed().count() as u64,
            messages: partitions().map(|partition| partition.messages).sum(),
            disk_bytes: state.segment_bytes() + shared.log_bytes.load(Ordering::Relaxed),
            quota_bytes: shared.config.quota_bytes,
            delayed: state.delayed.len() as u64,
            dedup_ids: state.listed().map(|(_, topic)| topic.dedup.len() as u64).sum(),
            clock_ahead_ms: Ticks(state.newest).since(shared.config.clock.now()).as_millis() as u64,
        }
    }
}

fn mixed_up() -> JournalError {
    JournalError::Protocol("an answer to another question".to_owned())
}

impl Journal for Store {
    fn folder(&self) -> Reply<'_, RandomId> {
        Box::pin(async move { Ok(self.identity.folder) })
    }

    fn open<'a>(
        &'a self,
        partition: &'a PartitionId,
        consumer: &'a Consumer,
        fence: Fence,
    ) -> Reply<'a, Opened> {
        let proposal = Proposal::Open { partition: partition.clone(), consumer: consumer.clone(), fence };
        Box::pin(async move {
            match self.ask(proposal).await? {
                Answer::Opened(opened) => Ok(opened),
                _ => Err(mixed_up()),
            }
        })
    }

    fn consumer<'a>(
        &'a self,
        partition: &'a PartitionId,
        consumer: &'a Consumer,
    ) -> Reply<'a, Option<Opened>> {
        Box::pin(async move {
            let state = self.shared.read();
            let partition_key = state.partition_key(partition)?;
            let reader =
                state.partition(partition_key).and_then(|partition| partition.consumers.get(consumer));
            Ok(reader.map(crate::core::partition::Reader::opened))
        })
    }

    fn commit(&self, commit: Commit) -> Reply<'_, Committed> {
        Box::pin(async move {
            match self.ask(Proposal::Commit(commit)).await? {
                Answer::Committed(committed) => Ok(committed),
                _ => Err(mixed_up()),
            }
        })
    }

    fn read(&self, read: Read) -> Reply<'_, Batch> {
        Box::pin(async move {
            let (encoded, _) = self.read_encoded(&read, None).await?;
            let mut messages = Vec::with_capacity(encoded.count as usize);
            for part in encoded.parts {
                message::decode_all(part, &mut messages)
                    .map_err(|error| JournalError::Damaged(error.to_string()))?;
            }
            let batch = Batch { messages, gap: encoded.gap, last: encoded.last, delayed: Vec::new() };
            Ok(match encoded.delayed {
                Some(ids) => batch.waiting(ids),
                None => batch,
            })
        })
    }

    fn at_time<'a>(&'a self, partition: &'a PartitionId, time: Ticks) -> Reply<'a, Option<MessageId>> {
        Box::pin(async move {
            let read = Read::from(partition.clone(), MessageId(time)).limit(1);
            Ok(self.read(read).await?.messages.first().map(|message| message.id))
        })
    }

    fn trim<'a>(&'a self, partition: &'a PartitionId, through: MessageId) -> Reply<'a, ()> {
        let proposal = Proposal::Trim { partition: partition.clone(), through };
        Box::pin(async move { self.ask(proposal).await.map(drop) })
    }

    fn stats<'a>(&'a self, topic: &'a Topic) -> Reply<'a, Vec<PartitionStats>> {
        Box::pin(async move {
            let (shared, topic) = (self.shared.clone(), topic.clone());
            let looked = tokio::task::spawn_blocking(move || reader::stats(&shared, &topic)).await;
            looked.map_err(|_| JournalError::Closed)?
        })
    }

    fn usage(&self) -> Reply<'_, Usage> {
        Box::pin(async move { Ok(self.current_usage()) })
    }

    fn create_topic<'a>(&'a self, topic: &'a Topic, config: TopicConfig) -> Reply<'a, Created> {
        let proposal = Proposal::Create { topic: topic.clone(), config };
        Box::pin(async move {
            match self.ask(proposal).await? {
                Answer::Created(created) => Ok(created),
                _ => Err(mixed_up()),
            }
        })
    }

    fn topics(&self) -> Reply<'_, Vec<TopicView>> {
        Box::pin(async move {
            let state = self.shared.read();
            let mut topics: Vec<TopicView> = state
                .listed()
                .map(|(_, topic)| TopicView {
                    topic: topic.name.clone(),
                    config: topic.config.clone(),
                    messages: topic.partitions.iter().map(|partition| partition.messages).sum(),
                })
                .collect();
            topics.sort_by(|a, b| a.topic.cmp(&b.topic));
            Ok(topics)
        })
    }

    fn alter_topic<'a>(&'a self, topic: &'a Topic, config: TopicConfig) -> Reply<'a, ()> {
        let proposal = Proposal::Alter { topic: topic.clone(), config };
        Box::pin(async move { self.ask(proposal).await.map(drop) })
    }

    fn delete_topic<'a>(&'a self, topic: &'a Topic) -> Reply<'a, bool> {
        let proposal = Proposal::Delete { topic: topic.clone() };
        Box::pin(async move {
            match self.ask(proposal).await? {
                Answer::Deleted(there) => Ok(there),
                _ => Err(mixed_up()),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use menagerie_testkit::eventually_async;

    use super::bench::Bench;
    use super::*;
    use crate::commit::NewMessage;

    /// As after a failed sync: the log loop ends with the proposals that it has taken.
    #[tokio::test]
    async fn what_a_failing_journal_has_taken_has_an_unknown_outcome() {
        let LogLoop { shared, folder, .. } = Bench::new(16 << 20).log_loop;
        let ended = Arc::new(Ended { thread: std::sync::Mutex::default(), shared: shared.clone() });
        let id = RandomId::draw().unwrap();
        let identity = Identity { folder: id, start: id };
        let store = Store { shared: shared.clone(), folder, identity, ended };
        let partition_id = PartitionId::new(Topic::new("mail").unwrap(), 1);
        let asked =
            tokio::spawn(
                async move { store.commit(Commit::append(partition_id, NewMessage::new("x"))).await },
            );
        eventually_async("the proposal", async || shared.queue().proposals.pop_front().map(drop)).await;
        let told = asked.await.unwrap();
        assert!(matches!(told, Err(JournalError::Unknown(_))), "{told:?}");
    }
}
