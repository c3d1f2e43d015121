//! Application keys, from the configuration and from ZooKeeper.

use std::collections::BTreeMap;

use menagerie_kernel::recipes::tree_cache::{TreeCache, TreeCacheError};
use menagerie_kernel::{CallError, Session};
use menagerie_znodes::queues::{self, ApplicationKey, KeyId, Scope};
use tokio::sync::Semaphore;

use crate::access::Holder;
use crate::keys::Hash;
use crate::settings_cache::is_live;

/// Concurrent ZooKeeper look-ups of unknown keys, so that guessing keys cannot keep ZooKeeper busy.
const LOOKUPS_MAX: usize = 8;

/// The application the command line uses; it always exists.
const DEFAULT_APPLICATION: &str = "default";

/// An application from the configuration file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Application {
    /// Hashes of its keys.
    pub keys: Vec<Hash>,
    /// Scopes of these keys; all scopes if `None`.
    pub scopes: Option<Vec<Scope>>,
    /// Requests per second for each key.
    pub rate_limit: Option<u32>,
}

/// What the cache knows about a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CachedKey {
    /// A valid key.
    Known(Holder),
    /// Another key, or damaged data, is stored under its id.
    Wrong,
    /// Not in the cache: look it up in ZooKeeper.
    Unknown {
        /// Whether the cache is current, so that only a key added a moment ago can be missing from it.
        is_live: bool,
    },
}

/// All keys, configured and stored.
#[derive(Debug)]
pub struct Keyring {
    configured: BTreeMap<String, Application>,
    session: Session,
    cache: TreeCache,
    lookups: Semaphore,
}

impl Keyring {
    /// Caches the keys in ZooKeeper, beside those configured, and keeps them up to date by watches.
    pub async fn follow(
        session: &Session,
        configured: BTreeMap<String, Application>,
    ) -> Result<Self, TreeCacheError> {
        let cache = TreeCache::start(session, &queues::keys());
        cache.ready().await?;
        Ok(Self { configured, session: session.clone(), cache, lookups: Semaphore::new(LOOKUPS_MAX) })
    }

    /// Who holds this key, without asking ZooKeeper.
    pub fn cached(&self, hash: &Hash) -> CachedKey {
        if let Some(holder) = self.configured(hash) {
            return CachedKey::Known(holder);
        }
        let id = hash.id();
        let is_live = is_live(&self.session, &self.cache);
        match is_live.then(|| self.cache.read(&queues::key(&id))) {
            Some(Ok(Some(key))) => holder(hash, id, key.value).map_or(CachedKey::Wrong, CachedKey::Known),
            Some(Err(_)) => CachedKey::Wrong,
            Some(Ok(None)) | None => CachedKey::Unknown { is_live },
        }
    }

    /// Who holds this key, read from ZooKeeper: for keys that may be new, and for all of them while the cache is stale
    /// and a revocation may have escaped it.
    pub async fn look_up(&self, hash: &Hash) -> Result<Option<Holder>, CallError> {
        let id = hash.id();
        let _turn = self.lookups.acquire().await.map_err(|_| CallError::Closed)?;
        let term = self.session.term();
        term.sync("/").await?;
        let found = term.read(&queues::key(&id).maybe_damaged()).await?;
        Ok(found.and_then(|found| holder(hash, id, found.value.sound()?)))
    }

    /// Compares all configured keys even after a match, so that timing reveals nothing.
    fn configured(&self, hash: &Hash) -> Option<Holder> {
        let mut found = None;
        for (name, application) in &self.configured {
            for key in &application.keys {
                if hash.is(key.digits()) {
                    let scopes = application.scopes.clone().unwrap_or(Scope::ALL.to_vec());
                    found = Some(Holder { application: name.clone(), key: hash.id(), scopes });
                }
            }
        }
        found
    }

    /// Configured rate per key of this application, in requests per second.
    pub fn rate_limit(&self, application: &str) -> Option<u32> {
        self.configured.get(application)?.rate_limit
    }

    /// Whether this application has a key, as far as the cache knows.
    pub fn has_application(&self, application: &str) -> bool {
        let named = |name: String| {
            let id: KeyId = name.parse().ok()?;
            Some(self.cache.read(&queues::key(&id)).ok()??.value.application)
        };
        application == DEFAULT_APPLICATION
            || self.configured.contains_key(application)
            || self
                .cache
                .children(queues::keys().path())
                .into_iter()
                .filter_map(named)
                .any(|name| name == application)
    }
}

fn holder(hash: &Hash, key: KeyId, stored: ApplicationKey) -> Option<Holder> {
    hash.is(&stored.sha256).then_some(Holder { application: stored.application, key, scopes: stored.scopes })
}
