//! Readers that wait: however many they are, a journal is asked once for each partition.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use menagerie_journal::{Journal, JournalError, MessageId, PartitionId, Read};
use tokio::sync::watch;
use tokio::time::sleep;

/// A journal is asked for so long at a time; then we see whether anybody still wants to know.
const ASK: Duration = Duration::from_secs(20);

/// A journal that does not answer is asked again after so long.
const AGAIN: Duration = Duration::from_millis(500);

/// How far a partition has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    /// Its newest message.
    At(MessageId),
    /// It is gone, and its queue with it.
    Gone,
}

/// The level of each partition that somebody waits at. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Tide {
    marks: Arc<Mutex<HashMap<PartitionId, watch::Receiver<Level>>>>,
}

impl Tide {
    /// Waits until a partition has a message that is newer than `seen`, or is gone: then who waits looks again, and is told.
    /// Dropped, it leaves nothing behind.
    pub async fn above(&self, journal: &Arc<dyn Journal>, partition: &PartitionId, seen: MessageId) {
        loop {
            let mut mark = self.mark(journal, partition);
            let is_news = |level: &Level| match level {
                Level::At(last) => *last > seen,
                Level::Gone => true,
            };
            if mark.wait_for(is_news).await.is_ok() {
                return;
            }
        }
    }

    fn mark(&self, journal: &Arc<dyn Journal>, partition: &PartitionId) -> watch::Receiver<Level> {
        let mut marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(mark) = marks.get(partition).filter(|mark| mark.has_changed().is_ok()) {
            return mark.clone();
        }
        let (tell, mark) = watch::channel(Level::At(MessageId::ZERO));
        marks.insert(partition.clone(), mark.clone());
        tokio::spawn(self.clone().follow(journal.clone(), partition.clone(), tell));
        mark
    }

    /// Asks as long as somebody beside ourselves wants to know.
    async fn follow(self, journal: Arc<dyn Journal>, partition: PartitionId, tell: watch::Sender<Level>) {
        let (mut last, mut wait) = (MessageId::ZERO, Duration::ZERO);
        loop {
            let read = Read { bytes_max: 1, ..Read::after(partition.clone(), last).limit(1).wait(wait) };
            let mut gone = false;
            match journal.read(read).await {
                Ok(batch) if batch.last > last => {
                    last = batch.last;
                    tell.send_replace(Level::At(last));
                }
                Ok(_) => {}
                Err(JournalError::NoTopic { .. } | JournalError::NoPartition { .. }) => gone = true,
                Err(_) => sleep(AGAIN).await,
            }
            wait = ASK;
            let mut marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
            // One receiver is in the map; nobody gets another while we have the lock.
            if gone || tell.receiver_count() <= 1 {
                marks.remove(&partition);
                if gone {
                    tell.send_replace(Level::Gone);
                }
                return;
            }
        }
    }
}
