//! A consumer that owns a partition by a fence. It reads what follows its position, and commits its position, its state
//! and its output together.
//!
//! # Promises
//! - *Once*: a commit that was acknowledged has happened exactly once, even if replies were lost. After a lost reply
//!   the consumer asks the journal for its position; if that has not moved, it repeats the commit. Each names the
//!   position where it begins, so the journal refuses a first try that lands late.
//! - *Fenced*: once somebody opens the partition with a newer fence, nothing happens any more. That is a value
//!   ([`Outcome::Stale`]), not an error: this owner must stop.
//!
//! # Cancellation
//! Opening and reading are cancel safe. After a commit dropped before its answer, nobody knows its outcome: the
//! consumer refuses all further commits and must be opened again.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use menagerie_journal::{
    Append, Appended, Batch, Commit, Consumer, Fence, Journal, JournalError, MessageId, Move, Opened,
    PartitionId, Read, Remedy, StateWrite,
};
use tracing::debug;

/// Back-off for a journal that lost a reply, and may be down for an upgrade.
const RETRY_DELAY: Duration = Duration::from_millis(100);
const RETRY_DELAY_MAX: Duration = Duration::from_secs(5);

/// A partition consumed under a fence.
pub struct FencedConsumer {
    journal: Arc<dyn Journal>,
    partition: PartitionId,
    consumer: Consumer,
    fence: Fence,
    position: MessageId,
    /// A commit was begun whose outcome is unknown.
    is_unsettled: bool,
}

/// The outcome of opening.
pub enum Opening {
    /// We own the partition.
    Ours {
        /// Reads and commits.
        consumer: FencedConsumer,
        /// Its stored state, by key.
        state: Vec<(Bytes, Bytes)>,
    },
    /// Somebody opened it with a newer fence.
    Stale {
        /// The newer fence.
        current: Fence,
    },
}

/// One commit.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Step {
    /// The last message done. It must be after the current position: only a position that has moved proves, after a lost
    /// reply, that the commit has happened.
    pub through: MessageId,
    /// Output, to any topics of the partition's group.
    pub appends: Vec<Append>,
    /// Changes of the state, by key; `None` removes it.
    pub state: Vec<(Bytes, Option<Bytes>)>,
}

/// The outcome of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The commit has happened.
    Committed {
        /// One per append; `None` if the reply was lost, and only the position shows that the commit happened.
        appended: Option<Vec<Appended>>,
    },
    /// Somebody opened the partition with a newer fence, so nothing has happened. Unless a reply was lost: then the
    /// commit may have happened before that, and the new owner knows.
    Stale {
        /// The newer fence.
        current: Fence,
    },
}

impl FencedConsumer {
    /// Takes over the partition: the journal refuses older fences from now on.
    pub async fn open(
        journal: Arc<dyn Journal>,
        partition: PartitionId,
        consumer: Consumer,
        fence: Fence,
    ) -> Result<Opening, JournalError> {
        let mut opened =
            Self { journal, partition, consumer, fence, position: MessageId::ZERO, is_unsettled: false };
        match opened.reopen().await {
            Ok(Opened { position, state, .. }) => {
                opened.position = position;
                Ok(Opening::Ours { consumer: opened, state })
            }
            Err(JournalError::Fenced { current, .. }) => Ok(Opening::Stale { current }),
            Err(error) => Err(error),
        }
    }

    /// The partition it consumes.
    pub fn partition(&self) -> &PartitionId {
        &self.partition
    }

    /// The fence by which we own it.
    pub fn fence(&self) -> Fence {
        self.fence
    }

    /// The last message done.
    pub fn position(&self) -> MessageId {
        self.position
    }

    /// Messages after its position; waits up to `wait` for the first.
    pub async fn read(&self, limit: u32, wait: Duration) -> Result<Batch, JournalError> {
        self.read_after(self.position, limit, wait).await
    }

    /// Messages after this one, for reading ahead of the position.
    pub async fn read_after(
        &self,
        after: MessageId,
        limit: u32,
        wait: Duration,
    ) -> Result<Batch, JournalError> {
        self.journal.read(Read::after(self.partition.clone(), after).limit(limit).wait(wait)).await
    }

    /// Commits atomically, exactly once. An error means that nothing has happened, except for
    /// [`JournalError::Unknown`], after which the consumer must be opened again.
    pub async fn commit(&mut self, step: Step) -> Result<Outcome, JournalError> {
        if step.through <= self.position {
            let why = format!("a step must go beyond {}, the position of its consumer", self.position);
            return Err(JournalError::Invalid(why));
        }
        if std::mem::replace(&mut self.is_unsettled, true) {
            let why = "nobody has awaited what came of an earlier commit";
            return Err(JournalError::Unknown(why.to_owned()));
        }
        let through = step.through;
        let settled = self.commit_until_known(step).await;
        self.is_unsettled = matches!(settled, Err(JournalError::Unknown(_)));
        if let Ok(Outcome::Committed { .. }) = &settled {
            self.position = through;
        }
        settled
    }

    async fn commit_until_known(&mut self, step: Step) -> Result<Outcome, JournalError> {
        let through = step.through;
        let commit = self.build_commit(step);
        let mut lost = None;
        loop {
            match self.journal.commit(commit.clone()).await {
                Ok(committed) => return Ok(Outcome::Committed { appended: Some(committed.appends) }),
                Err(JournalError::Fenced { current, .. }) => return Ok(Outcome::Stale { current }),
                Err(JournalError::Unknown(why)) => lost = Some(why),
                // The try before has landed meanwhile.
                Err(JournalError::Moved { .. }) if lost.is_some() => {}
                // This try has not happened, but an earlier one may have.
                Err(error) if lost.is_some() && error.remedy() == Remedy::Retry => {}
                Err(error) => return Err(error),
            }
            let why = lost.as_deref().unwrap_or_default();
            debug!(partition = %self.partition, why, "the answer to a commit was lost; looking what came of it");
            match self.reopen().await {
                Ok(found) if found.position >= through => {
                    return Ok(Outcome::Committed { appended: None });
                }
                Ok(_) => {}
                Err(JournalError::Fenced { current, .. }) => return Ok(Outcome::Stale { current }),
                Err(error) => return Err(JournalError::Unknown(format!("{why}; then {error}"))),
            }
        }
    }

    /// Opens again with our fence, which changes nothing and returns the position after every commit that the journal
    /// has received. Waits for a journal that is down.
    async fn reopen(&self) -> Result<Opened, JournalError> {
        let mut pause = RETRY_DELAY;
        let mut is_lost = self.is_unsettled;
        loop {
            match self.journal.open(&self.partition, &self.consumer, self.fence).await {
                Err(JournalError::Unknown(_)) => is_lost = true,
                // Without an unknown outcome, leave retries to the caller.
                Err(error) if is_lost && error.remedy() == Remedy::Retry => {}
                outcome => return outcome,
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(RETRY_DELAY_MAX);
        }
    }

    /// The commit for this step.
    fn build_commit(&self, step: Step) -> Commit {
        let Step { through, appends, state } = step;
        let (partition, consumer, fence) = (&self.partition, &self.consumer, self.fence);
        let write = |(key, value)| StateWrite {
            partition: partition.clone(),
            consumer: consumer.clone(),
            fence,
            key,
            value,
        };
        let states = state.into_iter().map(write).collect();
        let moved = Move {
            partition: partition.clone(),
            consumer: consumer.clone(),
            fence,
            from: Some(self.position),
            position: through,
        };
        Commit { appends, moves: vec![moved], states, ..Commit::default() }
    }
}
