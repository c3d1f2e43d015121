//! Listing and cancelling delayed messages.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use menagerie_journal::{Commit, DelayedId, Edit, Edited, Journal, Message, Read, Ticks};
use menagerie_kernel::Session;
use menagerie_znodes::queues::{PartitionName, QueueName};
use thiserror::Error;

use super::browse::Browser;
use crate::coordination::claim::partition_id;
use crate::error::QueueError;
use crate::journals::Journals;
use crate::message_uuid::{MessageUuid, MessageUuidError};
use crate::meta::Meta;
use crate::meta::{Origin, Via};
use crate::story::{self, Act, ActKind};

/// Every time at which a message may be due.
pub(super) const ANY_TIME: RangeInclusive<Ticks> = Ticks(0)..=Ticks(u64::MAX);

/// Messages per read, and cancelled per commit.
pub(super) const BATCH: u32 = 1000;

/// A message that is not due yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DelayedMessage {
    /// Where it stands among the delayed messages.
    pub place: DelayedId,
    /// The partition it will appear in.
    pub partition: PartitionName,
    /// The message itself.
    pub message: Message,
}

/// A delayed message as people name it: by the id that it has for life; or, if an older version put it, by the one that
/// it has until it is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DelayedName {
    /// Its id, for life.
    Id(MessageUuid),
    /// Its id until it is due, a UUID of version 8.
    Old(DelayedId),
}

/// The text names no delayed message.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}; those put by an older version have one of version 8 while they are delayed")]
pub struct DelayedNameError(#[from] MessageUuidError);

impl FromStr for DelayedName {
    type Err = DelayedNameError;

    fn from_str(text: &str) -> Result<Self, DelayedNameError> {
        match text.parse() {
            Ok(old) => Ok(Self::Old(old)),
            Err(_) => Ok(Self::Id(text.parse()?)),
        }
    }
}

impl fmt::Display for DelayedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(id) => id.fmt(f),
            Self::Old(id) => id.fmt(f),
        }
    }
}

impl DelayedMessage {
    /// Its name.
    pub fn name(&self) -> DelayedName {
        Meta::of(&self.message).id.map_or(DelayedName::Old(self.place), DelayedName::Id)
    }
}

/// The delayed messages of some partitions of a queue.
pub struct DelayedMessages {
    browser: Browser,
    partitions: Vec<PartitionName>,
    /// Who cancels them.
    by: Option<String>,
}

impl DelayedMessages {
    /// Opens an existing queue, or one of its partitions.
    pub async fn open(
        session: &Session,
        journals: &Journals,
        queue: &QueueName,
        only: Option<u16>,
    ) -> Result<Self, QueueError> {
        let browser = Browser::open(session, journals, queue).await?;
        let partitions = browser.partitions(only)?;
        Ok(Self { browser, partitions, by: None })
    }

    /// Says who cancels them, for their stories.
    #[must_use]
    pub fn acting_as(self, by: &str) -> Self {
        Self { by: Origin::new(by, Via::Library).meta().by, ..self }
    }

    /// The messages due next.
    pub async fn next(&self, limit: u32) -> Result<Vec<DelayedMessage>, QueueError> {
        let mut all = Vec::new();
        for partition in &self.partitions {
            let (mut left, mut after) = (limit, DelayedId::ZERO);
            // The journal limits the bytes of each batch.
            while left > 0 {
                let (found, _) = self.read(partition, after, left).await?;
                let Some(last) = found.last() else { break };
                after = last.place;
                left = left.saturating_sub(u32::try_from(found.len()).unwrap_or(u32::MAX));
                all.extend(found);
            }
        }
        all.sort_by_key(|delayed| delayed.place);
        all.truncate(limit as usize);
        Ok(all)
    }

