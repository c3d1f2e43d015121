//! Finding messages by id. As a rule the time of an id is the message's position. A message that was delayed or retried
//! stands behind it.
//!
//! A request may name a thousand ids, so what it reads is bounded: a little for each id, where its message should be, and
//! beyond that some batches for all ids together.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use menagerie_journal::{DelayedId, Message, MessageId, Read, Ticks};
use menagerie_kernel::Session;
use menagerie_queues::admin::retries::Retries;
use menagerie_queues::admin::{Past, browse};
use menagerie_queues::{MessageUuid, Meta};
use menagerie_znodes::queues::Settings;

use crate::form::ReadForm;
use crate::ids::MessageRef;
use crate::messages::{BATCH_MESSAGES_MAX, QueueStore};
use crate::reply::Reply;
use crate::service::{queue_refusal, unavailable};

/// Batches that one request may read of the newest messages, and of what operators did, in search of messages that are
/// not where their ids say.
const BATCHES_MAX: usize = 32;

/// Batches that it may read around the places where its messages should be, beside the first of each id.
const CLOSE_BATCHES_MAX: usize = 64;

/// Batches of these for one id.
const CLOSE_BATCHES_PER_ID_MAX: usize = 32;

/// Messages and bytes of the first batch of each id.
const FIRST_MESSAGES: u32 = 256;
const FIRST_BYTES: u32 = 1 << 20;

/// Messages to look at for one that was put back: it and the note about it were stored together.
const PUT_BACK_MESSAGES: u32 = 1_000;

/// How much earlier than the time of its id a message may stand: clocks differ.
const CLOCKS_DIFFER: Duration = Duration::from_secs(600);

/// What the messages are wanted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// They are only shown.
    Show,
    /// They are replaced or deleted, so they must be the right ones.
    Change,
}

/// The search for the messages of one request.
pub(crate) struct Search<'a> {
    session: &'a Session,
    store: &'a QueueStore,
    purpose: Purpose,
    targets: Vec<&'a MessageRef>,
    wanted: HashSet<(u16, MessageUuid)>,
    close_batches_left: usize,
    /// Where we came across messages that were delayed or put back.
    seen: HashMap<(u16, MessageUuid), MessageId>,
    /// Messages that are delayed and that we came across.
    delayed: HashMap<(u16, MessageUuid), Delayed>,
    retries: Option<Retries>,
    /// Whether `retries` has all that we may read.
    has_read_retries: bool,
    /// What workers are done with, of the partitions of which we had to know.
    pasts: HashMap<u16, Past>,
    /// Where those stand that are not where their ids say, once somebody had to look.
    moved: Option<Moved>,
}

/// A message that is not due yet, and where it stands among those.
#[derive(Debug, Clone)]
pub(crate) struct Delayed {
    pub(crate) place: DelayedId,
    pub(crate) message: Message,
}

/// What is known of an operator who may have put a message back.
enum PutBack {
    /// Nobody has, as far as we have read.
    Never,
    /// Somebody has, and it is not close to the note about that.
    Once,
    /// This is the copy.
    Here(Message),
}

#[derive(Default)]
struct Moved {
    positions: HashMap<MessageRef, MessageId>,
    /// Partitions that were not read as far back as the ids say.
    cut_off: HashSet<u16>,
}

pub(crate) fn is_in_queue(target: &MessageRef, settings: &Settings) -> bool {
    (1..=settings.partitions).contains(&target.partition)
}

impl<'a> Search<'a> {
    pub(crate) fn new(
        session: &'a Session,
        store: &'a QueueStore,
        targets: &'a [MessageRef],
        settings: &Settings,
        purpose: Purpose,
    ) -> Self {
        let targets: Vec<_> = targets.iter().filter(|target| is_in_queue(target, settings)).collect();
        let wanted = targets.iter().filter_map(|target| Some((target.partition, target.id?))).collect();
        Self {
            session,
            store,
            purpose,
            targets,
            wanted,
            close_batches_left: CLOSE_BATCHES_MAX,
            seen: HashMap::new(),
            delayed: HashMap::new(),
            retries: None,
            has_read_retries: false,
            pasts: HashMap::new(),
            moved: None,
        }
    }

