//! The server: the store for others, over TCP.
//!
//! # Layout
//! - [`Server`]: listens and stops. [`connection`]: one client; [`asked`]: what it wants; [`writer`]: what it is sent.
//! - [`admin`]: a Unix socket for the owner.

pub mod admin;
mod asked;
mod connection;
#[cfg(test)]
mod flood;
mod writer;

use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use thiserror::Error;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tracing::warn;

use self::connection::Service;
use crate::protocol::handshake::Binding;
use crate::protocol::liveness;
use crate::store::{Store, StoreError};
use crate::tls;
pub use crate::tls::TlsFiles;
use crate::token::Token;

/// More clients are not let in.
const CONNECTIONS_MAX: usize = 20_000;
/// Open files that are not for clients: segments that are read and written, the log, snapshots, and the rest of the process.
/// The journal cannot go on without them, so nobody who only connects may take them.
const FILES_RESERVED: u64 = 384;
/// At most so many threads talk to clients; the log has one of its own.
const THREADS_MAX: usize = 4;

/// Why the server did not start, or had to stop.
#[derive(Debug, Error)]
pub enum Failure {
    /// The data cannot be used, or can no longer be written. Nothing that was acknowledged is lost.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An address is taken, or not ours.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// The certificates cannot be used.
    #[error("cannot offer TLS")]
    Tls {
        /// Why not.
        source: io::Error,
    },
    /// The operating system refused something that a server cannot do without.
    #[error("cannot {doing}")]
    System {
        /// What was attempted.
        doing: &'static str,
        /// Why not.
        source: io::Error,
    },
}

impl Failure {
    /// What the operator may try.
    pub fn help(&self) -> &'static str {
        match self {
            Self::Store(error) => error.help(),
            Self::Listen { .. } => "stop what uses the address, or choose another one",
            Self::Tls { .. } => "check --tls-cert and --tls-key: PEM files that belong together",
            Self::System { .. } => "see the reason above; limits (ulimit -n) are the usual cause",
        }
    }
}

/// Where to listen.
#[derive(Debug, Clone)]
pub struct Listen {
    /// The address; port 0 picks one.
    pub address: SocketAddr,
    /// With this, only TLS is spoken there.
    pub tls: Option<TlsFiles>,
    /// How many clients are let in, where the journal shares the files that its process may open with others.
    pub connections_max: Option<usize>,
}

/// A server that runs, on threads of its own.
pub struct Server {
    address: SocketAddr,
    token_file: PathBuf,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

/// When the server stops, wait at most this long until its connections are closed: one may be reading from a slow disk.
const CLOSE_MAX: Duration = Duration::from_secs(1);

impl Server {
    /// Listens and serves.
    pub fn start(store: Store, listen: &Listen) -> Result<Self, Failure> {
        let (token, token_file) = Token::of(store.data())?;
        let tls =
            listen.tls.as_ref().map(tls::acceptor).transpose().map_err(|source| Failure::Tls { source })?;
        let bound = || -> io::Result<(StdListener, SocketAddr)> {
            let listener = StdListener::bind(listen.address)?;
            listener.set_nonblocking(true)?;
            // As many as may come at once; the standard library's own is too few.
            rustix::net::listen(&listener, 4096)?;
            let address = listener.local_addr()?;
            Ok((listener, address))
        };
        let (listener, address) =
            bound().map_err(|source| Failure::Listen { address: listen.address, source })?;
        let system = |doing| move |source| Failure::System { doing, source };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(threads())
            .thread_name("journal-net")
            .enable_all()
            .build()
            .map_err(system("start the journal's threads"))?;
        let (stop, stopped) = watch::channel(false);
        let files = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        let connections_max = listen.connections_max.unwrap_or(usize::MAX).min(connections_max(files));
        let service = Arc::new(Service { store, token });
        let serve = move || {
            runtime.block_on(accept(listener, connections_max, tls, service, stopped));
            runtime.shutdown_timeout(CLOSE_MAX);
        };
        let thread = std::thread::Builder::new()
            .name("journal-accept".to_owned())
            .spawn(serve)
            .map_err(system("start a thread"))?;
        Ok(Self { address, token_file, stop, thread: Some(thread) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where its token is.
    pub fn token_file(&self) -> &Path {
        &self.token_file
    }

    /// Lets nobody in any more, and closes all connections. The store goes on.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        // Nobody listens when it has ended by itself.
        let _ = self.stop.send(true);
        if let Some(thread) = self.thread.take() {
            // A panic of it was printed already.
            let _ = thread.join();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

/// Half of the cores, the others being for the log and for whoever is beside us. Where that is one, a second one would only
/// be woken by the first, while a reader waits.
fn threads() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    (cores / 2).clamp(1, THREADS_MAX)
}

/// How many clients are let in when so many files may be open.
fn connections_max(files: Option<u64>) -> usize {
    let room = files.map_or(u64::MAX, |files| files.saturating_sub(FILES_RESERVED).max(files / 4));
    usize::try_from(room).unwrap_or(usize::MAX).min(CONNECTIONS_MAX)
}

async fn accept(
    listener: StdListener,
    connections_max: usize,
    tls: Option<tokio_rustls::TlsAcceptor>,
    service: Arc<Service>,
    mut stopped: watch::Receiver<bool>,
) {
    let listener = match TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return warn!(%error, "cannot listen"),
    };
    let room = Arc::new(Semaphore::new(connections_max));
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stopped.changed() => return,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Out of descriptors, mostly: those who are connected go on.
                warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let Ok(place) = room.clone().try_acquire_owned() else {
            warn!(%peer, "too many connections: one more is refused");
            continue;
        };
        let (service, tls) = (service.clone(), tls.clone());
        tokio::spawn(async move {
            let _place = place;
            serve(stream, peer, tls, service).await;
        });
    }
}

async fn serve(
    stream: TcpStream,
    peer: SocketAddr,
    tls: Option<tokio_rustls::TlsAcceptor>,
    service: Arc<Service>,
) {
    // A reply must not wait for more of them.
    let _ = stream.set_nodelay(true);
    // Who is gone without a word must not keep his place.
    let _ = liveness::watch_over(&stream);
    let connections = service.store.metrics().connections.clone();
    connections.inc();
    match tls {
        None => service.talk(stream, peer, Binding::default()).await,
        Some(tls) => match tokio::time::timeout(connection::HELLO_TIME, tls.accept(stream)).await {
            Ok(Ok(stream)) => match Binding::of(stream.get_ref().1) {
                Ok(binding) => service.talk(stream, peer, binding).await,
                Err(error) => tracing::debug!(%peer, %error, "TLS does not name its connection"),
            },
            Ok(Err(error)) => tracing::debug!(%peer, %error, "TLS failed"),
            Err(_) => tracing::debug!(%peer, "TLS took too long"),
        },
    }
    connections.dec();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_leave_enough_files_to_the_journal() {
        for (files, clients) in [(256, 64), (512, 128), (1024, 640), (1 << 20, CONNECTIONS_MAX)] {
            assert_eq!(connections_max(Some(files)), clients);
        }
        assert_eq!(connections_max(None), CONNECTIONS_MAX);
    }
}
