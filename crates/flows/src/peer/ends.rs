//! Where the links into a task end, as far as it is known.

use std::collections::BTreeMap;

use menagerie_kernel::Session;
use menagerie_kernel::recipes::tree_cache::TreeCache;
use menagerie_znodes::flows::Deployment;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tracing::warn;

use super::payload::Share;
use crate::lane::KnownEnds;

/// Follows the seals of the tasks before ours. Dropped, it stops.
pub struct EndsFollower {
    pub ends: watch::Receiver<KnownEnds>,
    _following: JoinSet<()>,
}

impl EndsFollower {
    pub fn start(session: &Session, deployment: &Deployment, share: &Share, before: &[u32]) -> Self {
        let (known, ends) = watch::channel(KnownEnds::new());
        let cache = TreeCache::start(session, &deployment.tasks(&share.job));
        let mut following = JoinSet::new();
        following.spawn(follow(cache, deployment.clone(), share.clone(), before.to_vec(), known));
        Self { ends, _following: following }
    }
}

async fn follow(
    cache: TreeCache,
    deployment: Deployment,
    share: Share,
    before: Vec<u32>,
    known: watch::Sender<KnownEnds>,
) {
    let mut revision = cache.subscribe();
    let mut found = BTreeMap::new();
    loop {
        revision.borrow_and_update();
        for task in before.iter().filter(|task| !found.contains_key(*task)).copied().collect::<Vec<_>>() {
            match cache.read(&deployment.task_sealed(&share.job, task)) {
                Ok(Some(sealed)) => {
                    let ends = sealed.value.ends.get(&share.task).cloned().unwrap_or_default();
                    found.insert(task, ends.into());
                }
                Ok(None) => {}
                Err(error) => warn!(%error, "cannot tell where a link ends; waiting until that is mended"),
            }
        }
        known.send_if_modified(|known| {
            let is_new = *known != found;
            known.clone_from(&found);
            is_new
        });
        if revision.changed().await.is_err() {
            // The session is over, and so is the peer; until then nobody is told that there are no ends.
            std::future::pending::<()>().await;
        }
    }
}
