//! What workers are done with, as cursor and gaps say.

use menagerie_journal::MessageId;
use menagerie_kernel::Term;
use menagerie_znodes::queues::{self, Gaps, PartitionName};

use crate::coordination::cursor::CursorAt;
use crate::error::QueueError;

/// Whether workers are done with it, in whatever way.
pub(crate) async fn is_past(
    term: &Term,
    partition: &PartitionName,
    id: MessageId,
) -> Result<bool, QueueError> {
    Ok(Past::read(term, partition).await?.has(id))
}

/// What workers of a partition are done with.
#[derive(Debug, Clone, Default)]
pub struct Past {
    /// They are done with everything up to here.
    pub(crate) cursor: MessageId,
    gaps: Option<Gaps>,
}

impl Past {
    /// As it is now.
    pub async fn read(term: &Term, partition: &PartitionName) -> Result<Self, QueueError> {
        let Some(cursor) = CursorAt::read(term, partition).await? else { return Ok(Self::default()) };
        let gaps = term.read(&queues::gaps(partition)).await?.map(|found| found.value);
        Ok(Self { cursor: cursor.position(), gaps })
    }

    /// Whether they are done with the message at this position.
    pub fn has(&self, position: MessageId) -> bool {
        let is_beyond = |gaps: &Gaps| gaps.is_done(self.cursor.0.0, position.0.0);
        position <= self.cursor || self.gaps.as_ref().is_some_and(is_beyond)
    }
}
