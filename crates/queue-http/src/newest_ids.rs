//! Long-poll fan-out: however many readers wait, one loop per partition polls the journal.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use menagerie_journal::{Journal, JournalError, MessageId, PartitionId, Read};
use tokio::sync::watch;
use tokio::time::sleep;

/// Length of one poll of the journal; after each, the loop ends if nobody waits any more.
const LONG_POLL: Duration = Duration::from_secs(20);

/// Pause after a failed poll.
const RETRY_DELAY: Duration = Duration::from_millis(500);

/// What the last poll of a partition said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Newest {
    /// Id of its newest message.
    Id(MessageId),
    /// The partition was deleted, with its queue.
    Gone,
}

/// Newest id of each partition that has waiting readers. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct NewestIds {
    by_partition: Arc<Mutex<HashMap<PartitionId, watch::Receiver<Newest>>>>,
}

impl NewestIds {
    /// Waits until a partition has a message newer than `seen`, or is deleted; the reader then reads again and finds
    /// out which. Cancel safe.
    pub async fn wait_for_newer(&self, journal: &Arc<dyn Journal>, partition: &PartitionId, seen: MessageId) {
        loop {
            let mut receiver = self.subscribe(journal, partition);
            let is_news = |newest: &Newest| match newest {
                Newest::Id(last) => *last > seen,
                Newest::Gone => true,
            };
            if receiver.wait_for(is_news).await.is_ok() {
                return;
            }
        }
    }

    fn subscribe(&self, journal: &Arc<dyn Journal>, partition: &PartitionId) -> watch::Receiver<Newest> {
        let mut by_partition = self.by_partition.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(receiver) = by_partition.get(partition).filter(|receiver| receiver.has_changed().is_ok())
        {
            return receiver.clone();
        }
        let (sender, receiver) = watch::channel(Newest::Id(MessageId::ZERO));
        by_partition.insert(partition.clone(), receiver.clone());
        tokio::spawn(self.clone().poll(journal.clone(), partition.clone(), sender));
        receiver
    }

    /// Polls the journal as long as some reader waits.
    async fn poll(self, journal: Arc<dyn Journal>, partition: PartitionId, sender: watch::Sender<Newest>) {
        let (mut last, mut wait) = (MessageId::ZERO, Duration::ZERO);
        loop {
            let read = Read { bytes_max: 1, ..Read::after(partition.clone(), last).limit(1).wait(wait) };
            let mut gone = false;
            match journal.read(read).await {
                Ok(batch) if batch.last > last => {
                    last = batch.last;
                    sender.send_replace(Newest::Id(last));
                }
                Ok(_) => {}
                Err(JournalError::NoTopic { .. } | JournalError::NoPartition { .. }) => gone = true,
                Err(_) => sleep(RETRY_DELAY).await,
            }
            wait = LONG_POLL;
            let mut by_partition = self.by_partition.lock().unwrap_or_else(PoisonError::into_inner);
            // The map holds one receiver, and nobody can subscribe while we hold the lock.
            if gone || sender.receiver_count() <= 1 {
                by_partition.remove(&partition);
                if gone {
                    sender.send_replace(Newest::Gone);
                }
                return;
            }
        }
    }
}
