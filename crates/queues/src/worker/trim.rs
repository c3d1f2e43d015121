//! What was kept for long enough goes. It can wait: what a journal does not do now is asked for at the next look.

use std::time::Duration;

use menagerie_journal::{Journal, MessageId, PartitionId, PartitionStats, Topic};
use tokio::time::timeout;
use tracing::debug;

/// Partitions of a journal at each look. A journal makes each trim durable by itself, and others wait for that.
const AT_ONCE: usize = 100;
/// So long a look is held up by it, at most.
const PATIENCE: Duration = Duration::from_secs(5);

/// Messages of a partition that may go.
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

/// Lets messages go, the oldest first.
pub async fn trim(journal: &dyn Journal, mut trims: Vec<Trim>) {
    trims.sort_by_key(|trim| trim.oldest);
    let all = async {
        for Trim { partition, through, .. } in trims.iter().take(AT_ONCE) {
            match journal.trim(partition, *through).await {
                Ok(()) => debug!(%partition, through = through.seconds(), "handled messages dropped"),
                Err(error) => debug!(%partition, %error, "handled messages not dropped"),
            }
        }
    };
    // Cut off in the middle, a trim has happened or not: both are fine.
    let _ = timeout(PATIENCE, all).await;
}
