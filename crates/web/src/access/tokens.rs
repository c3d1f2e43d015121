//! All tokens, in memory: a request with a known one asks ZooKeeper nothing.

use menagerie_kernel::recipes::tree_cache::{Freshness, TreeCache, TreeCacheError};
use menagerie_kernel::{CallError, Session};
use menagerie_types::Name;
use menagerie_znodes::web::{self, Rights, Token};
use tokio::sync::Semaphore;

use super::Caller;
use super::token::{self, Hash};

/// Concurrent look-ups of unknown tokens, so that guessing cannot keep ZooKeeper busy.
const LOOKUPS_MAX: usize = 8;

/// The holder of a valid token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    id: Name,
    name: Name,
    rights: Rights,
}

impl Holder {
    fn of(hash: &Hash, stored: Token) -> Option<Self> {
        let id = hash.id();
        hash.is(&stored.sha256).then_some(Self { id, name: stored.name, rights: stored.rights })
    }

    /// As a caller.
    pub fn caller(self, is_cookie: bool) -> Caller {
        Caller::Token { name: self.name, id: self.id, rights: self.rights, is_cookie }
    }
}

/// All tokens.
#[derive(Debug)]
pub struct Tokens {
    session: Session,
    cache: TreeCache,
    lookups: Semaphore,
}

impl Tokens {
    /// Reads them, and keeps them current by watches.
    pub async fn follow(session: &Session) -> Result<Self, TreeCacheError> {
        let cache = TreeCache::start(session, &web::tokens());
        cache.ready().await?;
        Ok(Self { session: session.clone(), cache, lookups: Semaphore::new(LOOKUPS_MAX) })
    }

    /// The holder of a token, without asking ZooKeeper; `None` if it is unknown, or the cache may be stale and the
    /// token revoked.
    pub fn cached(&self, hash: &Hash) -> Option<Holder> {
        let stored = self.is_live().then(|| self.cache.read(&web::token(&hash.id())).ok().flatten())??;
        Holder::of(hash, stored.value)
    }

    /// Whether a caller's token was revoked, as far as is known.
    pub fn is_revoked(&self, caller: &Caller) -> bool {
        match caller {
            Caller::Token { id, .. } => self.is_live() && !self.cache.contains(&web::token(id)),
            Caller::LocalUser | Caller::Nobody => false,
        }
    }

    fn is_live(&self) -> bool {
        *self.cache.freshness().borrow() == Freshness::Live && self.session.term().is_valid()
    }

    /// The holder of a token, as ZooKeeper says.
    pub async fn look_up(&self, hash: &Hash) -> Result<Option<Holder>, CallError> {
        let _turn = self.lookups.acquire().await.map_err(|_| CallError::Closed)?;
        let stored = token::look_up(&self.session, hash).await?;
        Ok(stored.and_then(|stored| Holder::of(hash, stored)))
    }
}
