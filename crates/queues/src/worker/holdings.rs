//! Locks and journals of the partitions we own: what the effects of the machine need, and the machine does not.

use std::collections::BTreeMap;
use std::sync::Arc;

use menagerie_kernel::Fence;
use menagerie_kernel::recipes::lock::LockGuard;
use menagerie_znodes::queues::PartitionName;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::coordination::claim::FencedJournal;
use crate::coordination::cursor::CursorAt;
use crate::core::machine::Owned;
use crate::story::OutcomeLog;

/// Aborts a background task when dropped.
pub struct AbortOnDrop(pub AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A partition that we own.
pub struct Holding {
    pub held: LockGuard,
    pub fenced: FencedJournal,
    /// Where its cursor is, with the version that a record must find.
    pub cursor: CursorAt,
    /// The read in flight.
    pub fetching: Option<AbortOnDrop>,
    /// Where the outcomes of its messages are written.
    pub outcomes: Option<Arc<OutcomeLog>>,
    /// Set when it is lost: do not wait long for what is being stored about it.
    pub is_lost: watch::Sender<bool>,
    /// Tells when its lock is gone.
    pub _watcher: AbortOnDrop,
}

/// All partitions that we own. For a moment one may be there twice: lost under one fence, and claimed again.
#[derive(Default)]
pub struct Holdings(BTreeMap<Owned, Holding>);

impl Holdings {
    pub fn insert(&mut self, owned: Owned, holding: Holding) {
        self.0.insert(owned, holding);
    }

    /// The partition, under this fence.
    pub fn get(&mut self, owned: &Owned) -> Option<&mut Holding> {
        self.0.get_mut(owned)
    }

    pub fn take(&mut self, owned: &Owned) -> Option<Holding> {
        self.0.remove(owned)
    }

    /// Where the outcomes of a partition's messages are written.
    pub fn outcomes(&self, partition: &PartitionName) -> Option<Arc<OutcomeLog>> {
        self.newest(partition)?.outcomes.clone()
    }

    pub fn contains(&self, partition: &PartitionName) -> bool {
        self.newest(partition).is_some()
    }

    fn newest(&self, partition: &PartitionName) -> Option<&Holding> {
        let last = Owned { partition: partition.clone(), fence: Fence::new(u64::MAX, i64::MAX) };
        let (owned, holding) = self.0.range(..=last).next_back()?;
        (owned.partition == *partition).then_some(holding)
    }
}
