//! Drops messages that have outlived their retention. Best effort: what fails now is tried again with the next report.

use std::time::Duration;

use menagerie_journal::{Journal, MessageId, PartitionId, PartitionStats, Topic};
use tokio::time::timeout;
use tracing::debug;

/// Most partitions trimmed per report: the journal makes each trim durable by itself, and other requests wait for that.
const TRIMS_MAX: usize = 100;
/// Longest time that trims may delay a report.
const TRIM_TIMEOUT: Duration = Duration::from_secs(5);

/// Messages of a partition to drop.
pub struct Trim {
    partition: PartitionId,
    oldest: Option<MessageId>,
    through: MessageId,
}

impl Trim {
    pub fn of(topic: &Topic, stats: &PartitionStats, through: MessageId) -> Self {
        let partition = PartitionId::new(topic.clone(), stats.partition);
        Self { partition, oldest: stats.first, through }
    }
}

/// Drops messages, oldest first.
pub async fn trim(journal: &dyn Journal, mut trims: Vec<Trim>) {
    trims.sort_by_key(|trim| trim.oldest);
    let all = async {
        for Trim { partition, through, .. } in trims.iter().take(TRIMS_MAX) {
            match journal.trim(partition, *through).await {
                Ok(()) => debug!(%partition, through = through.seconds(), "handled messages dropped"),
                Err(error) => debug!(%partition, %error, "cannot drop handled messages"),
            }
        }
    };
    // An interrupted trim has happened or not: both are fine.
    let _ = timeout(TRIM_TIMEOUT, all).await;
}
