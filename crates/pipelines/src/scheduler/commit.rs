//! Commits whose outcome is always known, for consumers of one event queue.

use menagerie_kernel::recipes::sequence_queue::{EntryId, SequenceQueue};
use menagerie_kernel::{CallError, Transaction, retry};
use menagerie_znodes::Payload;

use crate::PipelineError;

/// Entries that are handled together.
pub const BATCH: usize = 100;

/// What is forwarded by one transaction, at most, unless it is a single entry.
const FORWARDED_BYTES_MAX: usize = 400 << 10;

/// An entry of a queue, decoded.
pub struct Decoded<T> {
    /// For its acknowledgement.
    pub id: EntryId,
    /// Its length; a long one is stored beside the queue.
    pub bytes: usize,
    /// What it says; `None` if it is damaged: then there is nothing to do but to acknowledge it.
    pub value: Option<T>,
}

/// The first entries of a queue. Damaged ones are named in the log.
pub async fn entries<T: Payload>(
    queue: &SequenceQueue,
    max: usize,
) -> Result<Vec<Decoded<T>>, PipelineError> {
    use menagerie_kernel::recipes::sequence_queue::Content;
    let found = queue.entries(None, max).await?;
    let decode = |entry: menagerie_kernel::recipes::sequence_queue::QueueEntry| {
        let (bytes, value) = match entry.content {
            Content::Whole(data) => (data.len(), T::decode(&data).map_err(|error| error.source.to_string())),
            Content::Damaged(why) => (0, Err(why)),
        };
        if let Err(why) = &value {
            tracing::error!(entry = %entry.id, why, "an event is damaged and passed over");
        }
        Decoded { id: entry.id, bytes, value: value.ok() }
    };
    Ok(found.into_iter().map(decode).collect())
}

/// The first entries that can be forwarded to so many queues by one transaction; one at least.
pub fn those_that_fit<T>(entries: Vec<Decoded<T>>, queues: usize) -> Vec<Decoded<T>> {
    let mut bytes = 0;
    let fits = |entry: &Decoded<T>| {
        let is_first = bytes == 0;
        bytes += entry.bytes.max(1) * queues.max(1);
        is_first || bytes <= FORWARDED_BYTES_MAX
    };
    entries.into_iter().take_while(fits).collect()
}

/// Commits a transaction that acknowledges `first`, and whatever follows from it. We hold the ticket, so nobody else
/// acknowledges: if the entry is gone, it has happened.
pub async fn acknowledge(
    queue: &SequenceQueue,
    transaction: Transaction,
    acked: &[EntryId],
) -> Result<(), PipelineError> {
    let Some(first) = acked.first() else { return Ok(()) };
    let term = transaction.term().patient();
    let ticket = transaction.ticket().map(str::to_owned);
    let (term, ticket) = (&term, ticket.as_deref());
    let proof = || async move {
        if queue.contains(term, first).await? {
            return Ok(None);
        }
        match ticket {
            Some(ticket) if term.stat(ticket).await?.is_none() => {
                Err(CallError::Unknown { path: ticket.to_owned() })
            }
            _ => Ok(Some(Vec::new())),
        }
    };
    retry::commit(transaction, proof).await?;
    queue.forget_sides(acked).await;
    Ok(())
}
