//! The journals that a process can use. A [`JournalRef`] names one, and its entry in ZooKeeper says where it is.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use menagerie_journal::Journal;
use menagerie_kernel::Session;
use menagerie_kernel::recipes::tree_cache::TreeCacheError;

use crate::access::Access;
use crate::directory::Directory;
use crate::located::LocatedJournal;
use crate::resolve::JournalRef;

/// The journals that this process can use, by name. Clones share them.
#[derive(Clone)]
pub struct Journals {
    by_ref: Arc<Mutex<BTreeMap<JournalRef, Arc<dyn Journal>>>>,
    directory: Option<Directory>,
}

impl fmt::Debug for Journals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Journals").field("directory", &self.directory).finish_non_exhaustive()
    }
}

impl<const N: usize> From<[(String, Arc<dyn Journal>); N]> for Journals {
    /// Only these journals, whatever their folders.
    fn from(named: [(String, Arc<dyn Journal>); N]) -> Self {
        let by_ref = named.into_iter().map(|(name, journal)| (JournalRef::named(&name), journal)).collect();
        Self { by_ref: Arc::new(Mutex::new(by_ref)), directory: None }
    }
}

impl Journals {
    /// All journals registered now or later.
    pub async fn registered(session: &Session, access: Access) -> Result<Self, TreeCacheError> {
        let directory = Directory::follow(session, access).await?;
        Ok(Self { by_ref: Arc::default(), directory: Some(directory) })
    }

    /// The journal that this reference names. A registered one is located anew on each call, and may be down.
    pub fn get(&self, target: &JournalRef) -> Option<Arc<dyn Journal>> {
        let mut by_ref = self.by_ref.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(directory) = &self.directory else {
            return by_ref.get(&JournalRef::named(&target.journal)).cloned();
        };
        if let Some(journal) = by_ref.get(target) {
            return Some(journal.clone());
        }
        let journal: Arc<dyn Journal> = Arc::new(LocatedJournal::new(directory.clone(), target.clone()));
        by_ref.insert(target.clone(), journal.clone());
        Some(journal)
    }

    /// Names of the available journals. While there are none, waits up to `timeout` for the first, so that processes
    /// can start in any order.
    pub async fn names(&self, timeout: Duration) -> Vec<String> {
        match &self.directory {
            Some(directory) => directory.names(timeout).await,
            None => {
                let by_ref = self.by_ref.lock().unwrap_or_else(PoisonError::into_inner);
                by_ref.keys().map(|target| target.journal.clone()).collect()
            }
        }
    }

    /// Waits up to `timeout` for a journal of this name. If it does not appear, calls to it say why.
    pub async fn wait_for(&self, name: &str, timeout: Duration) {
        if let Some(directory) = &self.directory {
            directory.wait_for(name, timeout).await;
        }
    }
}
