//! What a peer is to work on: its share of a task, as its payload says.

use menagerie_journal::Fence;
use menagerie_kernel::recipes::tree_cache::TreeCache;
use menagerie_kernel::{CallError, Session, Term};
use menagerie_znodes::Znode;
use menagerie_znodes::flows::Payload;
use tokio::sync::watch;

use crate::FlowError;
use crate::core::JobId;

/// A peer's share of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Share {
    /// The offer's number.
    pub offer: u64,
    /// Counts how often the share was dealt anew.
    pub number: u64,
    pub job: JobId,
    pub task: u32,
    /// Empty before the offer is acknowledged.
    pub partitions: Vec<u32>,
    /// Made of the zxid that wrote the payload: newer than that of any earlier owner.
    pub fence: Fence,
}

impl Share {
    /// What a payload says; `None` if it offers nothing.
    fn of(payload: &Payload, fence: Fence) -> Option<Self> {
        Some(Self {
            offer: payload.offer,
            number: payload.share,
            job: payload.job.clone()?,
            task: payload.task,
            partitions: payload.partitions.clone(),
            fence,
        })
    }
}

/// Follows the payload of a peer, which the coordinator creates when it knows the peer.
pub struct Payloads {
    znode: Znode<Payload>,
    term: Term,
    cache: TreeCache,
    revision: watch::Receiver<u64>,
}

impl Payloads {
    pub fn follow(session: &Session, term: &Term, znode: Znode<Payload>) -> Self {
        let cache = TreeCache::start(session, &znode);
        let revision = cache.subscribe();
        Self { znode, term: term.clone(), cache, revision }
    }

    /// The share as it is now.
    pub fn share(&mut self) -> Result<Option<Share>, FlowError> {
        self.revision.borrow_and_update();
        let found = self.cache.read(&self.znode)?;
        Ok(found.and_then(|found| Share::of(&found.value, self.term.fence(found.stat.mzxid))))
    }

    /// Waits until it is another one.
    pub async fn changed(&mut self, share: Option<&Share>) -> Result<(), FlowError> {
        while self.share()?.as_ref() == share {
            if self.revision.changed().await.is_err() {
                self.cache.ready().await?;
                return Err(CallError::Expired.into());
            }
        }
        Ok(())
    }
}
