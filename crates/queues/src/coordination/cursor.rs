//! The cursor of a partition: its last processed message. The new owner reads it; only the lock's holder moves it.

use std::time::{Duration, SystemTime};

use futures_util::future::{join_all, try_join_all};
use menagerie_journal::{MessageId, Ticks};
use menagerie_kernel::recipes::grant::Grant;
use menagerie_kernel::{CallError, Term, Transaction, TransactionError, Versioned, retry};
use menagerie_znodes::queues::{self, Cursor, Gaps, PartitionName};
use menagerie_znodes::{MaybeDamaged, Payload as _};

use crate::core::lane::RecordPlan;
use crate::core::ledger::Recorded;

/// The cursor of a partition with its znode's version.
#[derive(Debug, Clone)]
pub struct CursorAt {
    partition: PartitionName,
    version: i32,
    position: MessageId,
}

impl CursorAt {
    /// Reads the current cursor, after a sync. `None` if the partition does not exist.
    pub async fn read(term: &Term, partition: &PartitionName) -> Result<Option<Self>, CallError> {
        term.sync(queues::cursor(partition).path()).await?;
        Self::read_synced(term, partition).await
    }

    /// The same for those who have just synced.
    pub async fn read_synced(term: &Term, partition: &PartitionName) -> Result<Option<Self>, CallError> {
        let found = read_cursor(term, partition).await?;
        Ok(found.map(|(position, version)| Self { partition: partition.clone(), version, position }))
    }

    /// The last message processed.
    pub fn position(&self) -> MessageId {
        self.position
    }

    /// The cursor after a record of this position.
    #[must_use]
    pub fn moved(&self, position: MessageId) -> Self {
        match position > self.position {
            true => Self { version: self.version.wrapping_add(1), position, ..self.clone() },
            false => self.clone(),
        }
    }
}

/// What is done beyond a cursor: the last message that is, and the unfinished ones before it. If records will say so,
/// creates the znode for that.
pub async fn beyond(
    term: &Term,
    cursor: &CursorAt,
    creates: bool,
) -> Result<Option<(MessageId, Vec<MessageId>)>, CallError> {
    let (dir, znode) = (queues::all_gaps(), queues::gaps(&cursor.partition));
    if creates {
        retry::ensure(term, dir.path(), b"").await?;
        retry::ensure(term, znode.path(), &Gaps::default().encode()).await?;
    }
    // Even where the order allows no gaps: it may have allowed them before.
    let gaps = term.read(&znode).await?.map(|found| found.value);
    let gaps = gaps.filter(|gaps| cursor.position.0.0 == gaps.after);
    Ok(gaps.map(|gaps| {
        let open = gaps.open().map(|ticks| MessageId(Ticks(ticks))).collect();
        (MessageId(Ticks(gaps.through)), open)
    }))
}

/// A record by the partition's owner of what is done.
#[derive(Debug, Clone)]
pub struct Record {
    cursor: CursorAt,
    grant: Grant,
    position: MessageId,
    gaps: Option<Gaps>,
}

impl Record {
    /// A record of everything through the plan's cursor, and of what is done beyond it.
    ///
    /// # Panics
    /// If the cursor would go back, or nothing would change.
    pub fn new(cursor: CursorAt, grant: Grant, plan: &RecordPlan) -> Self {
        assert!(plan.cursor >= cursor.position, "a cursor never goes back");
        assert!(plan.cursor > cursor.position || plan.beyond.is_some(), "it records something");
        let gaps = plan.beyond.as_ref();
        let gaps =
            gaps.map(|(through, open)| Gaps::new(plan.cursor.0.0, through.0.0, open.iter().map(|id| id.0.0)));
        Self { cursor, grant, position: plan.cursor, gaps }
    }

    /// The new position.
    pub fn position(&self) -> MessageId {
        self.position
    }

    /// The lock that fences it.
    pub fn grant(&self) -> &Grant {
        &self.grant
    }

    /// Moves the cursor in one transaction with a check of the lock's ticket, and only from the version we know. Waits
    /// as long as the session lasts; if the outcome is unknown then, the next owner reads it.
    pub async fn write(&self) -> Recorded {
        outcome_of(commit(std::slice::from_ref(self)).await)
    }

    fn moves_cursor(&self) -> bool {
        self.position > self.cursor.position
    }

    fn transaction(&self) -> Transaction {
        let (cursor, gaps) = (queues::cursor(&self.cursor.partition), queues::gaps(&self.cursor.partition));
        let mut transaction = self.grant.transaction();
        if self.moves_cursor() {
            transaction = transaction.set(&cursor, &of_message(self.position), Some(self.cursor.version));
        }
        if let Some(value) = &self.gaps {
            // Nobody but the holder of the ticket writes it, one record at a time.
            transaction = transaction.set(&gaps, value, None);
        }
        transaction
    }

