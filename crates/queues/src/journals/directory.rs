//! Journals that are registered, as they come and go.

use std::collections::BTreeSet;
use std::time::Duration;

use menagerie_kernel::Session;
use menagerie_kernel::recipes::tree_cache::{TreeCache, TreeCacheError};
use menagerie_znodes::components::{self, Component};
use menagerie_znodes::{Name, Payload as _};
use serde_json::Value;

use super::Access;
use crate::core::whereabouts::{Choice, Entry, choose};

/// What journals register as.
pub const KIND: &str = "journal";

/// Follows who is registered.
#[derive(Debug, Clone)]
pub struct Directory {
    cache: TreeCache,
    root: String,
    access: Access,
}

impl Directory {
    /// Begins to follow, and waits until it knows.
    pub async fn follow(session: &Session, access: Access) -> Result<Self, TreeCacheError> {
        let root = components::kind(&Name::new(KIND).expect("it is a name"));
        let cache = TreeCache::start(session, &root);
        cache.ready().await?;
        Ok(Self { cache, root: root.path().to_owned(), access })
    }

    /// By what they know us.
    pub fn access(&self) -> &Access {
        &self.access
    }

    /// A number that rises when something is different.
    pub fn revision(&self) -> u64 {
        *self.cache.subscribe().borrow()
    }

    /// All that are registered.
    pub fn entries(&self) -> Vec<Entry> {
        let read = |name: String| {
            let (data, stat) = self.cache.get(&format!("{}/{name}", self.root))?;
            entry(&Component::decode(&data).ok()?, stat.czxid)
        };
        self.cache.children(&self.root).into_iter().filter_map(read).collect()
    }

    /// Their names; the first one is waited for.
    pub async fn names(&self, patience: Duration) -> Vec<String> {
        let names = || {
            let names: BTreeSet<String> = self.entries().into_iter().map(|entry| entry.name).collect();
            Vec::from_iter(names)
        };
        self.until(patience, || !names().is_empty()).await;
        names()
    }

    /// Waits until there is one with this name.
    pub async fn expect(&self, name: &str, patience: Duration) {
        self.until(patience, || choose(&self.entries(), name) != Choice::None).await;
    }

    async fn until(&self, patience: Duration, is_so: impl Fn() -> bool) {
        let mut changed = self.cache.subscribe();
        let wait = async {
            loop {
                changed.mark_unchanged();
                if is_so() || changed.changed().await.is_err() {
                    return;
                }
            }
        };
        // Whoever asks next finds out why not.
        let _ = tokio::time::timeout(patience, wait).await;
    }
}

fn entry(component: &Component, since: i64) -> Option<Entry> {
    let text = |key: &str| component.details.get(key).and_then(Value::as_str).map(str::to_owned);
    Some(Entry {
        name: text("name").unwrap_or_default(),
        address: text("address")?,
        token_file: text("token_file")?,
        host: component.host.clone(),
        tls: component.details.get("tls").and_then(Value::as_bool).unwrap_or_default(),
        since,
    })
}
