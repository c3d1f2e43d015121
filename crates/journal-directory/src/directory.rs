//! The registered journals, kept up to date by watches.

use std::collections::BTreeSet;
use std::time::Duration;

use menagerie_journal::Identity;
use menagerie_kernel::Session;
use menagerie_kernel::recipes::tree_cache::{TreeCache, TreeCacheError};
use menagerie_znodes::journals::{self, Folder, Server};

use crate::access::Access;
use crate::resolve::{JournalRef, RegisteredJournal, Resolution, resolve};

/// A cache of the registered journals.
#[derive(Debug, Clone)]
pub struct Directory {
    cache: TreeCache,
    access: Access,
}

impl Directory {
    /// Starts the cache, and waits until it is filled.
    pub async fn follow(session: &Session, access: Access) -> Result<Self, TreeCacheError> {
        let cache = TreeCache::start(session, &journals::root());
        cache.ready().await?;
        Ok(Self { cache, access })
    }

    /// Tokens and authority for connections.
    pub fn access(&self) -> &Access {
        &self.access
    }

    /// Counts changes.
    pub fn revision(&self) -> u64 {
        *self.cache.subscribe().borrow()
    }

    /// All registered journals.
    pub fn entries(&self) -> Vec<RegisteredJournal> {
        let starts = |folder: String| {
            let path = journals::folder(&folder).path().to_owned();
            self.cache.children(&path).into_iter().map(move |start| (folder.clone(), start))
        };
        let read = |(folder, start): (String, String)| {
            let found = self.cache.read(&journals::server(&folder, &start)).ok()??;
            entry(&folder, found.value, found.stat.czxid)
        };
        // Servers of a contested folder are about to stop.
        let folders = self.folders().into_iter().filter(|folder| self.contest(folder).is_none());
        folders.flat_map(starts).filter_map(read).collect()
    }

    fn folders(&self) -> Vec<String> {
        self.cache.children(journals::root().path())
    }

    /// The two servers of a contested folder, if the reference names one: neither may be used.
    pub fn contested(&self, target: &JournalRef) -> Option<(Server, Server)> {
        let meant = |folder: &String, last: &Server| match &target.folder {
            Some(wanted) => wanted == folder,
            None => last.name == target.journal,
        };
        self.folders().iter().find_map(|folder| self.contest(folder).filter(|(last, _)| meant(folder, last)))
    }

    fn contest(&self, folder: &str) -> Option<(Server, Server)> {
        let Folder { last, contested_by } = self.cache.read(&journals::folder(folder)).ok()??.value;
        last.zip(contested_by)
    }

    /// Names of all journals; waits for the first one.
    pub async fn names(&self, timeout: Duration) -> Vec<String> {
        let names = || {
            let names: BTreeSet<String> = self.entries().into_iter().map(|entry| entry.name).collect();
            Vec::from_iter(names)
        };
        self.wait_until(timeout, || !names().is_empty()).await;
        names()
    }

    /// Waits for a journal of this name.
    pub async fn wait_for(&self, name: &str, timeout: Duration) {
        self.wait_until(timeout, || resolve(&self.entries(), &JournalRef::named(name)) != Resolution::None)
            .await;
    }

    async fn wait_until(&self, timeout: Duration, is_so: impl Fn() -> bool) {
        let mut changed = self.cache.subscribe();
        let wait = async {
            loop {
                changed.mark_unchanged();
                if is_so() || changed.changed().await.is_err() {
                    return;
                }
            }
        };
        // After a time-out, the next call to the journal says what is wrong.
        let _ = tokio::time::timeout(timeout, wait).await;
    }
}

fn entry(folder: &str, server: Server, since: i64) -> Option<RegisteredJournal> {
    let Server { start, name, address, tls, continues, .. } = server;
    let identity = Identity { folder: folder.parse().ok()?, start: start.parse().ok()? };
    Some(RegisteredJournal { name, address, identity, continues, tls, since })
}
