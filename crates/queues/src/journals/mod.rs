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

use menagerie_journal::{Journal, Token};
use menagerie_kernel::Session;
use menagerie_kernel::local_secret;
use menagerie_kernel::recipes::tree_cache::TreeCacheError;
use menagerie_znodes::queues::Settings;

use directory::Directory;
use located::Located;

pub use crate::core::whereabouts::Home;

/// By what journals and we know each other. All of it is said on this machine: whoever can write ZooKeeper must neither choose
/// which file we open nor whom we believe.
#[derive(Debug, Clone, Default)]
pub struct Access {
    /// Where the journals' tokens are.
    pub tokens: TokenFiles,
    /// Whom to trust, PEM. With this, journals that do not speak TLS are refused.
    pub authority: Option<PathBuf>,
}

/// Files with tokens of journals, one on each line. A journal shows by itself which of them is its own.
#[derive(Debug, Clone)]
pub enum TokenFiles {
    /// This one, which must be readable.
    Named(PathBuf),
    /// Journals of this machine: those of the same user tell us theirs; else as many of these files as are there and may be
    /// read.
    Local(Vec<PathBuf>),
}

impl Default for TokenFiles {
    fn default() -> Self {
        Self::Local(Vec::new())
    }
}

impl TokenFiles {
    /// The tokens for the journal of this folder, or why there are none. Read whenever a journal was started: it may have a
    /// new one.
    fn read(&self, folder: &str) -> Result<Vec<Token>, String> {
        match self {
            Self::Named(file) => Token::read_all(file)
                .map_err(|error| format!("the token file {} cannot be used: {error}", file.display())),
            Self::Local(files) => {
                let mut reasons = Vec::new();
                let told = local_secret::ask(&local_secret::Owner::journal(folder));
                let mut tokens: Vec<Token> = told.into_iter().map(Token::new).collect();
                for file in files {
                    match Token::read_all(file) {
                        Ok(found) => tokens.extend(found),
                        Err(error) => reasons.push(format!("{}: {error}", file.display())),
                    }
                }
                if tokens.is_empty() {
                    return Err(format!(
                        "we have no token for it ({}); name a copy of its token file with --journal-token-file",
                        reasons.join("; ")
                    ));
                }
                Ok(tokens)
            }
        }
    }
}

impl From<&Settings> for Home {
    fn from(settings: &Settings) -> Self {
        Self { journal: settings.journal.clone(), folder: settings.folder.clone() }
    }
}

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
