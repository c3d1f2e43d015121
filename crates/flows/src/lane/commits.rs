//! Commits in flight, in order.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::stream::{FuturesOrdered, StreamExt as _};
use menagerie_journal::{Commit, Committed, Journal, JournalError, MessageId, Move, PartitionId, StateWrite};

use super::Lane;
use crate::links::consumer;

/// Commits in flight at once: they share a sync, and the lane works meanwhile.
const IN_FLIGHT_MAX: usize = 8;

type Flight = Pin<Box<dyn Future<Output = Result<Committed, JournalError>> + Send>>;

/// Commits of one lane. Dropped, those in flight may happen or not: whoever opens the partition next finds out.
pub struct Commits {
    journal: Arc<dyn Journal>,
    flights: FuturesOrdered<Flight>,
    /// What each of them moves.
    moves: VecDeque<Vec<(PartitionId, MessageId)>>,
    /// What was moved by those that have happened.
    done: Vec<(PartitionId, MessageId)>,
}

impl Commits {
    pub fn new(journal: Arc<dyn Journal>) -> Self {
        Self { journal, flights: FuturesOrdered::new(), moves: VecDeque::new(), done: Vec::new() }
    }

    /// Sends a commit; waits only if too many are in flight. An error is that of an earlier one.
    pub async fn send(&mut self, commit: Commit) -> Result<(), JournalError> {
        while self.flights.len() >= IN_FLIGHT_MAX {
            self.land().await?;
        }
        self.moves
            .push_back(commit.moves.iter().map(|moved| (moved.partition.clone(), moved.position)).collect());
        let journal = self.journal.clone();
        self.flights.push_back(Box::pin(async move { journal.commit(commit).await }));
        // Commits happen in the order of their first polls.
        match futures_util::poll!(self.flights.next()) {
            std::task::Poll::Ready(Some(landed)) => self.landed(landed),
            std::task::Poll::Ready(None) | std::task::Poll::Pending => Ok(()),
        }
    }

    /// Waits until none is in flight.
    pub async fn settle(&mut self) -> Result<(), JournalError> {
        while !self.flights.is_empty() {
            self.land().await?;
        }
        Ok(())
    }

    /// Positions that were reached since this was asked last.
    pub fn reached(&mut self) -> Vec<(PartitionId, MessageId)> {
        std::mem::take(&mut self.done)
    }

    async fn land(&mut self) -> Result<(), JournalError> {
        match self.flights.next().await {
            Some(landed) => self.landed(landed),
            None => Ok(()),
        }
    }

    fn landed(&mut self, landed: Result<Committed, JournalError>) -> Result<(), JournalError> {
        let moves = self.moves.pop_front().unwrap_or_default();
        landed.map(|_| self.done.extend(moves))
    }
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
