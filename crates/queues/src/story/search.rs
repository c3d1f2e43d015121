//! Finds the outcomes of one message among those of millions.
//!
//! Pages are in the order of time, and their `top` never falls. So a binary search over time finds the first page that can
//! have the message; its outcomes are there or behind it, far behind if the message was tried again while others went on.

use std::time::Duration;

use menagerie_journal::{Journal, JournalError, Message, MessageId, PartitionId, Read, Ticks};

use super::matching::has;
use super::{Entry, Outcome, Page, reader};
use crate::message_uuid::MessageUuid;

/// A search ends when it is this close in time.
const CLOSE: Duration = Duration::from_millis(1);
/// Pages before the one that was found to look at, too: the owner before may have been ahead.
const PAGES_BEFORE: u32 = 4;
/// Pages of one read, and bytes.
const PAGES: u32 = 32;
const BYTES: u32 = 1 << 20;
/// The same, once an outcome is not where it is as a rule.
const PAGES_FAR: u32 = 1_000;
const BYTES_FAR: u32 = 4 << 20;
/// After so many pages an outcome is not where it is as a rule.
const PAGES_NEAR: usize = 512;
/// Most pages to look through for one message, and bytes of them: half an hour of a busy partition, hours of others.
const PAGES_MAX: usize = 100_000;
const BYTES_MAX: usize = 256 << 20;
/// Pages to read behind the end of a message: another owner may have run it again, and recorded only that.
const PAGES_BEHIND_END: usize = 16;
/// How much earlier than announced an attempt may seem to end: clocks differ.
const CLOCK_SKEW: Duration = Duration::from_secs(2);

/// An outcome of a message, and the worker that wrote it.
pub type Found = (String, Entry);

/// What was told of a message last.
#[derive(Debug, Clone, Default)]
pub(super) struct Told {
    /// The newest outcome but for attempts that were stopped.
    outcome: Option<Entry>,
    /// The newest attempt that was stopped after that.
    stopped: Option<u32>,
}

impl Told {
    /// Adds an outcome that is older than all before.
    pub fn add_older(&mut self, entry: &Entry) {
        match entry.outcome {
            _ if self.outcome.is_some() => {}
            Outcome::Stopped => drop(self.stopped.get_or_insert(entry.attempt)),
            // Whichever attempt it was, the message was not recorded then.
            Outcome::Orphaned => drop(self.stopped.get_or_insert(u32::MAX)),
            _ => self.outcome = Some(entry.clone()),
        }
    }

    /// The newest outcome that counts, for a message that workers are done with (`is_past`), or are not.
    pub fn last(&self, is_past: bool) -> Option<&Entry> {
        let is_followed = |end: &Entry| self.stopped.is_some_and(|stopped| end.attempt <= stopped);
        // An end that was told and never recorded does not count once another attempt has followed. A recorded one does:
        // what is told behind it comes from a worker that woke up long after it had lost the message.
        self.outcome.as_ref().filter(|entry| is_past || !entry.outcome.is_final() || !is_followed(entry))
    }

    /// The newest outcome, but for attempts that were stopped.
    pub fn outcome(self) -> Option<Entry> {
        self.outcome
    }
}

/// What a search for the outcomes of a message gave.
#[derive(Debug, Default)]
pub(super) struct Outcomes {
    /// Oldest first.
    pub found: Vec<Found>,
    /// Some pages cannot be read.
    pub is_damaged: bool,
    /// There are more pages, and the search has stopped before them.
    pub is_cut_short: bool,
}

impl Outcomes {
    /// How the last attempt ended that counts. `is_past`: workers are done with the message.
    pub fn last(&self, is_past: bool) -> Option<Outcome> {
        let mut told = Told::default();
        self.found.iter().rev().for_each(|(_, entry)| told.add_older(entry));
        Some(told.last(is_past)?.outcome)
    }

    /// Whether the first attempt is not told, although a later one is.
    pub fn lacks_its_begin(&self) -> bool {
        let attempts = self.found.iter().map(|(_, entry)| entry.attempt);
        let first = attempts.filter(|attempt| *attempt > 0).min();
        let orphaned = self.found.iter().filter(|(_, entry)| entry.outcome == Outcome::Orphaned).count();
        first.is_some_and(|first| first as usize > 1 + orphaned)
    }

    fn has_end(&self, is_past: bool) -> bool {
        self.last(is_past).is_some_and(Outcome::is_final)
    }