    /// The message with exactly this id, not another one with the same time; of one that was put back, the last copy.
    pub(crate) async fn find(&mut self, target: &MessageRef) -> Result<Option<Message>, Reply> {
        let Some(id) = target.id else { return Ok(None) };
        let is_it = |message: &Message| self.store.id_of(target.partition, message) == id;
        let first = self.store.message_at(target.partition, MessageId(id.time())).await?.filter(is_it);
        let (first, mut may_be_behind) = match first {
            Some(first) => (Some(first), false),
            None => self.once_delayed(target.partition, id).await?,
        };
        match self.put_back(target, id, first.as_ref()).await? {
            PutBack::Here(back) => return Ok(Some(back)),
            // It is gone, or stands far from the note.
            PutBack::Once => may_be_behind = true,
            PutBack::Never => {}
        }
        may_be_behind |= match &first {
            Some(first) => self.may_be_put_back(target.partition, first).await?,
            None => !self.retries().is_complete,
        };
        if first.is_some() && (self.purpose == Purpose::Show || !may_be_behind) {
            return Ok(first);
        }
        match self.find_behind(target, id).await? {
            Some(behind) => Ok(Some(behind)),
            None if may_be_behind && self.is_cut_off(target.partition).await? => Err(too_far()),
            None => Ok(first),
        }
    }

    /// Whether a change cannot tell if a message is among those that were not looked through.
    async fn is_cut_off(&mut self, partition: u16) -> Result<bool, Reply> {
        Ok(self.purpose == Purpose::Change && self.moved().await?.cut_off.contains(&partition))
    }

    /// The delayed message with this id.
    pub(crate) async fn delayed(&mut self, target: &MessageRef) -> Result<Option<Delayed>, Reply> {
        let name = self.store.queue.partition(target.partition);
        let Some(id) = target.id.filter(|id| id.may_be_chosen_for(&name)) else { return Ok(None) };
        let key = (target.partition, id);
        let mut after = DelayedId { due: *id.due().start(), put: Ticks(0) };
        let mut read = first_batch(Read::delayed(self.store.partition(target.partition)?, after));
        while !self.delayed.contains_key(&key) {
            let batch = self.store.read(read.clone()).await?;
            let Some(last) = batch.delayed.last().copied() else { break };
            for (place, message) in batch.delayed.into_iter().zip(batch.messages) {
                let id = Meta::of(&message).id.map(|id| (target.partition, id));
                if let Some(id) = id.filter(|id| self.wanted.contains(id)) {
                    self.delayed.insert(id, Delayed { place, message });
                }
            }
            if self.delayed.contains_key(&key) || last.due > *id.due().end() {
                break;
            }
            // It may be among the rest, so it is no answer that there is no such message.
            self.take_close_batch().then_some(()).ok_or_else(too_far)?;
            after = last;
            read = Read::delayed(read.partition, after).limit(BATCH_MESSAGES_MAX);
        }
        Ok(self.delayed.get(&key).cloned())
    }

    /// The message with this id, if it was delayed into this partition and stands close to when it was due; and whether it
    /// may stand farther away.
    async fn once_delayed(
        &mut self,
        partition: u16,
        id: MessageUuid,
    ) -> Result<(Option<Message>, bool), Reply> {
        if !id.may_be_chosen_for(&self.store.queue.partition(partition)) {
            return Ok((None, false));
        }
        let from = MessageId(*id.due().start());
        if let Some(found) = self.seen(partition, id, from).await? {
            return Ok((Some(found), false));
        }
        let mut read = first_batch(Read::from(self.store.partition(partition)?, from));
        for _ in 0..CLOSE_BATCHES_PER_ID_MAX {
            let batch = self.read_close(partition, read.clone()).await?;
            let Some(end) = batch.last().map(|message| message.id) else { return Ok((None, false)) };
            let is_it = |message: &Message| self.store.id_of(partition, message) == id;
            if let Some(found) = batch.into_iter().find(is_it) {
                return Ok((Some(found), false));
            }
            if !self.take_close_batch() {
                break;
            }
            read = Read::after(read.partition, end).limit(BATCH_MESSAGES_MAX);
        }
        Ok((None, true))
    }

