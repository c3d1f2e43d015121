//! The journal's entry under `/journals`: which folder it serves, what it is called, and where it listens. A folder is served
//! by one process, and a name belongs to one folder: else messages would go to one and be looked for in the other.
//!
//! - this file: a registration. `claim`: whether a journal may serve its folder (pure); `claimant`: does that. `folders`: what
//!   ZooKeeper knows of folders. `refusal`: why a journal must not serve.

mod claim;
mod claimant;
mod folders;
mod refusal;

use std::path::PathBuf;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use menagerie_journal::{Identity, Store, StoreError};
use menagerie_kernel::{Config, Session, whole};
use menagerie_znodes::Name;
use menagerie_znodes::journals::Server;
use tokio::sync::oneshot;
use tracing::warn;

use claim::Ours;
use claimant::Claimant;
pub use refusal::Refusal;

/// Between two attempts to reach ZooKeeper: the journal serves without it.
const AGAIN: Duration = Duration::from_secs(2);
/// Taking leave takes no longer.
const LEAVE: Duration = Duration::from_secs(2);

/// Whoever starts waits so long for what comes of it.
const VERDICT: Duration = Duration::from_secs(4);

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

/// A registration on a thread of its own. Dropped, it leaves.
pub struct Registration {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<Option<Refusal>>>,
    refused: bool,
}

impl Registration {
    /// Registers, now or when ZooKeeper can be reached. If the journal must not serve, `refused` is called, now or whenever
    /// that is found; whether it is so from the beginning is known on return, unless ZooKeeper or another journal do not
    /// answer.
    pub fn begin(
        config: Config,
        journal: Registrant,
        refused: impl FnOnce(&Refusal) + Send + 'static,
    ) -> std::io::Result<Self> {
        let (stop, stopped) = oneshot::channel();
        let (first, told) = mpsc::channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let run = move || {
            let why = runtime.block_on(stay(config, journal, stopped, &first));
            if let Some(why) = &why {
                refused(why);
            }
            let _ = first.send(why.is_some());
            why
        };
        let thread = thread::Builder::new().name("journal-member".to_owned()).spawn(run)?;
        let refused = told.recv_timeout(VERDICT).unwrap_or_default();
        Ok(Self { stop: Some(stop), thread: Some(thread), refused })
    }

    /// Whether it must not serve, from the beginning.
    pub fn is_refused(&self) -> bool {
        self.refused
    }

    /// Leaves; tells why it had to, if it had.
    pub fn end(mut self) -> Option<Refusal> {
        self.leave()
    }

    fn leave(&mut self) -> Option<Refusal> {
        if let Some(stop) = self.stop.take() {
            // It may have ended by itself.
            let _ = stop.send(());
        }
        self.thread.take()?.join().ok().flatten()
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.leave();
    }
}

/// Stays registered until it is stopped, or finds that it must not serve. `first` is told when it is not refused at once.
async fn stay(
    config: Config,
    journal: Registrant,
    mut stopped: oneshot::Receiver<()>,
    first: &mpsc::Sender<bool>,
) -> Option<Refusal> {
    let connect = async {
        loop {
            match Session::connect(config.clone()).await {
                Ok(session) => return session,
                Err(error) => {
                    let _ = first.send(false);
                    warn!(error = %whole(&error), "cannot reach ZooKeeper to register the journal; trying again");
                    tokio::time::sleep(AGAIN).await;
                }
            }
        }
    };
    let session = tokio::select! {
        session = connect => session,
        _ = &mut stopped => return None,
    };
    let mut claimant =
        Claimant { journal: &journal, first, is_settled: false, has_told: false, member: None };
    let refusal = tokio::select! {
        refusal = claimant.run(&session) => refusal,
        _ = &mut stopped => None,
    };
    if let Some(member) = claimant.member {
        let _ = tokio::time::timeout(LEAVE, member.leave()).await;
    }
    // It takes the entry along.
    let _ = tokio::time::timeout(LEAVE, session.close()).await;
    refusal
}
