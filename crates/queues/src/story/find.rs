//! Finds the messages of a queue by key, content and state.
//!
//! Everything is read once, from the newest back, and no further than the wanted number of messages needs: the failed
//! messages, the delayed ones, what operators did, and then each partition together with the pages of its outcomes.
//! Outcomes are written after their messages, so those of a stretch of messages are all on the pages behind its begin;
//! what is kept meanwhile are the outcomes of older messages, as many as waited at that time, and what was found.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use menagerie_journal::{DelayedId, Journal, Message, MessageId, PartitionId, Read, Ticks};
use menagerie_kernel::Session;
use menagerie_znodes::queues::{PartitionName, QueueName};

use super::act::{self, ActKind};
use super::matching::{Collected, Filter, Finding, FoundMessage};
use super::search::{Told, is_expired};
use super::state::Facts;
use super::{Outcome, Page, State, outcomes_of, reader, running_in};
use crate::admin::failed::FailedMessages;
use crate::admin::past::Past;
use crate::admin::{delayed, journal_of, require_settings};
use crate::coordination::claim::partition_id;
use crate::core::activity::AllRunning;
use crate::error::QueueError;
use crate::journals::Journals;
use crate::message_uuid::MessageUuid;
use crate::meta::Meta;

/// Messages of one read.
const MESSAGES: u32 = 1000;
/// Pages of one read, and bytes.
const PAGES: u32 = 32;
const PAGES_BYTES: u32 = 1 << 20;

/// Finds messages of a queue: of those that match, the newest.
pub async fn find(
    session: &Session,
    journals: &Journals,
    queue: &QueueName,
    filter: Filter,
) -> Result<Finding, QueueError> {
    let settings = require_settings(&session.term(), queue).await?;
    let store = journal_of(journals, queue, &settings)?;
    let partitions: Vec<_> = (1..=settings.partitions).map(|number| queue.partition(number)).collect();
    let mut finder = Finder {
        store,
        collected: Collected::new(filter.limit),
        filter,
        failed: HashSet::new(),
        dropped: HashSet::new(),
    };
    let wanted = finder.filter.state;
    // Before the failed messages: what workers are done with by now is among them, if it has failed.
    let mut pasts = Vec::new();
    if !matches!(wanted, Some(State::Delayed | State::Failed)) {
        for partition in &partitions {
            pasts.push(Past::read(&session.term(), partition).await?);
        }
    }
    if wanted != Some(State::Delayed) {
        finder.failed(&FailedMessages::open(session, journals, queue).await?).await?;
    }
    if finder.filter.wants(State::Delayed) {
        for partition in &partitions {
            finder.delayed(partition).await?;
        }
    }
    if !pasts.is_empty() {
        finder.acts(queue).await?;
    }
    for (partition, past) in partitions.iter().zip(&pasts) {
        let pages = Pages::new(outcomes_of(queue, partition.number())?, finder.filter.from);
        let running = running_in(&session.term(), &*finder.store, partition).await?;
        finder.partition(partition, past, &running, pages).await?;
    }
    Ok(finder.collected.finding())
}

struct Finder {
    store: Arc<dyn Journal>,
    filter: Filter,
    collected: Collected,
    /// Messages that are among the failed ones.
    failed: HashSet<MessageUuid>,
    /// Messages that an operator has dropped.
    dropped: HashSet<MessageUuid>,
}

impl Finder {
    /// Keeps a message that came at this time, if it is wanted.
    fn consider(&mut self, at: Ticks, found: FoundMessage, body: Option<&[u8]>) {
        if self.filter.matches(&found, body) {
            self.collected.add(at, found);
        }
    }

    /// The failed messages, newest first.
    async fn failed(&mut self, failed: &FailedMessages) -> Result<(), QueueError> {
        let (after, mut before) = (self.filter.from.previous(), MessageId::MAX);
        loop {
            let batch = failed.newest_between(after, before, MESSAGES).await?;
            let Some(last) = batch.last() else { return Ok(()) };
            before = last.position;
            for one in &batch {
                self.failed.insert(one.id);
                let found = FoundMessage::failed(one, failed.place());
                self.consider(one.position.0, found, Some(&one.message.body));
            }
            if self.filter.state == Some(State::Failed) && self.collected.is_enough(before.0) {
                return Ok(());
            }
        }
    }

