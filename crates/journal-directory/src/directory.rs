//! Journals that are registered, as they come and go.

use std::collections::BTreeSet;
use std::time::Duration;

use menagerie_journal::Identity;
use menagerie_kernel::Session;
use menagerie_kernel::recipes::tree_cache::{TreeCache, TreeCacheError};
use menagerie_znodes::journals::{self, Folder, Server};

use crate::access::Access;
use crate::whereabouts::{Choice, Home, Registered, choose};

/// Follows who is registered.
#[derive(Debug, Clone)]
pub struct Directory {
    cache: TreeCache,
    access: Access,
}

impl Directory {
    /// Begins to follow, and waits until it knows.
    pub async fn follow(session: &Session, access: Access) -> Result<Self, TreeCacheError> {
        let cache = TreeCache::start(session, &journals::root());
        cache.ready().await?;
        Ok(Self { cache, access })
    }

    /// By what they and we know each other.
    pub fn access(&self) -> &Access {
        &self.access
    }

    /// A number that rises when something is different.
    pub fn revision(&self) -> u64 {
        *self.cache.subscribe().borrow()
    }

    /// All that are registered.
    pub fn entries(&self) -> Vec<Registered> {
        let starts = |folder: String| {
            let path = journals::folder(&folder).path().to_owned();
            self.cache.children(&path).into_iter().map(move |start| (folder.clone(), start))
        };
        let read = |(folder, start): (String, String)| {
            let found = self.cache.read(&journals::server(&folder, &start)).ok()??;
            entry(&folder, found.value, found.stat.czxid)
        };
        // What is left of those that have served copies of a folder ends in a moment.
        let folders = self.folders().into_iter().filter(|folder| self.contest(folder).is_none());
        folders.flat_map(starts).filter_map(read).collect()
    }

    fn folders(&self) -> Vec<String> {
        self.cache.children(journals::root().path())
    }

    /// The two journals that have served copies of the folder that is meant, if there are such: neither of them may be used.
    pub fn contested(&self, home: &Home) -> Option<(Server, Server)> {
        let meant = |folder: &String, last: &Server| match &home.folder {
            Some(home) => home == folder,
            None => last.name == home.journal,
        };
        self.folders().iter().find_map(|folder| self.contest(folder).filter(|(last, _)| meant(folder, last)))
    }

    fn contest(&self, folder: &str) -> Option<(Server, Server)> {
        let Folder { last, contested_by } = self.cache.read(&journals::folder(folder)).ok()??.value;
        last.zip(contested_by)
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
        self.until(patience, || choose(&self.entries(), &Home::named(name)) != Choice::None).await;
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

fn entry(folder: &str, server: Server, since: i64) -> Option<Registered> {
    let Server { start, name, address, tls, continues, .. } = server;
    let identity = Identity { folder: folder.parse().ok()?, start: start.parse().ok()? };
    Some(Registered { name, address, identity, continues, tls, since })
}
