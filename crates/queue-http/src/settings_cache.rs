//! Queue settings: cached where a slightly stale answer is good enough, read afresh from ZooKeeper where it is not.

use menagerie_kernel::recipes::tree_cache::{Freshness, TreeCache, TreeCacheError};
use menagerie_kernel::{CallError, Session};
use menagerie_znodes::queues::{self, QueueName, Settings};
use menagerie_znodes::quote::unquote;

/// Settings of all queues.
#[derive(Debug, Clone)]
pub struct SettingsCache {
    session: Session,
    cache: TreeCache,
}

impl SettingsCache {
    /// Fills the cache and keeps it up to date by watches.
    pub async fn follow(session: &Session) -> Result<Self, TreeCacheError> {
        let cache = TreeCache::start(session, &queues::all_settings());
        cache.ready().await?;
        Ok(Self { session: session.clone(), cache })
    }

    /// Settings of a queue, at most a watch's delay old. `None` means "ask ZooKeeper", not "no such queue": the caller
    /// may have just created it on another server, or the cache may be stale.
    pub fn cached(&self, queue: &QueueName) -> Option<Settings> {
        if !is_live(&self.session, &self.cache) {
            return None;
        }
        Some(self.cache.read(&queues::settings(queue)).ok()??.value)
    }

    /// Current settings of a queue, for decisions that must not rest on stale ones.
    pub async fn read_fresh(&self, queue: &QueueName) -> Result<Option<Settings>, CallError> {
        let term = self.session.term();
        term.sync(queues::settings(queue).path()).await?;
        Ok(term.read(&queues::settings(queue)).await?.map(|found| found.value))
    }

    /// Current settings of all queues of an application, sorted by name. Queues with damaged settings are left out.
    pub async fn list(&self, application: &str) -> Result<Vec<(QueueName, Settings)>, CallError> {
        let term = self.session.term();
        term.sync("/").await?;
        let names = match term.children(queues::all_settings().path()).await {
            Err(CallError::NoZnode { .. }) => Vec::new(),
            names => names?,
        };
        let mut names: Vec<QueueName> = names.iter().filter_map(|name| parse(name)).collect();
        names.retain(|queue| queue.application() == application);
        names.sort_by(|one, other| one.name().cmp(other.name()));
        let znodes: Vec<_> = names.iter().map(|name| queues::settings(name).maybe_damaged()).collect();
        let found = names.into_iter().zip(term.read_many(&znodes).await?);
        Ok(found.filter_map(|(name, found)| Some((name, found?.value.sound()?))).collect())
    }

    /// Whether this application has a queue, as far as the cache knows.
    pub fn has_application(&self, application: &str) -> bool {
        let names = self.cache.children(queues::all_settings().path());
        names.iter().filter_map(|name| parse(name)).any(|queue| queue.application() == application)
    }
}

/// Whether a cache is current. Its own freshness is not enough: a process that was paused or cut off has not yet
/// noticed that its connection is lost, so the session's lease must hold, too.
pub(crate) fn is_live(session: &Session, cache: &TreeCache) -> bool {
    *cache.freshness().borrow() == Freshness::Live && session.term().is_valid()
}

fn parse(znode: &str) -> Option<QueueName> {
    unquote(znode)?.parse().ok()
}
