//! The loop that counts. One process leads per topic, the others stand by.
//!
//! # Promise
//! Each message is counted exactly once: the tally and the position are one commit under the leader's fence. A leader that
//! was killed, or was thought dead and wakes up, changes nothing: the journal refuses its fence.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::try_join_all;
use menagerie_journal::{Consumer, Fence, Journal, PartitionId, Remedy, Topic};
use menagerie_journal_directory::FencedConsumer;
use menagerie_journal_directory::consumer::{Opening, Outcome, Step};
use menagerie_kernel::{Session, recipes::election::Election, whole};
use menagerie_znodes::Name;
use tracing::{info, warn};

use crate::core::Tally;
use crate::{HelloError, znodes};

/// Messages per commit.
const BATCH: u32 = 1_000;
/// How long a read waits for the first message.
const READ_WAIT: Duration = Duration::from_secs(5);
/// Between two attempts to reach a journal that is away.
const RETRY_PAUSE: Duration = Duration::from_millis(500);
/// Under which key a consumer stores its tally.
const TALLY: &[u8] = b"tally";

/// What is counted, by whom.
#[derive(Clone)]
pub struct Counter {
    /// Where the messages are.
    pub journal: Arc<dyn Journal>,
    /// All of its partitions.
    pub topic: Topic,
    /// Whose positions they are.
    pub consumer: Consumer,
}

impl Counter {
    /// Counts whenever this process leads. Ends only with an error; to stop, drop it.
    pub async fn run(&self, session: &Session, name: &Name) -> Result<(), HelloError> {
        let mut candidate = Election::new(session, znodes::election(name), "hello").stand();
        while let Some(grant) = candidate.elected().await {
            info!(topic = %self.topic, fence = %grant.fence(), "leading");
            tokio::select! {
                counted = self.lead(grant.fence()) => counted?,
                _ = grant.lost() => {}
            }
            info!(topic = %self.topic, "not leading any more");
        }
        Ok(candidate.withdraw().await?)
    }

    /// Counts all partitions until a newer leader has opened one of them.
    async fn lead(&self, fence: Fence) -> Result<(), HelloError> {
        loop {
            let led = async {
                let partitions = self.partitions().await?;
                try_join_all(partitions.into_iter().map(|partition| self.count(partition, fence))).await
            };
            match led.await {
                Ok(_) => return Ok(()),
                Err(HelloError::Journal(error)) if error.remedy() == Remedy::Retry => {
                    warn!(error = %whole(&error), "the journal does not answer; trying again");
                    tokio::time::sleep(RETRY_PAUSE).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn count(&self, partition: PartitionId, fence: Fence) -> Result<(), HelloError> {
        let opening =
            FencedConsumer::open(self.journal.clone(), partition, self.consumer.clone(), fence).await?;
        let Opening::Ours { mut consumer, state } = opening else { return Ok(()) };
        let mut tally = self.tally_of(consumer.partition(), &state)?;
        loop {
            let batch = consumer.read(BATCH, READ_WAIT).await?;
            let Some(last) = batch.messages.last() else { continue };
            tally = tally.with(&batch.messages);
            let stored = Bytes::from(serde_json::to_vec(&tally).expect("it is two numbers"));
            let step =
                Step { through: last.id, state: vec![(TALLY.into(), Some(stored))], ..Step::default() };
            match consumer.commit(step).await? {
                Outcome::Committed { .. } => {}
                Outcome::Stale { .. } => return Ok(()),
            }
        }
    }

    /// What was counted so far, of all partitions.
    pub async fn tally(&self) -> Result<Tally, HelloError> {
        let mut sum = Tally::default();
        for partition in self.partitions().await? {
            if let Some(opened) = self.journal.consumer(&partition, &self.consumer).await? {
                sum = sum.plus(self.tally_of(&partition, &opened.state)?);
            }
        }
        Ok(sum)
    }

    async fn partitions(&self) -> Result<Vec<PartitionId>, HelloError> {
        let stats = self.journal.stats(&self.topic).await?;
        Ok(stats.iter().map(|stats| PartitionId::new(self.topic.clone(), stats.partition)).collect())
    }

    fn tally_of(&self, partition: &PartitionId, state: &[(Bytes, Bytes)]) -> Result<Tally, HelloError> {
        let Some((_, stored)) = state.iter().find(|(key, _)| key == TALLY) else {
            return Ok(Tally::default());
        };
        serde_json::from_slice(stored).map_err(|source| HelloError::Damaged {
            topic: self.topic.to_string(),
            partition: partition.number,
            source,
        })
    }
}
