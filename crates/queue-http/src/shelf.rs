//! What queues are, as ZooKeeper has it: from memory where that is as good, asked anew where it is not.

use menagerie_kernel::recipes::tree_cache::{Freshness, TreeCache, TreeCacheError};
use menagerie_kernel::{CallError, Session};
use menagerie_znodes::queues::{self, QueueName, Settings};
use menagerie_znodes::quote::unquote;

/// All queues.
#[derive(Debug, Clone)]
pub struct Shelf {
    session: Session,
    cache: TreeCache,
}

impl Shelf {
    /// Follows them.
    pub async fn follow(session: &Session) -> Result<Self, TreeCacheError> {
        let cache = TreeCache::start(session, &queues::all_settings());
        cache.ready().await?;
        Ok(Self { session: session.clone(), cache })
    }

    /// What a queue is. A watch tells us of every change a moment after it; but a queue that we have not heard of may have
    /// been made on another server by who asks now, and when nobody tells us anything, we know nothing.
    pub fn known(&self, queue: &QueueName) -> Option<Settings> {
        if !is_live(&self.session, &self.cache) {
            return None;
        }
        Some(self.cache.read(&queues::settings(queue)).ok()??.value)
    }

    /// What a queue is at this moment: for decisions that must not be made on what was.
    pub async fn fresh(&self, queue: &QueueName) -> Result<Option<Settings>, CallError> {
        let term = self.session.term();
        term.sync(queues::settings(queue).path()).await?;
        Ok(term.read(&queues::settings(queue)).await?.map(|found| found.value))
    }

    /// All queues of an application at this moment, by name.
    pub async fn of(&self, application: &str) -> Result<Vec<(QueueName, Settings)>, CallError> {
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

    /// Whether some queue is of this application.
    pub fn knows(&self, application: &str) -> bool {
        let names = self.cache.children(queues::all_settings().path());
        names.iter().filter_map(|name| parse(name)).any(|queue| queue.application() == application)
    }
}

/// Whether a cache shows what is. Who was paused does not know yet that the connection is lost, and who is cut off notices
/// late: so the lease must hold, too.
pub(crate) fn is_live(session: &Session, cache: &TreeCache) -> bool {
    *cache.freshness().borrow() == Freshness::Live && session.term().is_valid()
}

fn parse(znode: &str) -> Option<QueueName> {
    unquote(znode)?.parse().ok()
}