    /// The delayed messages of a partition. They are in the order in which they fall due, so all are read.
    async fn delayed(&mut self, partition: &PartitionName) -> Result<(), QueueError> {
        let (from, mut after) = (self.filter.from.0, DelayedId::ZERO);
        loop {
            let (batch, _) = delayed::read(&*self.store, partition, after, MESSAGES).await?;
            let Some(last) = batch.last() else { return Ok(()) };
            after = last.place;
            for one in batch.iter().filter(|one| one.place.put >= from) {
                let (meta, id) = (Meta::of(&one.message), one.name().to_string());
                let put = meta.put.unwrap_or(one.place.put);
                let found = FoundMessage::new(id, partition.clone(), None, State::Delayed, put);
                let found = FoundMessage { key: meta.key, ..found }.with_body(&one.message);
                self.consider(put, found, Some(&one.message.body));
            }
        }
    }

    /// What operators have dropped. Of those that were cancelled or deleted, nothing else is left.
    async fn acts(&mut self, queue: &QueueName) -> Result<(), QueueError> {
        let mut after = self.filter.from.previous();
        loop {
            let (batch, last) = act::after(&*self.store, queue, after).await?;
            let Some(last) = last else { return Ok(()) };
            after = last;
            for (at, act) in batch.acts {
                match act.act {
                    ActKind::Retried | ActKind::Purged | ActKind::Skipped => {}
                    ActKind::Forgotten => {
                        self.dropped.insert(act.id);
                    }
                    ActKind::Cancelled | ActKind::Deleted => {
                        let meta = act.meta.unwrap_or_default();
                        let (id, put) = (act.id.to_string(), meta.put.unwrap_or(act.id.time()));
                        let found = FoundMessage::new(id, act.partition, act.position, State::Forgotten, put);
                        self.consider(at.0, FoundMessage { key: meta.key, ..found }, None);
                    }
                }
            }
        }
    }

    /// The messages of a partition, newest first.
    async fn partition(
        &mut self,
        partition: &PartitionName,
        past: &Past,
        running: &AllRunning,
        mut pages: Pages,
    ) -> Result<(), QueueError> {
        let from = match self.filter.state {
            // What is before the cursor neither waits nor is tried again. With `--ack before`, the one at it may run.
            Some(State::Waiting | State::Running | State::Retrying) => self.filter.from.max(past.cursor),
            _ => self.filter.from,
        };
        let wants_expired = self.filter.wants(State::Expired) && self.filter.contains.is_none();
        let (mut retried, mut before) = (HashSet::new(), MessageId::MAX);
        loop {
            let read = Read::after(partition_id(partition)?, from.previous()).limit(MESSAGES).descending();
            let batch = self.store.read(Read { before, ..read }.with_expired()).await?.messages;
            let expired: HashSet<_> =
                batch.iter().filter(|message| is_expired(message)).map(|message| message.id).collect();
            let begin = batch.last().map_or(from, |message| message.id);
            let candidates = self.candidates(partition, &batch, &mut retried);
            if wants_expired || !candidates.is_empty() {
                pages.read_back_to(&*self.store, begin, before).await?;
            }
            let mut told = pages.split_off(begin);
            for (id, position, found) in candidates {
                let is_past = past.has(position);
                let last = told.get(&position).and_then(|told| told.last(is_past));
                let facts = Facts {
                    is_dropped: self.dropped.contains(&id),
                    is_past,
                    is_running: running.has(id, position),
                    is_expired: expired.contains(&position),
                    ..Facts::default()
                };
                let found = found.with_state(facts, last);
                if self.filter.wants(found.state) {
                    self.collected.add(position.0, found);
                }
            }
            batch.iter().for_each(|message| drop(told.remove(&message.id)));
            for (position, told) in told {
                if let Some(entry) = told.outcome().filter(|entry| entry.outcome == Outcome::Expired)
                    && wants_expired
                {
                    self.consider(position.0, FoundMessage::expired(partition, &entry), None);
                }
            }
            if batch.is_empty() || self.collected.is_enough(begin.0) {
                return Ok(());
            }
            before = begin;
        }
    }

