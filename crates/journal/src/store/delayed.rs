//! Reads delayed messages: finds them under the lock, reads from disk without it.

use std::sync::Arc;

use tokio::sync::OwnedSemaphorePermit;

use super::reader::{ATTEMPTS_MAX, Encoded, Room, load};
use super::shared::Shared;
use crate::core::block;
use crate::core::delayed::lost;
use crate::core::state::{PartitionKey, WAITING};
use crate::error::JournalError;
use crate::id::{DelayedId, MessageId, Ticks};
use crate::read::Read;

/// Bytes of an id besides its message.
const ID_BYTES: usize = 16;

/// Reads without waiting. Returns the messages together with the room that they take.
pub(crate) async fn read(
    shared: &Arc<Shared>,
    read: &Read,
    after: DelayedId,
    room: Option<Room<'_>>,
) -> Result<(Encoded, Option<OwnedSemaphorePermit>), JournalError> {
    let partition_key = shared.read().partition_key(&read.partition)?;
    let taken = match room {
        Some(room) => Some(room.take().await?),
        None => None,
    };
    let (limit, bytes_max, looking) = (u64::from(read.limit), u64::from(read.bytes_max), shared.clone());
    let looked =
        tokio::task::spawn_blocking(move || collect(&looking, partition_key, after, limit, bytes_max)).await;
    let found = looked.map_err(|_| JournalError::Closed)??;
    shared.metrics.reads.inc();
    shared.metrics.read_messages.inc_by(found.count);
    Ok((found, taken))
}

/// The messages collected so far.
#[derive(Default)]
struct DelayedBatch {
    ids: Vec<DelayedId>,
    /// Copied: a message's neighbours may be due much later, and their block would stay in memory for it alone.
    messages: Vec<u8>,
}

impl DelayedBatch {
    /// Adds a message. `false`: there is no room for it.
    fn take(&mut self, id: DelayedId, message: &[u8], bytes_max: u64) -> bool {
        let bytes = self.messages.len() + message.len() + (self.ids.len() + 1) * ID_BYTES;
        if !self.ids.is_empty() && bytes as u64 > bytes_max {
            return false;
        }
        self.ids.push(id);
        self.messages.extend_from_slice(message);
        true
    }

    fn encoded(self, last: u64) -> Encoded {
        Encoded {
            count: self.ids.len() as u64,
            bytes: self.messages.len() as u64,
            parts: vec![self.messages.into()],
            gap: None,
            last: MessageId(Ticks(last)),
            delayed: Some(self.ids),
        }
    }
}

fn collect(
    shared: &Shared,
    partition_key: PartitionKey,
    mut after: DelayedId,
    limit: u64,
    bytes_max: u64,
) -> Result<Encoded, JournalError> {
    let (mut found, mut attempts) = (DelayedBatch::default(), 0);
    // Read first: messages that are delayed from now on may be missed.
    let last = shared.read().partition(WAITING).map_or(0, |room| room.last);
    'parts: while (found.ids.len() as u64) < limit {
        let left = usize::try_from(limit).unwrap_or(usize::MAX) - found.ids.len();
        let part = shared.read().delayed_behind(partition_key, after, left)?;
        for (id, stored) in part.found {
            let bytes = match load(shared, WAITING, &stored) {
                // Nothing in that segment is delayed any more: look up the rest again.
                Err(error) if error.is_missing_file() && attempts < ATTEMPTS_MAX => {
                    attempts += 1;
                    continue 'parts;
                }
                loaded => loaded?,
            };
            let (_, head) = block::find(&bytes, id.put.0).ok_or_else(|| lost(id.put.0))?;
            if !found.take(id, &bytes[head.offset..head.offset + head.len], bytes_max) {
                break 'parts;
            }
            after = id;
        }
        match part.rest {
            Some(rest) => after = rest,
            None => break,
        }
    }
    Ok(found.encoded(last))
}