    /// Where an operator has put it back last, after it had failed.
    async fn put_back(
        &mut self,
        target: &MessageRef,
        id: MessageUuid,
        first: Option<&Message>,
    ) -> Result<PutBack, Reply> {
        self.read_retries(1).await?;
        let may_be_put_back = match first {
            Some(first) => self.may_be_put_back(target.partition, first).await?,
            None => true,
        };
        let key = (target.partition, id);
        if may_be_put_back && !self.has_read_retries && !self.retries().last.contains_key(&key) {
            self.has_read_retries = true;
            self.read_retries(BATCHES_MAX).await?;
        }
        let Some(at) = self.retries().last.get(&key).copied() else { return Ok(PutBack::Never) };
        let (partition, near) = (target.partition, browse::put_back_near(at));
        if let Some(found) = self.seen(partition, id, *near.start()).await? {
            return Ok(PutBack::Here(found));
        }
        let mut read = Read::from(self.store.partition(partition)?, *near.start()).limit(PUT_BACK_MESSAGES);
        loop {
            let batch = self.read_close(partition, read.clone()).await?;
            let Some(end) = batch.last().map(|message| message.id) else { return Ok(PutBack::Once) };
            let is_first = |message: &Message| first.is_some_and(|first| first.id == message.id);
            let is_it = |message: &Message| self.store.id_of(partition, message) == id;
            if let Some(found) = batch.into_iter().find(|message| is_it(message) && !is_first(message)) {
                return Ok(PutBack::Here(found));
            }
            if end > *near.end() || !self.take_close_batch() {
                return Ok(PutBack::Once);
            }
            read = Read::after(read.partition, end).limit(BATCH_MESSAGES_MAX);
        }
    }

    /// Whether this message may have been put back although we have not read of it. What workers are not done with has
    /// not failed; or just now, and then it was put back just now: that we have read.
    async fn may_be_put_back(&mut self, partition: u16, first: &Message) -> Result<bool, Reply> {
        if self.retries().is_complete {
            return Ok(false);
        }
        if !self.pasts.contains_key(&partition) {
            let name = self.store.queue.partition(partition);
            let past = Past::read(&self.session.term(), &name).await;
            self.pasts.insert(partition, past.map_err(unavailable)?);
        }
        Ok(self.pasts[&partition].has(first.id))
    }

    fn retries(&self) -> &Retries {
        self.retries.as_ref().expect("whoever asks has read them")
    }

    /// Reads what operators did, for all ids at once: at first only the newest.
    async fn read_retries(&mut self, reads_max: usize) -> Result<(), Reply> {
        if self.retries.is_some() && reads_max == 1 {
            return Ok(());
        }
        let ids: HashSet<_> = self.wanted.iter().map(|(_, id)| *id).collect();
        let since = ids.iter().map(|id| id.time()).min().unwrap_or(Ticks(0));
        let (journal, queue) = (&*self.store.journal, &self.store.queue);
        let retries = Retries::read(journal, queue, &ids, since, reads_max).await;
        self.retries = Some(retries.map_err(queue_refusal)?);
        Ok(())
    }

    /// The message with this id, if we came across it at this position or behind it.
    async fn seen(&self, partition: u16, id: MessageUuid, from: MessageId) -> Result<Option<Message>, Reply> {
        let position = self.seen.get(&(partition, id)).filter(|position| **position >= from);
        let Some(position) = position else { return Ok(None) };
        let found = self.store.message_at(partition, *position).await?;
        Ok(found.filter(|message| self.store.id_of(partition, message) == id))
    }