    /// The one with this id.
    pub async fn find(&self, id: MessageUuid) -> Result<Option<DelayedMessage>, QueueError> {
        let mut likely: Vec<_> = self.partitions.iter().filter(|one| id.may_be_chosen_for(one)).collect();
        if likely.is_empty() {
            likely.extend(&self.partitions);
        }
        let due = if id.is_chosen() { id.due() } else { ANY_TIME };
        for partition in likely {
            let is_it = |meta: &Meta| meta.id == Some(id);
            let found = find(&*self.browser.store, partition, due.clone(), is_it).await?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// Cancels one. `false` if there is no such delayed message: it may have become due and turned into an ordinary
    /// one.
    pub async fn cancel(&self, name: DelayedName) -> Result<bool, QueueError> {
        match name {
            // The id does not name its partition, so try all of them.
            DelayedName::Old(id) => {
                let edits: Result<_, _> = self.partitions.iter().map(|one| cancel(one, id)).collect();
                Ok(self.commit(edits?).await?.contains(&Edited::Changed))
            }
            DelayedName::Id(id) => match self.find(id).await? {
                Some(found) => Ok(self.cancel_these(&[&found]).await? > 0),
                None => Ok(false),
            },
        }
    }

    /// Cancels these, as far as they are still there, and then notes that somebody did; returns how many.
    async fn cancel_these(&self, these: &[&DelayedMessage]) -> Result<u64, QueueError> {
        let edits: Result<_, _> = these.iter().map(|one| cancel(&one.partition, one.place)).collect();
        let edited = self.commit(edits?).await?;
        let cancelled = these.iter().zip(edited).filter(|(_, edited)| *edited == Edited::Changed);
        let cancelled: Vec<_> = cancelled.map(|(one, _)| *one).collect();
        let act = |one: &&DelayedMessage| {
            let (meta, partition, by) = (Meta::of(&one.message), one.partition.clone(), self.by.clone());
            let (act, position) = (ActKind::Cancelled, None);
            // An older version gave it an id that it has only while it is delayed.
            meta.id.map(|id| Act { id, partition, position, act, by, meta: Some(meta) })
        };
        let acts: Vec<Act> = cancelled.iter().filter_map(act).collect();
        if !acts.is_empty() {
            let (store, queue) = (&*self.browser.store, self.browser.queue());
            story::note(store, queue, &self.browser.settings, acts).await;
        }
        Ok(cancelled.len() as u64)
    }

    /// Cancels all messages delayed by now; `progress` gets the running total.
    pub async fn cancel_all(&self, mut progress: impl FnMut(u64)) -> Result<u64, QueueError> {
        let mut cancelled = 0;
        for partition in &self.partitions {
            let (mut after, mut newest) = (DelayedId::ZERO, None);
            loop {
                let (found, last) = self.read(partition, after, BATCH).await?;
                let Some(end) = found.last() else { break };
                after = end.place;
                // Leave alone what others put meanwhile, or this might never end.
                let newest = *newest.get_or_insert(last);
                let old: Vec<_> = found.iter().filter(|delayed| delayed.place.put <= newest).collect();
                cancelled += self.cancel_these(&old).await?;
                progress(cancelled);
            }
        }
        Ok(cancelled)
    }

    /// Some delayed messages of a partition, and when the newest of them all was put.
    async fn read(
        &self,
        partition: &PartitionName,
        after: DelayedId,
        limit: u32,
    ) -> Result<(Vec<DelayedMessage>, Ticks), QueueError> {
        read(&*self.browser.store, partition, after, limit).await
    }

    /// Commits these edits, and says which of them changed something.
    async fn commit(&self, edits: Vec<Edit>) -> Result<Vec<Edited>, QueueError> {
        Ok(self.browser.store.commit(Commit { edits, ..Commit::default() }).await?.edits)
    }
}

fn cancel(partition: &PartitionName, id: DelayedId) -> Result<Edit, QueueError> {
    Ok(Edit::Cancel { partition: partition_id(partition)?, id })
}

/// Some delayed messages of a partition, the next due first, and when the newest of them all was put.
pub(crate) async fn read(
    store: &dyn Journal,
    partition: &PartitionName,
    after: DelayedId,
    limit: u32,
) -> Result<(Vec<DelayedMessage>, Ticks), QueueError> {
    let batch = store.read(Read::delayed(partition_id(partition)?, after).limit(limit)).await?;
    let found = batch.delayed.into_iter().zip(batch.messages);
    let found = found.map(|(place, message)| DelayedMessage { place, partition: partition.clone(), message });
    Ok((found.collect(), batch.last.0))
}

/// The first delayed message of a partition with such metadata that is due within these times.
pub(super) async fn find(
    store: &dyn Journal,
    partition: &PartitionName,
    due: RangeInclusive<Ticks>,
    is_it: impl Fn(&Meta) -> bool,
) -> Result<Option<DelayedMessage>, QueueError> {
    let mut after = DelayedId { due: *due.start(), put: Ticks(0) };
    loop {
        let (batch, _) = read(store, partition, after, BATCH).await?;
        let Some(last) = batch.last() else { return Ok(None) };
        after = last.place;
        if let Some(found) = batch.into_iter().find(|delayed| is_it(&Meta::of(&delayed.message))) {
            return Ok(Some(found));
        }
        if after.due > *due.end() {
            return Ok(None);
        }
    }
}