    /// When the next attempt may end at the earliest, if that was announced.
    fn next_attempt(&self) -> Option<MessageId> {
        let (_, entry) = self.found.last()?;
        let next = entry.at.plus(Duration::from_millis(entry.next_ms?));
        Some(MessageId(next.minus(CLOCK_SKEW)))
    }

    /// Adds those of a page.
    fn add(&mut self, page: Page, position: MessageId) {
        for entry in page.entries.into_iter().filter(|entry| entry.position == position) {
            let found = (page.worker.clone(), entry);
            // A worker writes a page again if it does not know whether the journal has it.
            if !self.found.contains(&found) {
                self.found.push(found);
            }
        }
    }
}

/// All outcomes of the message at this position, oldest first. Empty if there are none (yet, or any more).
pub async fn outcomes(
    journal: &dyn Journal,
    pages: &PartitionId,
    position: MessageId,
) -> Result<Vec<Found>, JournalError> {
    Ok(look_up(journal, pages, position, false).await?.found)
}

/// The outcomes of the message at this position. Workers tell an outcome before they record it, so an end is the end only
/// if workers are done with the message (`is_past`); else the next owner may have told another one.
pub(super) async fn look_up(
    journal: &dyn Journal,
    pages: &PartitionId,
    position: MessageId,
    is_past: bool,
) -> Result<Outcomes, JournalError> {
    let mut outcomes = Outcomes::default();
    let Some(mut from) = first_page(journal, pages, position).await? else { return Ok(outcomes) };
    let mark = Page::mark(position);
    let (mut pages_read, mut bytes_read, mut in_vain, mut behind_end) = (0, 0, 0, 0);
    loop {
        let (limit, bytes_max) = if in_vain < PAGES_NEAR { (PAGES, BYTES) } else { (PAGES_FAR, BYTES_FAR) };
        let read = Read { bytes_max, ..Read::after(pages.clone(), from).limit(limit) };
        let stretch = reader::read(journal, read).await?;
        outcomes.is_damaged |= stretch.is_damaged;
        let Some(last) = stretch.messages.last().map(|message| message.id) else { return Ok(outcomes) };
        for message in &stretch.messages {
            (pages_read, bytes_read) = (pages_read + 1, bytes_read + message.body.len());
            (in_vain, behind_end) = (in_vain + 1, behind_end + usize::from(outcomes.has_end(is_past)));
            // Most pages name other messages; reading them as JSON takes much longer than this.
            if has(&message.body, &mark) {
                let before = outcomes.found.len();
                parse(message).into_iter().for_each(|page| outcomes.add(page, position));
                if outcomes.found.len() > before {
                    (in_vain, behind_end) = (0, 0);
                }
            }
        }
        if is_past && behind_end >= PAGES_BEHIND_END {
            return Ok(outcomes);
        }
        from = last;
        // The next attempt may be far away: go on where it was announced.
        if in_vain >= PAGES_NEAR
            && let Some(next) = outcomes.next_attempt().filter(|next| *next > from)
        {
            from = next;
        }
        if pages_read >= PAGES_MAX || bytes_read >= BYTES_MAX {
            outcomes.is_cut_short = true;
            return Ok(outcomes);
        }
    }
}

/// Right before the first page that can have an outcome of this message; `None` if no page can.
async fn first_page(
    journal: &dyn Journal,
    pages: &PartitionId,
    position: MessageId,
) -> Result<Option<MessageId>, JournalError> {
    let newest = Read::after(pages.clone(), MessageId::ZERO).limit(1).descending();
    let newest = reader::read(journal, newest).await?;
    let Some(mut end) = newest.messages.first().map(|message| message.id) else { return Ok(None) };
    // An outcome is written after its message.
    let mut begin = position;
    while end.0.since(begin.0) > CLOSE {
        let middle = MessageId(Ticks(begin.0.0 + (end.0.0 - begin.0.0) / 2));
        let batch = reader::read(journal, Read::after(pages.clone(), middle).limit(1)).await?;
        match batch.messages.first() {
            Some(message) if parse(message).is_some_and(|page| page.top < position) => {
                begin = message.id.min(end)
            }
            Some(_) | None => end = middle,
        }
    }
    let before = Read { before: begin.next(), ..Read::after(pages.clone(), MessageId::ZERO) };
    let before = reader::read(journal, before.limit(PAGES_BEFORE).descending()).await?;
    let from = before.messages.last().map_or(begin, |message| message.id.previous());
    Ok(Some(from.max(position)))
}

