//! The journal's entry under `/components/journal`: what it is called, where it listens, and where its token is.

use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use menagerie_kernel::recipes::membership::Member;
use menagerie_kernel::{Config, Session};
use menagerie_znodes::Name;
use menagerie_znodes::components::{Component, ComponentState};
use tokio::sync::oneshot;
use tracing::warn;

/// Between two attempts to reach ZooKeeper: the journal serves without it.
const AGAIN: Duration = Duration::from_secs(2);
/// Taking leave takes no longer.
const LEAVE: Duration = Duration::from_secs(2);

/// What a journal is called unless it is told: one is enough for most.
pub const NAME: &str = "main";

/// What is registered.
pub struct Entry {
    /// What queues call it.
    pub name: Name,
    /// `HOST:PORT`, as others reach it.
    pub address: String,
    /// The file with its token.
    pub token: PathBuf,
    /// It speaks TLS.
    pub tls: bool,
}

/// A registration on a thread of its own. Dropped, it leaves.
pub struct Registration {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Registration {
    /// Registers, now or when ZooKeeper can be reached.
    pub fn begin(config: Config, mut entry: Entry) -> std::io::Result<Self> {
        let (stop, stopped) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        entry.token = entry.token.canonicalize().unwrap_or(entry.token);
        let run = move || runtime.block_on(stay(config, entry, stopped));
        let thread = thread::Builder::new().name("journal-member".to_owned()).spawn(run)?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            // It may have ended by itself.
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn stay(config: Config, entry: Entry, mut stopped: oneshot::Receiver<()>) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(Duration::ZERO) => {}
            _ = &mut stopped => return,
        }
        let session = tokio::select! {
            session = Session::connect(config.clone()) => session,
            _ = &mut stopped => return,
        };
        match session {
            Ok(session) => {
                let registered = register(&session, &entry).await;
                match registered {
                    Ok(member) => {
                        let _ = (&mut stopped).await;
                        let _ = tokio::time::timeout(LEAVE, member.leave()).await;
                        let _ = tokio::time::timeout(LEAVE, session.close()).await;
                        return;
                    }
                    Err(error) => warn!(error, "cannot register the journal; trying again"),
                }
            }
            Err(error) => warn!(%error, "cannot reach ZooKeeper to register the journal; trying again"),
        }
        tokio::select! {
            () = tokio::time::sleep(AGAIN) => {}
            _ = &mut stopped => return,
        }
    }
}

async fn register(session: &Session, entry: &Entry) -> Result<Member, String> {
    let kind = Name::new("journal").map_err(|error| error.to_string())?;
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let host = Name::new(host).map_err(|error| error.to_string())?;
    let mut component = Component::new(&host, env!("CARGO_PKG_VERSION"));
    component.state = ComponentState::Running;
    let Entry { name, address, token, tls } = entry;
    component.details.insert("name".to_owned(), name.as_str().into());
    component.details.insert("address".to_owned(), address.as_str().into());
    component.details.insert("token_file".to_owned(), token.display().to_string().into());
    component.details.insert("tls".to_owned(), (*tls).into());
    Member::join(session, &kind, component).await.map_err(|error| error.to_string())
}
