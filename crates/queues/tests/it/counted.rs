//! A journal that counts what is read from it, and cannot read some.

use std::sync::atomic::{AtomicU64, Ordering};

use menagerie_journal::{
    Batch, Journal as _, JournalError, Message, MessageId, PartitionId, Read, Reply, Store,
};
use menagerie_testkit::{Interpose, Interposed};

#[derive(Default)]
pub struct Counted {
    reads: AtomicU64,
    messages: AtomicU64,
    damaged: Vec<(PartitionId, MessageId)>,
}

impl Counted {
    /// Counts what is read from this store.
    pub fn reads_of(store: &Store) -> Interposed<Self> {
        Interposed::new(store, Self::default())
    }

    /// This store, which cannot read these messages any more.
    pub fn damaged(store: &Store, damaged: Vec<(PartitionId, MessageId)>) -> Interposed<Self> {
        Interposed::new(store, Self { damaged, ..Self::default() })
    }

    /// Reads, and messages that they returned, since the last time.
    pub fn take(&self) -> (u64, u64) {
        (self.reads.swap(0, Ordering::Relaxed), self.messages.swap(0, Ordering::Relaxed))
    }
}

impl Interpose for Counted {
    fn read<'a>(&'a self, store: &'a Store, read: Read) -> Reply<'a, Batch> {
        Box::pin(async move {
            let partition = read.partition.clone();
            let mut batch = store.read(read).await?;
            let is_damaged =
                |message: &Message| self.damaged.iter().any(|one| *one == (partition.clone(), message.id));
            // As the store does: what comes before, then an error that names the ids.
            if let Some(at) = batch.messages.iter().position(is_damaged) {
                let id = batch.messages[at].id;
                if at == 0 {
                    let why = format!("bad checksum; messages {id} to {id} cannot be read");
                    return Err(JournalError::Damaged(why));
                }
                batch.messages.truncate(at);
            }
            self.reads.fetch_add(1, Ordering::Relaxed);
            self.messages.fetch_add(batch.messages.len() as u64, Ordering::Relaxed);
            Ok(batch)
        })
    }
}