/// The position at which the message with this id has expired, if that is on one of the first pages after its put.
pub(super) async fn expired(
    journal: &dyn Journal,
    pages: &PartitionId,
    id: MessageUuid,
) -> Result<Option<MessageId>, JournalError> {
    let (mut from, mut read) = (MessageId(id.time()), 0);
    while read < PAGES_NEAR {
        let next = Read { bytes_max: BYTES, ..Read::after(pages.clone(), from).limit(PAGES) };
        let batch = reader::read(journal, next).await?.messages;
        let Some(last) = batch.last() else { return Ok(None) };
        let mut entries = batch.iter().filter_map(parse).flat_map(|page| page.entries);
        let is_it = |entry: &Entry| entry.meta.as_ref().is_some_and(|meta| meta.id == Some(id));
        if let Some(entry) = entries.find(is_it) {
            return Ok(Some(entry.position));
        }
        (from, read) = (last.id, read + batch.len());
    }
    Ok(None)
}

/// Whether its time to live has ended.
pub(crate) fn is_expired(message: &Message) -> bool {
    message.expires.is_some_and(|end| end <= Ticks::now())
}

fn parse(message: &Message) -> Option<Page> {
    serde_json::from_slice(&message.body).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(attempts: &[(u32, Outcome)]) -> Outcomes {
        let entry = |(attempt, outcome): &(u32, Outcome)| Entry {
            position: MessageId(Ticks(17)),
            at: Ticks(18),
            attempt: *attempt,
            took_ms: None,
            outcome: *outcome,
            error: None,
            next_ms: None,
            meta: None,
        };
        let found = attempts.iter().map(|attempt| ("w1".to_owned(), entry(attempt))).collect();
        Outcomes { found, ..Outcomes::default() }
    }

    #[test]
    fn the_last_outcome_counts_and_one_that_another_attempt_followed_does_not() {
        use Outcome::{Done, Expired, Failed, Retry, Skipped, Stopped};
        for (attempts, last) in [
            (&[][..], None),
            (&[(1, Stopped)], None),
            (&[(1, Retry), (2, Stopped)], Some(Retry)),
            (&[(1, Done), (2, Stopped)], None),
            (&[(1, Done), (2, Retry)], Some(Retry)),
            (&[(1, Failed), (2, Done)], Some(Done)),
            // A zombie's.
            (&[(1, Retry), (2, Done), (1, Stopped)], Some(Done)),
        ] {
            assert_eq!(told(attempts).last(false), last, "{attempts:?}");
        }
        // What is recorded has ended, whatever a zombie tells afterwards: a message that expired has no attempt at all.
        for (attempts, last) in [
            (&[(1, Skipped), (1, Stopped)], Skipped),
            (&[(0, Expired), (1, Stopped)], Expired),
            (&[(1, Done), (2, Stopped)], Done),
            (&[(1, Retry), (2, Stopped)], Retry),
        ] {
            assert_eq!(told(attempts).last(true), Some(last), "{attempts:?}");
        }
        assert!(told(&[(2, Done)]).lacks_its_begin() && !told(&[(1, Retry), (2, Done)]).lacks_its_begin());
    }

    #[test]
    fn a_page_that_was_written_twice_counts_once() {
        let entries =
            told(&[(1, Outcome::Retry), (2, Outcome::Done)]).found.into_iter().map(|(_, entry)| entry);
        let page = Page { worker: "w1".to_owned(), top: MessageId(Ticks(17)), entries: entries.collect() };
        let mut outcomes = Outcomes::default();
        for worker in ["w1", "w1", "w2"] {
            let page = Page { worker: worker.to_owned(), ..page.clone() };
            outcomes.add(page, MessageId(Ticks(17)));
        }
        assert_eq!(outcomes.found.len(), 4, "two attempts of each worker");
    }

    #[test]
    fn a_page_has_the_mark_of_each_of_its_messages() {
        let entries: Vec<Entry> =
            told(&[(1, Outcome::Done)]).found.into_iter().map(|(_, entry)| entry).collect();
        let page = Page { worker: "w1".to_owned(), top: MessageId(Ticks(20)), entries };
        let page = serde_json::to_vec(&page).unwrap();
        assert!(has(&page, &Page::mark(MessageId(Ticks(17)))));
        assert!(!has(&page, &Page::mark(MessageId(Ticks(20)))));
    }
}
