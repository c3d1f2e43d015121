//! Finds the outcomes of one message among those of millions.
//!
//! Pages are in the order of time, and their `top` rises as long as one worker writes them. So a binary search over time
//! finds the first page that can have the message; its outcomes are there or behind it.

use std::time::Duration;

use menagerie_journal::{Journal, JournalError, Message, MessageId, PartitionId, Read, Ticks};

use super::{Entry, Page};
use crate::message_uuid::MessageUuid;

/// A search ends when it is this close in time.
const CLOSE: Duration = Duration::from_millis(1);
/// Pages before the one that was found to look at, too: the owner before may have been ahead.
const PAGES_BEFORE: u32 = 4;
/// Pages of one read, and bytes.
const PAGES: u32 = 32;
const BYTES: u32 = 1 << 20;
/// Most pages to read from one place on.
const PAGES_MAX: u32 = 512;
/// How much earlier than announced an attempt may seem to end: clocks differ.
const CLOCK_SKEW: Duration = Duration::from_secs(2);

/// An outcome of a message, and the worker that wrote it.
pub type Found = (String, Entry);

/// All outcomes of the message at this position, oldest first. Empty if there are none (yet, or any more).
pub async fn outcomes(
    journal: &dyn Journal,
    pages: &PartitionId,
    position: MessageId,
) -> Result<Vec<Found>, JournalError> {
    let Some(mut from) = first_page(journal, pages, position).await? else { return Ok(Vec::new()) };
    let mut found: Vec<Found> = Vec::new();
    let mut read = 0;
    loop {
        let batch =
            journal.read(Read { bytes_max: BYTES, ..Read::after(pages.clone(), from).limit(PAGES) }).await?;
        let Some(last) = batch.messages.last().map(|message| message.id) else { return Ok(found) };
        for message in &batch.messages {
            let Some(page) = parse(message) else { continue };
            let ours = page.entries.into_iter().filter(|entry| entry.position == position);
            for entry in ours {
                let is_final = entry.outcome.is_final();
                found.push((page.worker.clone(), entry));
                if is_final {
                    return Ok(found);
                }
            }
        }
        from = last;
        read += batch.messages.len() as u32;
        if read >= PAGES_MAX {
            // The next attempt may be far away: go on where it was announced.
            let next = found
                .last()
                .and_then(|(_, entry)| Some(entry.at.plus(Duration::from_millis(entry.next_ms?))));
            match next.map(|next| MessageId(next.minus(CLOCK_SKEW))).filter(|next| *next > from) {
                Some(next) => (from, read) = (next, 0),
                None => return Ok(found),
            }
        }
    }
}

/// Right before the first page that can have an outcome of this message; `None` if no page can.
async fn first_page(
    journal: &dyn Journal,
    pages: &PartitionId,
    position: MessageId,
) -> Result<Option<MessageId>, JournalError> {
    let newest = match journal.read(Read::after(pages.clone(), MessageId::ZERO).limit(1).descending()).await {
        // Nothing has been written yet.
        Err(JournalError::NoTopic { .. } | JournalError::NoPartition { .. }) => return Ok(None),
        batch => batch?,
    };
    let Some(mut end) = newest.messages.first().map(|message| message.id) else { return Ok(None) };
    // An outcome is written after its message.
    let mut begin = position;
    while end.0.since(begin.0) > CLOSE {
        let middle = MessageId(Ticks(begin.0.0 + (end.0.0 - begin.0.0) / 2));
        let batch = journal.read(Read::after(pages.clone(), middle).limit(1)).await?;
        match batch.messages.first() {
            Some(message) if parse(message).is_some_and(|page| page.top < position) => {
                begin = message.id.min(end)
            }
            Some(_) | None => end = middle,
        }
    }
    let before = Read { before: begin.next(), ..Read::after(pages.clone(), MessageId::ZERO) };
    let before = journal.read(before.limit(PAGES_BEFORE).descending()).await?;
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
    while read < PAGES_MAX {
        let next = Read { bytes_max: BYTES, ..Read::after(pages.clone(), from).limit(PAGES) };
        let batch = match journal.read(next).await {
            Err(JournalError::NoTopic { .. } | JournalError::NoPartition { .. }) => return Ok(None),
            batch => batch?.messages,
        };
        let Some(last) = batch.last() else { return Ok(None) };
        let mut entries = batch.iter().filter_map(parse).flat_map(|page| page.entries);
        let is_it = |entry: &Entry| entry.meta.as_ref().is_some_and(|meta| meta.id == Some(id));
        if let Some(entry) = entries.find(is_it) {
            return Ok(Some(entry.position));
        }
        (from, read) = (last.id, read + batch.len() as u32);
    }
    Ok(None)
}

/// Whether its time to live has ended.
pub(super) fn is_expired(message: &Message) -> bool {
    message.expires.is_some_and(|end| end <= Ticks::now())
}

fn parse(message: &Message) -> Option<Page> {
    serde_json::from_slice(&message.body).ok()
}
