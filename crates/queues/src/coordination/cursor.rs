//! How far a partition was processed: read by its new owner, moved by who holds its lock, and by nobody else.

use std::time::SystemTime;

use menagerie_journal::{MessageId, Ticks};
use menagerie_kernel::recipes::grant::Grant;
use menagerie_kernel::{CallError, Term, TransactionError, retry};
use menagerie_znodes::Payload as _;
use menagerie_znodes::queues::{self, Cursor, PartitionName};

use crate::core::ledger::Recorded;

/// The cursor of a partition, as its owner keeps it.
#[derive(Debug, Clone)]
pub struct CursorAt {
    partition: PartitionName,
    version: i32,
    position: MessageId,
}

impl CursorAt {
    /// Reads it, newest state first. `None`: there is no such partition.
    pub async fn read(term: &Term, partition: &PartitionName) -> Result<Option<Self>, CallError> {
        let znode = queues::cursor(partition);
        term.sync(znode.path()).await?;
        match look(term, partition).await {
            Ok((position, version)) => Ok(Some(Self { partition: partition.clone(), version, position })),
            Err(CallError::NoZnode { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Where it stands.
    pub fn position(&self) -> MessageId {
        self.position
    }

    /// The same at another place, once that is stored.
    #[must_use]
    pub fn moved(&self, position: MessageId) -> Self {
        Self { version: self.version.wrapping_add(1), position, ..self.clone() }
    }

    /// Moves it: in one transaction with a look at the ticket, and only if it is where we think. Waits as long as the
    /// session lasts; what is unknown then is the next owner's to find. It goes back only to give back what was recorded
    /// before it was to begin, and has not begun.
    pub async fn record(&self, grant: &Grant, position: MessageId) -> Recorded {
        let cursor = of_message(position);
        let transaction =
            grant.transaction().set(&queues::cursor(&self.partition), &cursor, Some(self.version));
        let term = grant.term().patient();
        let next = self.moved(position);
        let proof = || {
            let (term, next) = (term.clone(), next.clone());
            async move {
                let stored = look(&term, &next.partition).await?;
                Ok((stored == (next.position, next.version)).then(Vec::new))
            }
        };
        match retry::commit(transaction, proof).await {
            Ok(_) => Recorded::Confirmed,
            Err(TransactionError::Lost { .. } | TransactionError::Part { .. }) => Recorded::Refused,
            Err(TransactionError::Call(error)) => match error {
                CallError::Unknown { .. } => Recorded::Unknown,
                _ => Recorded::Refused,
            },
        }
    }
}

async fn look(term: &Term, partition: &PartitionName) -> Result<(MessageId, i32), CallError> {
    let znode = queues::cursor(partition);
    let (data, stat) = term.get(znode.path()).await?;
    // qdo made some without a word in them.
    let cursor = if data.is_empty() { Ok(Cursor::default()) } else { Cursor::decode(&data) };
    let cursor = cursor.map_err(|error| CallError::Payload {
        path: znode.path().to_owned(),
        why: error.source.to_string(),
    })?;
    Ok((to_message(cursor), stat.version))
}

/// The cursor behind this message.
pub fn of_message(id: MessageId) -> Cursor {
    Cursor(id.0.0.saturating_sub(unix_epoch()))
}

/// The message that a cursor stands behind.
pub fn to_message(cursor: Cursor) -> MessageId {
    match cursor.0 {
        0 => MessageId::ZERO,
        ticks => MessageId(Ticks(ticks.saturating_add(unix_epoch()))),
    }
}

fn unix_epoch() -> u64 {
    Ticks::from(SystemTime::UNIX_EPOCH).0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_says_what_its_message_says() {
        let id = MessageId(Ticks::now());
        assert_eq!(of_message(id).to_string(), id.seconds());
        assert_eq!(to_message(of_message(id)), id);
        assert_eq!(to_message(of_message(MessageId::ZERO)), MessageId::ZERO);
    }
}
