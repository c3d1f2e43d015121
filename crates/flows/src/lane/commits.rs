//! Commits in flight, in order.

use std::mem;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::stream::{FuturesOrdered, StreamExt as _};
use menagerie_journal::{Commit, Journal, JournalError, MessageId, Move, PartitionId, StateWrite};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::{Lane, LaneError};
use crate::links::consumer;

/// Commits in flight at once: they share a sync, and the lane works meanwhile.
const IN_FLIGHT_MAX: usize = 8;
/// Commits that wait to be sent: a lane that is faster than the journal waits with the next one.
const QUEUED_MAX: usize = 1;

/// A step that a commit makes.
type Step = (PartitionId, MessageId);

/// Commits of one lane. A loop of its own drives them: a call to the journal that nobody polls would hold up every other
/// one on the same connection. Dropped, those in flight may happen or not: whoever opens the partition next finds out.
pub struct Commits {
    queue: mpsc::Sender<Commit>,
    reached: Arc<Mutex<Vec<Step>>>,
    /// The loop; it ends when there are no more commits, or with the first error.
    driver: JoinSet<Result<(), JournalError>>,
}

impl Commits {
    pub fn new(journal: Arc<dyn Journal>) -> Self {
        let (queue, queued) = mpsc::channel(QUEUED_MAX);
        let (reached, mut driver) = (Arc::default(), JoinSet::new());
        driver.spawn(drive(journal, queued, Arc::clone(&reached)));
        Self { queue, reached, driver }
    }

    /// Sends a commit; waits only if too many are in flight. An error is that of an earlier one.
    pub async fn send(&mut self, commit: Commit) -> Result<(), LaneError> {
        match self.queue.send(commit).await {
            Ok(()) => Ok(()),
            // The loop has ended, and only an error ends it before the queue does.
            Err(_) => self.end().await,
        }
    }

    /// Waits until all have happened.
    pub async fn settle(mut self) -> Result<(), LaneError> {
        // Without a sender, the loop ends.
        self.queue = mpsc::channel(1).0;
        self.end().await
    }

    /// Positions that were reached since this was asked last.
    pub fn reached(&self) -> Vec<(PartitionId, MessageId)> {
        mem::take(&mut *self.reached.lock().unwrap_or_else(PoisonError::into_inner))
    }

    async fn end(&mut self) -> Result<(), LaneError> {
        match self.driver.join_next().await {
            Some(Ok(ended)) => Ok(ended?),
            Some(Err(error)) => Err(LaneError::Failed(format!("commits have ended: {error}"))),
            None => Err(LaneError::Failed("commits have ended".to_owned())),
        }
    }
}

/// Sends commits in their order, and notes what they have reached.
async fn drive(
    journal: Arc<dyn Journal>,
    mut queued: mpsc::Receiver<Commit>,
    reached: Arc<Mutex<Vec<Step>>>,
) -> Result<(), JournalError> {
    let mut flights = FuturesOrdered::new();
    let mut is_open = true;
    while is_open || !flights.is_empty() {
        tokio::select! {
            commit = queued.recv(), if is_open && flights.len() < IN_FLIGHT_MAX => match commit {
                Some(commit) => flights.push_back(fly(journal.clone(), commit)),
                None => is_open = false,
            },
            Some(landed) = flights.next(), if !flights.is_empty() => {
                reached.lock().unwrap_or_else(PoisonError::into_inner).extend(landed?);
            }
        }
    }
    Ok(())
}

async fn fly(journal: Arc<dyn Journal>, commit: Commit) -> Result<Vec<Step>, JournalError> {
    let steps = commit.moves.iter().map(|moved| (moved.partition.clone(), moved.position)).collect();
    journal.commit(commit).await?;
    Ok(steps)
}

impl Lane {
    /// A step of a position.
    pub fn moved(&self, partition: &PartitionId, from: MessageId, position: MessageId) -> Move {
        let (partition, consumer, fence) = (partition.clone(), consumer(), self.fence);
        Move { partition, consumer, fence, from: Some(from), position }
    }

    /// A record that belongs to a position.
    pub fn state(&self, partition: &PartitionId, key: impl Into<Vec<u8>>, value: Vec<u8>) -> StateWrite {
        StateWrite {
            partition: partition.clone(),
            consumer: consumer(),
            fence: self.fence,
            key: key.into().into(),
            value: Some(value.into()),
        }
    }
}
