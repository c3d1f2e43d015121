//! Where messages are: a queue's settings name its journal, and the journal has said in ZooKeeper where it is.
//!
//! - this file: the journals that a process knows. `directory`: those that are registered, as they come and go. `located`:
//!   one of them, wherever it is at the moment.

mod directory;
mod located;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use menagerie_journal::Journal;
use menagerie_kernel::Session;
use menagerie_kernel::recipes::tree_cache::TreeCacheError;

use directory::Directory;
use located::Located;

/// By what journals know us, where what they have registered does not say it.
#[derive(Debug, Clone, Default)]
pub struct Access {
    /// The token, for who is on another machine than the journal: its file is named from the journal's point of view.
    pub token_file: Option<PathBuf>,
    /// Whom to trust, PEM, if journals speak TLS.
    pub authority: Option<PathBuf>,
}

/// The journals that this process can use, by name. Clones share them.
#[derive(Clone)]
pub struct Journals {
    named: Arc<Mutex<BTreeMap<String, Arc<dyn Journal>>>>,
    directory: Option<Directory>,
}

impl fmt::Debug for Journals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Journals").field("directory", &self.directory).finish_non_exhaustive()
    }
}

impl<const N: usize> From<[(String, Arc<dyn Journal>); N]> for Journals {
    /// These and no others.
    fn from(named: [(String, Arc<dyn Journal>); N]) -> Self {
        Self { named: Arc::new(Mutex::new(BTreeMap::from(named))), directory: None }
    }
}

impl Journals {
    /// All that are registered, now or later.
    pub async fn registered(session: &Session, access: Access) -> Result<Self, TreeCacheError> {
        let directory = Directory::follow(session, access).await?;
        Ok(Self { named: Arc::default(), directory: Some(directory) })
    }

    /// The one with this name. One that is registered may be somewhere else each time it is asked, or away.
    pub fn get(&self, name: &str) -> Option<Arc<dyn Journal>> {
        let mut named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(journal) = named.get(name) {
            return Some(journal.clone());
        }
        let journal: Arc<dyn Journal> = Arc::new(Located::new(self.directory.clone()?, name));
        named.insert(name.to_owned(), journal.clone());
        Some(journal)
    }

    /// The names of those that are there. When there are none, waits so long for the first one: who has just started
    /// everything at once need not know the order.
    pub async fn names(&self, patience: Duration) -> Vec<String> {
        match &self.directory {
            Some(directory) => directory.names(patience).await,
            None => self.named.lock().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect(),
        }
    }

    /// Waits so long until the one with this name is there. Whoever asks it then is told why it is not.
    pub async fn expect(&self, name: &str, patience: Duration) {
        if let Some(directory) = &self.directory {
            directory.expect(name, patience).await;
        }
    }
}
