//! A consumer of a partition that owns it by a fence: it reads what comes after its position, and commits together how far
//! it has come, what it remembers, and what came of it.
//!
//! # Promises
//! - *Once*: a commit that was answered has happened once, also when replies were lost on the way. A lost reply is resolved
//!   by asking the journal where the consumer stands; if it has not moved, the same commit is made again, and its appends
//!   carry dedup ids, so that the first one does no harm if it lands late after all (within the topic's `dedup_window`).
//! - *Fenced*: when somebody has opened the partition with a newer fence, nothing happens any more, and that is a value
//!   ([`Outcome::Stale`]), not an error: this owner is to stop.
//!
//! # Cancellation
//! Opening and reading may be dropped at any time. If a commit is dropped before it was answered, nobody knows what came
//! of it; the consumer then refuses every further commit, and must be opened again.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use menagerie_journal::{
    Append, Appended, Batch, Commit, Consumer, Fence, Journal, JournalError, MessageId, Move, Opened,
    PartitionId, Read, Remedy, StateWrite,
};
use menagerie_kernel::unique;
use tracing::debug;

/// Pauses between questions to a journal that has lost a reply, and may be away for an upgrade.
const PAUSE: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// A partition that is consumed under a fence.
pub struct FencedConsumer {
    journal: Arc<dyn Journal>,
    partition: PartitionId,
    consumer: Consumer,
    fence: Fence,
    position: MessageId,
    /// Begins the dedup ids of all that it appends: no other consumer has it, not even this one when it is opened again.
    unique: String,
    /// How many commits were begun.
    commits: u64,
    /// A commit was begun, and nobody knows what came of it.
    is_unsettled: bool,
}

/// What came of opening.
pub enum Opening {
    /// The partition is ours.
    Ours {
        /// To read and to commit.
        consumer: FencedConsumer,
        /// What it had stored before, by key.
        state: Vec<(Bytes, Bytes)>,
    },
    /// Somebody has opened it with a newer fence.
    Stale {
        /// That one.
        current: Fence,
    },
}

/// What is to be committed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Step {
    /// The last message that is done; the position that we have, or one behind it.
    pub through: MessageId,
    /// What came of it. Where to: any topics of the partition's group. One without a dedup id gets one.
    pub appends: Vec<Append>,
    /// What is remembered from now on, by key; nothing removes it.
    pub state: Vec<(Bytes, Option<Bytes>)>,
}

/// What came of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It has happened.
    Committed {
        /// One for each append; nothing if the answer was lost, and the position told that it has happened.
        appended: Option<Vec<Appended>>,
    },
    /// Nothing of it has happened: somebody has opened the partition with a newer fence. Unless an answer was lost: then it
    /// may have happened before that, and the new owner knows.
    Stale {
        /// The newer fence.
        current: Fence,
    },
}

impl FencedConsumer {
    /// Takes the partition over for a consumer: older fences are refused from now on.
    pub async fn open(
        journal: Arc<dyn Journal>,
        partition: PartitionId,
        consumer: Consumer,
        fence: Fence,
    ) -> Result<Opening, JournalError> {
        let (position, unique) = (MessageId::ZERO, unique::hex());
        let (commits, is_unsettled) = (0, false);
        let mut opened =
            Self { journal, partition, consumer, fence, position, unique, commits, is_unsettled };
        match opened.reopen().await {
            Ok(Opened { position, state, .. }) => {
                opened.position = position;
                Ok(Opening::Ours { consumer: opened, state })
            }
            Err(JournalError::Fenced { current, .. }) => Ok(Opening::Stale { current }),
            Err(error) => Err(error),
        }
    }

    /// Which partition.
    pub fn partition(&self) -> &PartitionId {
        &self.partition
    }

    /// By which fence it is ours.
    pub fn fence(&self) -> Fence {
        self.fence
    }

    /// All up to here is done.
    pub fn position(&self) -> MessageId {
        self.position
    }