    /// Whether it is stored. A cursor that has moved on belongs to another owner, a missing one to nobody; neither
    /// casts doubt on the other records of the request.
    async fn is_stored(&self) -> Result<bool, CallError> {
        let (term, partition) = (self.grant.term().patient(), &self.cursor.partition);
        if self.moves_cursor() {
            let next = self.cursor.moved(self.position);
            return Ok(read_cursor(&term, partition).await? == Some((next.position, next.version)));
        }
        let stored = term.read(&queues::gaps(partition).maybe_damaged()).await?;
        Ok(stored.and_then(|found| found.value.sound()) == self.gaps)
    }

    async fn write_unless_stored(&self) -> Recorded {
        match self.is_stored().await {
            Ok(true) => Recorded::Confirmed,
            Ok(false) | Err(_) => self.write().await,
        }
    }
}

/// Writes records of different partitions, all of one term, in one request. Each cursor moves under its own ticket and
/// from its own version. If ZooKeeper refuses the request, writes each record by itself.
pub async fn write_all(records: &[Record]) -> Vec<Recorded> {
    match commit(records).await {
        // Refused as a whole: together they may be more than a server takes.
        Err(
            TransactionError::Lost { .. }
            | TransactionError::Part { .. }
            | TransactionError::Call(CallError::Refused { .. }),
        ) if records.len() > 1 => join_all(records.iter().map(Record::write_unless_stored)).await,
        outcome => vec![outcome_of(outcome); records.len()],
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

fn outcome_of(outcome: Result<(), TransactionError>) -> Recorded {
    match outcome {
        Ok(()) => Recorded::Confirmed,
        Err(TransactionError::Call(CallError::Unknown { .. })) => Recorded::Unknown,
        Err(_) => Recorded::Refused,
    }
}

/// A cursor's position and version.
async fn read_cursor(term: &Term, partition: &PartitionName) -> Result<Option<(MessageId, i32)>, CallError> {
    let znode = queues::cursor(partition);
    let Some(Versioned { value, stat }) = term.read(&znode.maybe_damaged()).await? else { return Ok(None) };
    let cursor = match value {
        MaybeDamaged::Sound(cursor) => cursor,
        // qdo creates cursors empty.
        MaybeDamaged::Damaged { data, .. } if data.is_empty() => Cursor::default(),
        MaybeDamaged::Damaged { why, .. } => return Err(CallError::payload(&znode, why)),
    };
    Ok(Some((to_message(cursor), stat.version)))
}

/// The cursor after this message.
pub fn of_message(id: MessageId) -> Cursor {
    Cursor(id.0.0.saturating_sub(unix_epoch()))
}

/// The message before a cursor.
pub fn to_message(cursor: Cursor) -> MessageId {
    match cursor.0 {
        0 => MessageId::ZERO,
        ticks => MessageId(Ticks(ticks.saturating_add(unix_epoch()))),
    }
}

/// Largest clock skew to tolerate.
const CLOCK_SKEW_MAX: Duration = Duration::from_secs(60);

/// How far a cursor is ahead of the clock and of all messages: workers handle nothing put before then. `None` within
/// the tolerated clock skew.
pub fn ahead(position: MessageId, last: MessageId, now: Ticks) -> Option<Duration> {
    let ahead = position.0.since(now);
    (position > last && ahead > CLOCK_SKEW_MAX).then_some(ahead)
}

fn unix_epoch() -> u64 {
    Ticks::from(SystemTime::UNIX_EPOCH).0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_converts_to_its_message_and_back() {
        let id = MessageId(Ticks::now());
        assert_eq!(of_message(id).to_string(), id.seconds());
        assert_eq!(to_message(of_message(id)), id);
        assert_eq!(to_message(of_message(MessageId::ZERO)), MessageId::ZERO);
    }

    #[test]
    fn a_cursor_is_ahead_if_it_is_beyond_clock_and_messages() {
        let (now, hour) = (Ticks::now(), Duration::from_secs(3600));
        let later = MessageId(now.plus(hour));
        assert_eq!(ahead(later, MessageId::ZERO, now), Some(hour));
        assert_eq!(ahead(later, later, now), None, "ids of this journal are ahead, and go on from there");
        assert_eq!(ahead(MessageId(now.plus(Duration::from_secs(30))), MessageId::ZERO, now), None);
        assert_eq!(ahead(MessageId::ZERO, MessageId::ZERO, now), None);
    }
}
