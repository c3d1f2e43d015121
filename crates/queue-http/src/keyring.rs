//! Whose key it is: of those in the configuration and those in ZooKeeper.

use std::collections::BTreeMap;

use menagerie_kernel::recipes::tree_cache::{TreeCache, TreeCacheError};
use menagerie_kernel::{CallError, Session};
use menagerie_znodes::queues::{self, ApplicationKey, KeyId, Scope};
use tokio::sync::Semaphore;

use crate::access::Holder;
use crate::keys::Hash;
use crate::shelf::is_live;

/// Keys that nobody knows are looked for at most so many at a time: who guesses keys must not be able to keep ZooKeeper
/// busy.
const LOOKUPS_MAX: usize = 8;

/// The application of the command line, which is always there.
const DEFAULT_APPLICATION: &str = "default";

/// An application of the configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Application {
    /// Its keys.
    pub keys: Vec<Hash>,
    /// What they are good for; everything, if it is not said.
    pub scopes: Option<Vec<Scope>>,
    /// So many requests a second with each of them.
    pub rate_limit: Option<u32>,
}

/// What memory says about a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Remembered {
    /// It is theirs.
    Known(Holder),
    /// It is not what is kept under its name.
    Wrong,
    /// Somebody must look.
    Nothing {
        /// Whether we would have heard of it if it were not quite new.
        live: bool,
    },
}

/// All keys.
#[derive(Debug)]
pub struct Keyring {
    configured: BTreeMap<String, Application>,
    session: Session,
    cache: TreeCache,
    lookups: Semaphore,
}

impl Keyring {
    /// These, and those in ZooKeeper as they come and go.
    pub async fn follow(
        session: &Session,
        configured: BTreeMap<String, Application>,
    ) -> Result<Self, TreeCacheError> {
        let cache = TreeCache::start(session, &queues::keys());
        cache.ready().await?;
        Ok(Self { configured, session: session.clone(), cache, lookups: Semaphore::new(LOOKUPS_MAX) })
    }

    /// Whose key it is, as far as that can be said without asking anybody.
    pub fn remembered(&self, hash: &Hash) -> Remembered {
        if let Some(holder) = self.configured(hash) {
            return Remembered::Known(holder);
        }
        let id = hash.id();
        let live = is_live(&self.session, &self.cache);
        match live.then(|| self.cache.read(&queues::key(&id))) {
            Some(Ok(Some(key))) => holder(hash, id, key.value).map_or(Remembered::Wrong, Remembered::Known),
            Some(Err(_)) => Remembered::Wrong,
            Some(Ok(None)) | None => Remembered::Nothing { live },
        }
    }

    /// Whose key it is. It may have been added a moment ago; and while nobody tells us of revoked ones, each is looked at.
    pub async fn look_up(&self, hash: &Hash) -> Result<Option<Holder>, CallError> {
        let id = hash.id();
        let _turn = self.lookups.acquire().await.map_err(|_| CallError::Closed)?;
        let term = self.session.term();
        term.sync("/").await?;
        let found = term.read(&queues::key(&id).maybe_damaged()).await?;
        Ok(found.and_then(|found| holder(hash, id, found.value.sound()?)))
    }

    /// All of them are compared, so that the time tells nothing.
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

    /// So many requests a second with a key of this application, if its configuration says so.
    pub fn rate_limit(&self, application: &str) -> Option<u32> {
        self.configured.get(application)?.rate_limit
    }

    /// Whether there is a key of this application, as far as we have heard.
    pub fn knows(&self, application: &str) -> bool {
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