    /// Reads messages, and remembers where those of other ids are: many were due or put back together.
    async fn read_close(&mut self, partition: u16, read: Read) -> Result<Vec<Message>, Reply> {
        let batch = self.store.read(read).await?.messages;
        for message in &batch {
            let key = Meta::of(message).id.map(|id| (partition, id));
            if let Some(key) = key.filter(|key| self.wanted.contains(key)) {
                let position = self.seen.entry(key).or_insert(message.id);
                *position = message.id.max(*position);
            }
        }
        Ok(batch)
    }

    fn take_close_batch(&mut self) -> bool {
        let is_left = self.close_batches_left > 0;
        self.close_batches_left = self.close_batches_left.saturating_sub(1);
        is_left
    }

    async fn find_behind(&mut self, target: &MessageRef, id: MessageUuid) -> Result<Option<Message>, Reply> {
        let Some(position) = self.moved().await?.positions.get(target).copied() else { return Ok(None) };
        let is_it = |message: &Message| self.store.id_of(target.partition, message) == id;
        Ok(self.store.message_at(target.partition, position).await?.filter(is_it))
    }

    async fn moved(&mut self) -> Result<&Moved, Reply> {
        let moved = match self.moved.take() {
            Some(moved) => moved,
            None => self.find_moved().await?,
        };
        Ok(self.moved.insert(moved))
    }

    /// Looks through the newest messages, for all ids at once.
    async fn find_moved(&self) -> Result<Moved, Reply> {
        let mut by_partition: BTreeMap<u16, HashMap<MessageUuid, &MessageRef>> = BTreeMap::new();
        for target in &self.targets {
            if let Some(id) = target.id {
                by_partition.entry(target.partition).or_default().insert(id, target);
            }
        }
        let (mut moved, mut batches) = (Moved::default(), 0);
        for (partition, wanted) in by_partition {
            let first = wanted.keys().map(|id| id.time()).min().unwrap_or(Ticks(0));
            let from = MessageId(first.minus(CLOCKS_DIFFER));
            let read = Read::from(self.store.partition(partition)?, from).limit(BATCH_MESSAGES_MAX);
            let mut read = read.descending();
            moved.cut_off.insert(partition);
            while batches < BATCHES_MAX {
                batches += 1;
                let batch = self.store.read(read.clone()).await?.messages;
                let Some(end) = batch.last() else {
                    moved.cut_off.remove(&partition);
                    break;
                };
                read.before = end.id;
                for message in &batch {
                    let found = Meta::of(message).id.and_then(|id| wanted.get(&id));
                    // The newest counts.
                    found.map(|target| moved.positions.entry(**target).or_insert(message.id));
                }
            }
        }
        Ok(moved)
    }
}

/// A read that may be repeated for each id.
fn first_batch(read: Read) -> Read {
    Read { bytes_max: FIRST_BYTES, ..read.limit(FIRST_MESSAGES) }
}

/// A message is not found within what a request may read, and it would be wrong to go on as if there were none.
fn too_far() -> Reply {
    let why = "Too much is stored around these messages to find them all in one request, so those that are left were not \
               changed: name fewer ids, or use `menagerie queue`.";
    Reply::error(409, "InvalidMessageID", why)
}

/// Where the message stands that a client continues after, if it was delayed: its id only says when it was due. For
/// others the time of the id counts, even if they were retried: so a reader may see messages again, but misses none.
pub(crate) async fn position_of_marker(
    store: &QueueStore,
    partition: u16,
    form: &ReadForm,
) -> Result<Option<MessageId>, Reply> {
    let Some(id) = form.marker else { return Ok(None) };
    let name = store.queue.partition(partition);
    if !id.may_be_chosen_for(&name) {
        return Ok(None);
    }
    let found = browse::once_delayed(&*store.journal, &name, id).await.map_err(queue_refusal)?;
    Ok(found.map(|message| message.id))
}
