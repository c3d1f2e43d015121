//! The journals that a process can use. Whoever has messages in one names it, and the journal has said in ZooKeeper where it
//! is.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use menagerie_journal::Journal;
use menagerie_kernel::Session;
use menagerie_kernel::recipes::tree_cache::TreeCacheError;

use crate::access::Access;
use crate::directory::Directory;
use crate::located::Located;
use crate::whereabouts::Home;

/// The journals that this process can use, by name. Clones share them.
#[derive(Clone)]
pub struct Journals {
    homes: Arc<Mutex<BTreeMap<Home, Arc<dyn Journal>>>>,
    directory: Option<Directory>,
}

impl fmt::Debug for Journals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Journals").field("directory", &self.directory).finish_non_exhaustive()
    }
}

impl<const N: usize> From<[(String, Arc<dyn Journal>); N]> for Journals {
    /// These and no others, whatever folders they have.
    fn from(named: [(String, Arc<dyn Journal>); N]) -> Self {
        let homes = named.into_iter().map(|(name, journal)| (Home::named(&name), journal)).collect();
        Self { homes: Arc::new(Mutex::new(homes)), directory: None }
    }
}

impl Journals {
    /// All that are registered, now or later.
    pub async fn registered(session: &Session, access: Access) -> Result<Self, TreeCacheError> {
        let directory = Directory::follow(session, access).await?;
        Ok(Self { homes: Arc::default(), directory: Some(directory) })
    }

    /// The one that has these messages. One that is registered may be somewhere else each time it is asked, or away.
    pub fn get(&self, home: &Home) -> Option<Arc<dyn Journal>> {
        let mut homes = self.homes.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(directory) = &self.directory else {
            return homes.get(&Home::named(&home.journal)).cloned();
        };
        if let Some(journal) = homes.get(home) {
            return Some(journal.clone());
        }
        let journal: Arc<dyn Journal> = Arc::new(Located::new(directory.clone(), home.clone()));
        homes.insert(home.clone(), journal.clone());
        Some(journal)
    }

    /// The names of those that are there. When there are none, waits so long for the first one: who has just started
    /// everything at once need not know the order.
    pub async fn names(&self, patience: Duration) -> Vec<String> {
        match &self.directory {
            Some(directory) => directory.names(patience).await,
            None => {
                let homes = self.homes.lock().unwrap_or_else(PoisonError::into_inner);
                homes.keys().map(|home| home.journal.clone()).collect()
            }
        }
    }

    /// Waits so long until the one with this name is there. Whoever asks it then is told why it is not.
    pub async fn expect(&self, name: &str, patience: Duration) {
        if let Some(directory) = &self.directory {
            directory.expect(name, patience).await;
        }
    }
}