    /// What comes after its position. When there is nothing, waits so long for the first message.
    pub async fn read(&self, limit: u32, wait: Duration) -> Result<Batch, JournalError> {
        self.read_after(self.position, limit, wait).await
    }

    /// What comes after a message: for whoever reads ahead of what is committed.
    pub async fn read_after(
        &self,
        after: MessageId,
        limit: u32,
        wait: Duration,
    ) -> Result<Batch, JournalError> {
        self.journal.read(Read::after(self.partition.clone(), after).limit(limit).wait(wait)).await
    }

    /// Makes all of it happen together, once. An error other than [`JournalError::Unknown`] means that nothing has happened;
    /// after that one, open again.
    pub async fn commit(&mut self, step: Step) -> Result<Outcome, JournalError> {
        if std::mem::replace(&mut self.is_unsettled, true) {
            let why = "nobody has awaited what came of an earlier commit";
            return Err(JournalError::Unknown(why.to_owned()));
        }
        let through = step.through;
        let settled = self.settle(step).await;
        self.is_unsettled = matches!(settled, Err(JournalError::Unknown(_)));
        if let Ok(Outcome::Committed { .. }) = &settled {
            self.position = through;
        }
        settled
    }

    async fn settle(&mut self, step: Step) -> Result<Outcome, JournalError> {
        let through = step.through;
        let commit = self.complete(step);
        let mut lost = None;
        loop {
            match self.journal.commit(commit.clone()).await {
                Ok(committed) => return Ok(Outcome::Committed { appended: Some(committed.appends) }),
                Err(JournalError::Fenced { current, .. }) => return Ok(Outcome::Stale { current }),
                Err(JournalError::Unknown(why)) => lost = Some(why),
                // This one has not happened, but the one before it may have.
                Err(error) if lost.is_some() && error.remedy() == Remedy::Retry => {}
                Err(error) => return Err(error),
            }
            let why = lost.as_deref().unwrap_or_default();
            debug!(partition = %self.partition, why, "the answer to a commit was lost; looking what came of it");
            match self.reopen().await {
                Ok(found) if through > self.position && found.position >= through => {
                    return Ok(Outcome::Committed { appended: None });
                }
                Ok(_) => {}
                Err(JournalError::Fenced { current, .. }) => return Ok(Outcome::Stale { current }),
                Err(error) => return Err(JournalError::Unknown(format!("{why}; then {error}"))),
            }
        }
    }

    /// Opens with the fence that we have: changes nothing, and tells where the consumer stands behind every commit that the
    /// journal had received before. Waits for a journal that is away.
    async fn reopen(&self) -> Result<Opened, JournalError> {
        let mut pause = PAUSE;
        let mut is_lost = self.is_unsettled;
        loop {
            match self.journal.open(&self.partition, &self.consumer, self.fence).await {
                Err(JournalError::Unknown(_)) => is_lost = true,
                // Whoever has nothing to lose can ask again by themselves.
                Err(error) if is_lost && error.remedy() == Remedy::Retry => {}
                outcome => return outcome,
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// The step as the journal takes it.
    fn complete(&mut self, step: Step) -> Commit {
        let Step { through, mut appends, state } = step;
        self.commits += 1;
        for (index, append) in appends.iter_mut().enumerate() {
            let id = || Bytes::from(format!("{}-{}-{index}", self.unique, self.commits));
            append.message.dedup.get_or_insert_with(id);
        }
        let (partition, consumer, fence) = (&self.partition, &self.consumer, self.fence);
        let write = |(key, value)| StateWrite {
            partition: partition.clone(),
            consumer: consumer.clone(),
            fence,
            key,
            value,
        };
        let states = state.into_iter().map(write).collect();
        let moved =
            Move { partition: partition.clone(), consumer: consumer.clone(), fence, position: through };
        Commit { appends, moves: vec![moved], states, ..Commit::default() }
    }
}
