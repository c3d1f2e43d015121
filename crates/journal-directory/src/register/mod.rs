//! The journal's entry under `/journals`: its folder, name and address. One process serves a folder, and one folder has
//! a name: otherwise messages would be put to one journal and looked for in another.
//!
//! - this file: a journal that registers. `claim`: whether a journal may serve its folder (pure). `claimant`: acts on
//!   that. `folders`: reads and writes folders in ZooKeeper. `refusal`: why a journal must not serve.

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

use claim::OwnServer;
use claimant::Claimant;
pub use refusal::Refusal;

/// Pause between attempts to register or to reach ZooKeeper; the journal serves meanwhile.
pub const RETRY_PAUSE: Duration = Duration::from_secs(2);

/// Default name of a journal: most need only one.
pub const NAME: &str = "main";

/// A journal that registers in ZooKeeper.
pub struct Registrant {
    store: Store,
    folder: String,
    ours: OwnServer,
}

impl Registrant {
    /// The journal of this store, reachable at this address under this name.
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
        let ours = OwnServer { server, starts: texts(starts) };
        Ok(Self { store: store.clone(), folder: folder.to_string(), ours })
    }

    /// The data folder as the operator named it.
    fn data(&self) -> PathBuf {
        let folder = self.store.data();
        folder.parent().unwrap_or(folder).to_owned()
    }
}

/// Progress of a registration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Not known yet whether the journal may serve.
    Undecided,
    /// Waits, for an unknown time, for ZooKeeper or for another journal that does not answer.
    Waiting,
    /// Registered, now or before.
    Registered,
}

impl Registrant {
    /// Registers, and stays registered in all terms of the session. Returns when the journal must not serve, or when
    /// the session is closed, which removes the entry.
    pub async fn keep_registered(
        &self,
        session: &Session,
        standing: &watch::Sender<Standing>,
    ) -> Option<Refusal> {
        Claimant { journal: self, standing, is_settled: false, has_warned: false }.run(session).await
    }

    /// Details for `menagerie status`.
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
