//! Starts and stops the keeper.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use menagerie_wal::Options as LogOptions;
use mio::net::TcpListener;
use mio::{Poll, Waker};
use prometheus_client::registry::Registry;
use thiserror::Error;

use super::metrics::Metrics;
use super::network::{Listeners, Network, WAKE};
use super::server::{Server, Shared};
use super::tls::{TlsError, TlsListener};
use super::{admin, log_loop};
use crate::config::Config;
use crate::core::Options;
use crate::store::{Folder, StoreError, recover, snapshot};

/// Why the keeper did not start, or had to stop.
#[derive(Debug, Error)]
#[allow(missing_docs, reason = "the fields of errors name themselves")]
pub enum Failure {
    /// The data cannot be used, or can no longer be written. Nothing that was acknowledged is lost.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The address is in use, or not ours.
    #[error("cannot listen on {address}")]
    Listen { address: SocketAddr, source: io::Error },
    /// The certificates cannot be used.
    #[error("cannot offer TLS")]
    Tls(#[from] TlsError),
    /// The operating system refused something that the server needs.
    #[error("cannot {doing}")]
    System { doing: &'static str, source: io::Error },
    /// A bug: a loop ended unexpectedly.
    #[error("the {0} loop has died")]
    Died(&'static str),
}

impl Failure {
    fn system(doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { doing, source }
    }

    /// What the operator may try.
    pub fn help(&self) -> &'static str {
        match self {
            Self::Store(error) => error.help(),
            Self::Listen { .. } => "stop what uses the address, or choose another one",
            Self::Tls(_) => "check --tls-cert, --tls-key and --tls-ca: PEM files that belong together",
            Self::System { .. } => "see the reason above; limits (ulimit -n) are the usual cause",
            Self::Died(_) => "this is a bug: please report it with the log",
        }
    }
}

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 4096;

/// A running keeper.
pub struct Keeper {
    shared: Arc<Shared>,
    address: SocketAddr,
    tls_address: Option<SocketAddr>,
    ended: Receiver<Ended>,
    folder: Arc<Folder>,
}

/// How a loop ended; `None` if it panicked.
struct Ended(&'static str, Option<Result<(), Failure>>);

/// Stops a keeper from another thread.
#[derive(Clone)]
pub struct Stopper {
    shared: Arc<Shared>,
    folder: Arc<Folder>,
}

impl Keeper {
    /// Loads the data, listens, and serves.
    pub fn start(config: Config, registry: &mut Registry) -> Result<Self, Failure> {
        let folder = Arc::new(Folder::open(&config.data)?);
        let (plain, address) = bind(config.listen)?;
        let mut config = Config { listen: address, ..config };
        let tls = match &mut config.tls {
            None => None,
            Some((address, files)) => {
                let (listener, bound) = bind(*address)?;
                *address = bound;
                Some((listener, TlsListener::new(files.clone())?))
            }
        };
        let tls_address = config.tls.as_ref().map(|(address, _)| *address);
        let options = Options {
            enforce_quota: config.enforce_quota,
            superuser_digest: config.superuser_digest.clone(),
            x509: config.tls.as_ref().is_some_and(|(_, files)| files.ca.is_some()),
            limits: config.limits,
        };
        // The end of a session is one record, however many ephemeral znodes it had.
        let log_options = LogOptions {
            durability: config.durability,
            record_bytes_max: snapshot::RECORD_BYTES_MAX,
            ..LogOptions::default()
        };
        let recovered = recover(&folder, options, log_options)?;

        let poll = Poll::new().map_err(Failure::system("wait for connections"))?;
        let waker = Waker::new(poll.registry(), WAKE).map_err(Failure::system("wait for connections"))?;
        let config = Arc::new(config);
        let mut server = Server::new(recovered.state, config, Metrics::new(registry), recovered.sequence);
        let now = server.now();
        server.state.sessions.reschedule_all(now);
        server.metrics.note_counts(&server.state);
        let shared = Arc::new(Shared::new(server, waker));
        let network = Network::new(poll, shared.clone(), Listeners { plain, tls })
            .map_err(Failure::system("register the listeners"))?;
        let socket = menagerie_datadir::admin::listen(folder.path())
            .map_err(Failure::system("make the administration socket"))?;

        let (sender, ended) = channel();
        let (for_log, log_folder) = (shared.clone(), folder.clone());
        spawn("log", sender.clone(), move || {
            log_loop::run(&for_log, &log_folder, recovered.log, recovered.snapshot_bytes)
                .map_err(Failure::from)
        })?;
        spawn("network", sender.clone(), move || {
            network.run().map_err(Failure::system("wait for connections"))
        })?;
        let for_admin = shared.clone();
        spawn("admin", sender, move || {
            admin::run(&for_admin, &socket);
            Ok(())
        })?;
        Ok(Self { shared, address, tls_address, ended, folder })
    }

    /// The address for plain connections.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address for TLS connections.
    pub fn tls_address(&self) -> Option<SocketAddr> {
        self.tls_address
    }

    /// A handle to stop it from another thread.
    pub fn stopper(&self) -> Stopper {
        Stopper { shared: self.shared.clone(), folder: self.folder.clone() }
    }

    /// Waits until it has stopped: cleanly, with everything durable, or because it failed. After a failure the process
    /// must end.
    pub fn wait(self) -> Result<(), Failure> {
        // Not the administration loop: it may block in a system call, and nobody depends on its end.
        let mut left = vec!["log", "network"];
        while !left.is_empty() {
            let Ok(Ended(name, result)) = self.ended.recv() else { break };
            left.retain(|other| *other != name);
            match result {
                Some(Ok(())) if self.shared.lock().stopping => {}
                Some(Ok(())) | None => return Err(Failure::Died(name)),
                Some(Err(failure)) => return Err(failure),
            }
        }
        menagerie_datadir::admin::remove(self.folder.path());
        Ok(())
    }
}

impl Stopper {
    /// Takes no more requests, finishes those in flight, closes the log. [`Keeper::wait`] returns when it is done.
    pub fn stop(&self) {
        self.shared.lock().stopping = true;
        self.shared.work.notify_all();
        let _ = self.shared.waker.wake();
        // The administration loop notices it only when somebody connects.
        let _ = menagerie_datadir::admin::connect(self.folder.path());
    }
}

fn bind(address: SocketAddr) -> Result<(TcpListener, SocketAddr), Failure> {
    let failed = |source| Failure::Listen { address, source };
    let listener = TcpListener::bind(address).map_err(failed)?;
    // After a restart a whole fleet comes back at once; the default backlog would make most of them wait a second. The
    // kernel caps it at its own limit.
    rustix::net::listen(&listener, BACKLOG).map_err(|error| failed(error.into()))?;
    let bound = listener.local_addr().map_err(failed)?;
    Ok((listener, bound))
}

fn spawn(
    name: &'static str,
    ended: Sender<Ended>,
    run: impl FnOnce() -> Result<(), Failure> + Send + 'static,
) -> Result<(), Failure> {
    /// Reports how the loop ended, also when it panics.
    struct Report(&'static str, Sender<Ended>, Option<Result<(), Failure>>);
    impl Drop for Report {
        fn drop(&mut self) {
            // Fails only if the keeper was dropped.
            let _ = self.1.send(Ended(self.0, self.2.take()));
        }
    }
    thread::Builder::new()
        .name(format!("keeper-{name}"))
        .spawn(move || {
            let mut report = Report(name, ended, None);
            report.2 = Some(run());
        })
        .map(drop)
        .map_err(Failure::system("start a thread"))
}
