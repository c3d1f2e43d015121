//! The journal's entry under `/journals`: which folder it serves, what it is called, and where it listens. A folder is served
//! by one process, and a name belongs to one folder: else messages would go to one and be looked for in the other.
//!
//! - this file: a journal that registers. `claim`: whether a journal may serve its folder (pure); `claimant`: does that. `folders`: what
//!   ZooKeeper knows of folders. `refusal`: why a journal must not serve.

mod claim;
mod claimant;
mod folders;
mod refusal;

use std::path::PathBuf;
use std::time::Duration;

use menagerie_journal::{Identity, Store, StoreError};
use menagerie_kernel::Session;
use menagerie_znodes::Name;
use menagerie_znodes::journals::Server;
use serde_json::{Map, Value};
use tokio::sync::watch;

use claim::Ours;
use claimant::Claimant;
pub use refusal::Refusal;

/// Between two attempts to register, or to reach ZooKeeper: the journal serves without it.
pub const RETRY_PAUSE: Duration = Duration::from_secs(2);

/// What a journal is called unless it is told: one is enough for most.
pub const NAME: &str = "main";

/// A journal that is to be registered.
pub struct Registrant {
    store: Store,
    folder: String,
    ours: Ours,
}

impl Registrant {
    /// The journal of this store, which others reach at this address of this host by this name.
    pub fn new(
        store: &Store,
        name: &Name,
        host: String,
        address: String,
        tls: bool,
    ) -> Result<Self, StoreError> {
        let Identity { folder, start } = store.identity();
        let lineage = store.lineage()?;
        let texts = |ids: Vec<_>| ids.iter().map(ToString::to_string).collect();
        let server = Server {
            start: start.to_string(),
            name: name.to_string(),
            host,
            address,
            tls,
            continues: texts(lineage.continues),
            place: lineage.place,
        };
        let starts = lineage.starts.into_iter().chain([start]).collect();
        let ours = Ours { server, starts: texts(starts) };
        Ok(Self { store: store.clone(), folder: folder.to_string(), ours })
    }

    /// The data folder as operators name it.
    fn data(&self) -> PathBuf {
        let folder = self.store.data();
        folder.parent().unwrap_or(folder).to_owned()
    }
}

/// How far a registration has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Nobody knows yet whether the journal may serve.
    Undecided,
    /// It waits for ZooKeeper, or for another journal that does not answer: nobody knows for how long.
    Waiting,
    /// It is registered, or was.
    Registered,
}

impl Registrant {
    /// Registers, and stays registered in all terms of the session. Returns only when the journal must not serve, or when the
    /// session is closed, which removes the entry.
    pub async fn stay(&self, session: &Session, standing: &watch::Sender<Standing>) -> Option<Refusal> {
        Claimant { journal: self, standing, is_settled: false, has_warned: false }.run(session).await
    }

    /// What `menagerie status` knows of it.
    pub fn details(&self) -> Map<String, Value> {
        let Server { name, address, tls, .. } = &self.ours.server;
        Map::from_iter([
            ("name".to_owned(), name.as_str().into()),
            ("address".to_owned(), address.as_str().into()),
            ("tls".to_owned(), (*tls).into()),
            ("folder".to_owned(), self.folder.as_str().into()),
        ])
    }
}
