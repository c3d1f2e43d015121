//! How far a partition was processed: read by its new owner, moved by who holds its lock, and by nobody else.

use std::time::{Duration, SystemTime};

use futures_util::future::{join_all, try_join_all};
use menagerie_journal::{MessageId, Ticks};
use menagerie_kernel::recipes::grant::Grant;
use menagerie_kernel::{CallError, Term, Transaction, TransactionError, Versioned, retry};
use menagerie_znodes::MaybeDamaged;
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
        let found = look(term, partition).await?;
        Ok(found.map(|(position, version)| Self { partition: partition.clone(), version, position }))
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
}

/// A cursor that is to be moved, by who holds its partition.
#[derive(Debug, Clone)]
pub struct Record {
    cursor: CursorAt,
    grant: Grant,
    position: MessageId,
}

impl Record {
    /// Moves it to here, once it is made.
    ///
    /// # Panics
    /// If that is not forward: what is processed stays so.
    pub fn new(cursor: CursorAt, grant: Grant, position: MessageId) -> Self {
        assert!(position > cursor.position, "a cursor never goes back");
        Self { cursor, grant, position }
    }

    /// Where it will stand.
    pub fn position(&self) -> MessageId {
        self.position
    }

    /// Under what it is made.
    pub fn grant(&self) -> &Grant {
        &self.grant
    }

    /// Makes it: in one transaction with a look at the ticket, and only if the cursor is where we think. Waits as long as the
    /// session lasts; what is unknown then is the next owner's to find.
    pub async fn make(&self) -> Recorded {
        judged(commit(std::slice::from_ref(self)).await)
    }

    fn transaction(&self) -> Transaction {
        let cursor = queues::cursor(&self.cursor.partition);
        self.grant.transaction().set(&cursor, &of_message(self.position), Some(self.cursor.version))
    }

    /// Whether it is stored. A cursor that has moved on since is another's by now, and one that is gone nobody's: that is no
    /// reason to doubt the other records of its request.
    async fn is_stored(&self) -> Result<bool, CallError> {
        let next = self.cursor.moved(self.position);
        let stored = look(&self.grant.term().patient(), &self.cursor.partition).await?;
        Ok(stored == Some((next.position, next.version)))
    }

    async fn make_unless_stored(&self) -> Recorded {
        match self.is_stored().await {
            Ok(true) => Recorded::Confirmed,
            Ok(false) | Err(_) => self.make().await,
        }
    }
}

/// Makes records of different partitions, all of one term, by one request: each cursor moves under its own ticket and from its
/// own version, and what comes of each is told. If one of them is refused, none is made by that; then each by itself.
pub async fn make_all(records: &[Record]) -> Vec<Recorded> {
    match commit(records).await {
        Err(TransactionError::Lost { .. } | TransactionError::Part { .. }) if records.len() > 1 => {
            join_all(records.iter().map(Record::make_unless_stored)).await
        }
        outcome => vec![judged(outcome); records.len()],
    }
}

async fn commit(records: &[Record]) -> Result<(), TransactionError> {
    let Some(transaction) = records.iter().map(Record::transaction).reduce(Transaction::and) else {
        return Ok(());
    };
    let proof = || async {
        let stored = try_join_all(records.iter().map(Record::is_stored)).await?;
        Ok(stored.into_iter().all(|stored| stored).then(Vec::new))
    };
    retry::commit(transaction, proof).await.map(drop)
}

fn judged(outcome: Result<(), TransactionError>) -> Recorded {
    match outcome {
        Ok(()) => Recorded::Confirmed,
        Err(TransactionError::Call(CallError::Unknown { .. })) => Recorded::Unknown,
        Err(_) => Recorded::Refused,
    }
}

/// Where a cursor stands, and in which version.
async fn look(term: &Term, partition: &PartitionName) -> Result<Option<(MessageId, i32)>, CallError> {
    let znode = queues::cursor(partition);
    let Some(Versioned { value, stat }) = term.read(&znode.maybe_damaged()).await? else { return Ok(None) };
    let cursor = match value {
        MaybeDamaged::Sound(cursor) => cursor,
        // qdo made some without a word in them.
        MaybeDamaged::Damaged { data, .. } if data.is_empty() => Cursor::default(),
        MaybeDamaged::Damaged { why, .. } => return Err(CallError::payload(&znode, why)),
    };
    Ok(Some((to_message(cursor), stat.version)))
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

/// Clocks differ by less, unless one is wrong.
const CLOCKS_DIFFER: Duration = Duration::from_secs(60);

/// How far a cursor is ahead of the clock, and of all messages: nothing that is put is handled before then. `None` if it is
/// not, or by as little as clocks may differ.
pub fn ahead(position: MessageId, last: MessageId, now: Ticks) -> Option<Duration> {
    let ahead = position.0.since(now);
    (position > last && ahead > CLOCKS_DIFFER).then_some(ahead)
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

    #[test]
    fn a_cursor_is_ahead_if_nothing_is_handled_before_its_time() {
        let (now, hour) = (Ticks::now(), Duration::from_secs(3600));
        let later = MessageId(now.plus(hour));
        assert_eq!(ahead(later, MessageId::ZERO, now), Some(hour));
        assert_eq!(ahead(later, later, now), None, "ids of this journal are ahead, and go on from there");
        assert_eq!(ahead(MessageId(now.plus(Duration::from_secs(30))), MessageId::ZERO, now), None);
        assert_eq!(ahead(MessageId::ZERO, MessageId::ZERO, now), None);
    }
}