    /// Those with the wanted key and content. One that was put back stands in its partition twice, and one that failed
    /// among the failed messages, too: it counts only where it is now.
    fn candidates(
        &self,
        partition: &PartitionName,
        batch: &[Message],
        retried: &mut HashSet<MessageUuid>,
    ) -> Vec<(MessageUuid, MessageId, FoundMessage)> {
        let mut candidates = Vec::new();
        for message in batch {
            let (meta, id) = (Meta::of(message), MessageUuid::of(partition, message));
            let is_elsewhere = retried.contains(&id) || self.failed.contains(&id);
            if meta.retries > 0 {
                retried.insert(id);
            }
            if is_elsewhere {
                continue;
            }
            let found = FoundMessage::queued(partition, message, meta);
            if self.filter.fits(&found, Some(&message.body)) {
                candidates.push((id, message.id, found));
            }
        }
        candidates
    }
}

/// The outcomes of a partition, read from the newest back.
struct Pages {
    partition: PartitionId,
    from: MessageId,
    before: MessageId,
    /// What was told last of each message.
    last: BTreeMap<MessageId, Told>,
}

impl Pages {
    fn new(partition: PartitionId, from: MessageId) -> Self {
        Self { partition, from, before: MessageId::MAX, last: BTreeMap::new() }
    }

    /// Reads all pages that can have outcomes of messages at this position or behind it. Those of messages from `before`
    /// on are of no use any more.
    async fn read_back_to(
        &mut self,
        store: &dyn Journal,
        position: MessageId,
        before: MessageId,
    ) -> Result<(), QueueError> {
        while self.before > position {
            let read = Read::after(self.partition.clone(), self.from.previous()).limit(PAGES).descending();
            let read = Read { before: self.before, bytes_max: PAGES_BYTES, ..read };
            let pages = reader::read(store, read).await?.messages;
            self.before = pages.last().map_or(MessageId::ZERO, |page| page.id);
            let pages = pages.iter().filter_map(|page| serde_json::from_slice::<Page>(&page.body).ok());
            pages.for_each(|page| self.add(page, before));
        }
        Ok(())
    }

    /// Adds a page that is older than all before: what it says of messages before this position.
    fn add(&mut self, page: Page, before: MessageId) {
        for entry in page.entries.iter().rev().filter(|entry| entry.position < before) {
            self.last.entry(entry.position).or_default().add_older(entry);
        }
    }

    /// Takes what was told of messages at this position or behind it.
    fn split_off(&mut self, position: MessageId) -> BTreeMap<MessageId, Told> {
        self.last.split_off(&position)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Entry;
    use super::*;

    fn page(positions: impl IntoIterator<Item = u64>) -> Page {
        let entry = |position| Entry {
            position: MessageId(Ticks(position)),
            at: Ticks(position),
            attempt: 1,
            took_ms: None,
            outcome: Outcome::Done,
            error: None,
            next_ms: None,
            meta: None,
        };
        Page {
            worker: "w1".to_owned(),
            top: MessageId::MAX,
            entries: positions.into_iter().map(entry).collect(),
        }
    }

    #[test]
    fn outcomes_of_messages_that_were_looked_at_are_not_kept() {
        let mut pages = Pages::new(outcomes_of(&"mail".parse().unwrap(), 1).unwrap(), MessageId::ZERO);
        pages.add(page(900..1_000), MessageId(Ticks(950)));
        pages.add(page(0..900), MessageId(Ticks(10)));
        assert_eq!(pages.last.len(), 50 + 10);
    }

    #[test]
    fn an_end_that_was_not_recorded_does_not_count_once_another_attempt_has_followed() {
        let mut pages = Pages::new(outcomes_of(&"mail".parse().unwrap(), 1).unwrap(), MessageId::ZERO);
        let stopped = |mut page: Page| {
            page.entries.iter_mut().for_each(|entry| (entry.attempt, entry.outcome) = (2, Outcome::Stopped));
            page
        };
        pages.add(stopped(page(7..8)), MessageId::MAX);
        pages.add(page(7..9), MessageId::MAX);
        let last = |position, is_past| {
            let told = pages.last.get(&MessageId(Ticks(position)))?;
            told.last(is_past).map(|entry| entry.outcome)
        };
        assert_eq!((last(7, false), last(7, true)), (None, Some(Outcome::Done)));
        assert_eq!(last(8, false), Some(Outcome::Done));
    }
}
