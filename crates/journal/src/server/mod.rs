//! The server: offers the store over TCP.
//!
//! # Layout
//! - [`Server`]: listens and stops. [`connection`]: one client; [`parsed`]: its requests; [`writer`]: writes to it.
//! - [`admin`]: a Unix socket for the owner.

pub mod admin;
mod connection;
#[cfg(test)]
mod flood;
mod parsed;
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

/// Most clients.
const CONNECTIONS_MAX: usize = 20_000;
/// Open files reserved for segments, the log, snapshots, and the rest of the process. The journal cannot work without
/// them, so connections must not use them up.
const FILES_RESERVED: u64 = 384;
/// Most threads that serve clients; the log has its own.
const THREADS_MAX: usize = 4;

/// Why the server did not start, or had to stop.
#[derive(Debug, Error)]
#[allow(missing_docs, reason = "the fields of errors name themselves")]
pub enum Failure {
    /// The data cannot be used, or can no longer be written. Nothing that was acknowledged is lost.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The address is in use, or not ours.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address to listen on.
        address: SocketAddr,
        source: io::Error,
    },
    /// The certificates cannot be used.
    #[error("cannot offer TLS")]
    Tls { source: io::Error },
    /// The operating system refused something that the server needs.
    #[error("cannot {doing}")]
    System { doing: &'static str, source: io::Error },
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
    /// If set, the listener requires TLS.
    pub tls: Option<TlsFiles>,
    /// Most clients, if the journal shares its process's limit of open files with other roles.
    pub connections_max: Option<usize>,
}

/// A running server, on its own threads.
pub struct Server {
    address: SocketAddr,
    token_file: PathBuf,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

/// When the server stops, wait at most this long until its connections are closed: one may be reading from a slow disk.
const CLOSE_MAX: Duration = Duration::from_secs(1);

impl Server {
    /// Starts listening and serving.
    pub fn start(store: Store, listen: &Listen) -> Result<Self, Failure> {
        let (token, token_file) = Token::of(store.data())?;
        let tls =
            listen.tls.as_ref().map(tls::acceptor).transpose().map_err(|source| Failure::Tls { source })?;
        let bound = || -> io::Result<(StdListener, SocketAddr)> {
            let listener = StdListener::bind(listen.address)?;
            listener.set_nonblocking(true)?;
            // The backlog of the standard library is too short for many clients at once.
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

    /// The address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The path of its token file.
    pub fn token_file(&self) -> &Path {
        &self.token_file
    }

    /// Stops accepting, and closes all connections. The store goes on.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        // Fails only if the server has ended by itself.
        let _ = self.stop.send(true);
        if let Some(thread) = self.thread.take() {
            // A panic was printed already.
            let _ = thread.join();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

/// Half of the cores; the others are for the log and other processes. If that is one, a second thread would only cost
/// wake-ups.
fn threads() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    (cores / 2).clamp(1, THREADS_MAX)
}

/// The limit of clients, given the limit of open files.
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
                // Mostly out of descriptors: existing connections go on.
                warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let Ok(place) = room.clone().try_acquire_owned() else {
            warn!(%peer, "too many connections; refusing another");
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
    // A reply must not wait to be batched with later ones.
    let _ = stream.set_nodelay(true);
    // A dead client must not keep its connection.
    let _ = liveness::watch_over(&stream);
    let connections = service.store.metrics().connections.clone();
    connections.inc();
    match tls {
        None => service.talk(stream, peer, Binding::default()).await,
        Some(tls) => match tokio::time::timeout(connection::HELLO_TIME, tls.accept(stream)).await {
            Ok(Ok(stream)) => match Binding::of(stream.get_ref().1) {
                Ok(binding) => service.talk(stream, peer, binding).await,
                Err(error) => tracing::debug!(%peer, %error, "TLS channel binding failed"),
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
