//! Readers that wait: however many they are, a journal is asked once for each partition.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use menagerie_journal::{Journal, MessageId, PartitionId, Read};
use tokio::sync::watch;
use tokio::time::sleep;

/// A journal is asked for so long at a time; then we see whether anybody still wants to know.
const ASK: Duration = Duration::from_secs(20);

/// A journal that does not answer is asked again after so long.
const AGAIN: Duration = Duration::from_millis(500);

/// The newest message of each partition that somebody waits at. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Tide {
    marks: Arc<Mutex<HashMap<PartitionId, watch::Receiver<MessageId>>>>,
}

impl Tide {
    /// Waits until a partition has a message that is newer than `seen`. Dropped, it leaves nothing behind.
    pub async fn above(&self, journal: &Arc<dyn Journal>, partition: &PartitionId, seen: MessageId) {
        loop {
            let mut mark = self.mark(journal, partition);
            if mark.wait_for(|last| *last > seen).await.is_ok() {
                return;
            }
        }
    }

    fn mark(&self, journal: &Arc<dyn Journal>, partition: &PartitionId) -> watch::Receiver<MessageId> {
        let mut marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(mark) = marks.get(partition).filter(|mark| mark.has_changed().is_ok()) {
            return mark.clone();
        }
        let (tell, mark) = watch::channel(MessageId::ZERO);
        marks.insert(partition.clone(), mark.clone());
        tokio::spawn(self.clone().follow(journal.clone(), partition.clone(), tell));
        mark
    }

    /// Asks as long as somebody beside ourselves wants to know.
    async fn follow(self, journal: Arc<dyn Journal>, partition: PartitionId, tell: watch::Sender<MessageId>) {
        let mut wait = Duration::ZERO;
        loop {
            let last = *tell.borrow();
            let read = Read { bytes_max: 1, ..Read::after(partition.clone(), last).limit(1).wait(wait) };
            match journal.read(read).await {
                Ok(batch) if batch.last > last => {
                    tell.send_replace(batch.last);
                }
                Ok(_) => {}
                Err(_) => sleep(AGAIN).await,
            }
            wait = ASK;
            let mut marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
            // One receiver is in the map; nobody gets another while we have the lock.
            if tell.receiver_count() <= 1 {
                marks.remove(&partition);
                return;
            }
        }
    }
}
