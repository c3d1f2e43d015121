//! Connections, plain or TLS. Handshakes run concurrently, so that a slow client delays nobody.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use clap::Args;
use menagerie_keeper::{TlsFiles, TlsListener};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::{Instant, Sleep};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tracing::{debug, warn};

use crate::allow::Network;
use crate::exit::CliError;

/// How connections are encrypted.
#[derive(Debug, Args)]
pub struct TlsArgs {
    /// Server certificate chain, PEM; accept TLS only. Reloaded when the file changes.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Server private key, PEM.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Require a client certificate signed by this authority, PEM.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_ca: Option<PathBuf>,
}

impl TlsArgs {
    /// Whether certificates were given.
    pub fn is_given(&self) -> bool {
        self.tls_cert.is_some()
    }

    /// Reads the files, before anything else starts.
    pub fn listener(&self) -> Result<Option<TlsListener>, CliError> {
        let (Some(cert), Some(key)) = (self.tls_cert.clone(), self.tls_key.clone()) else { return Ok(None) };
        let files = TlsFiles { cert, key, ca: self.tls_ca.clone() };
        TlsListener::new(files).map(Some).map_err(|error| CliError::Usage {
            what: format!("TLS cannot be offered: {error}"),
            help: "check the files of --tls-cert, --tls-key and --tls-ca: PEM".to_owned(),
        })
    }
}

/// Limits of a listener.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Concurrent connections; each costs a few kilobytes.
    pub connections: usize,
    /// Longest time from accept, or from the previous response, to the next response; and between two accepted parts
    /// of a response. A slower client only keeps others out.
    pub exchange: Duration,
    /// Whether what a client sends gives it more time, too: for servers that think before they answer, and bound the time
    /// of a request by themselves.
    pub reading_counts: bool,
}

impl Limits {
    /// The same limits with at most this many connections.
    pub fn at_most(self, connections: usize) -> Self {
        Self { connections: self.connections.min(connections), ..self }
    }
}

/// Concurrent connections from addresses that are not on the list: they only get a refusal.
const UNLISTED_MAX: usize = 16;

/// Longest TLS handshake.
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);

/// Pause after a failed accept, such as for want of file descriptors.
const ACCEPT_RETRY_PAUSE: Duration = Duration::from_millis(100);

/// A running listener.
pub struct Listener {
    address: SocketAddr,
    ready: mpsc::Receiver<(Connection, SocketAddr)>,
}

/// One connection, plain or TLS.
pub struct Connection {
    stream: Stream,
    deadline: Pin<Box<Sleep>>,
    exchange: Duration,
    reading_counts: bool,
    _permit: OwnedSemaphorePermit,
}

enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// A bound socket with its rules; it accepts nothing until it is [opened](Self::open).
pub struct Endpoint {
    /// Bound before anything else starts.
    pub socket: std::net::TcpListener,
    /// If set, the listener speaks TLS only.
    pub tls: Option<TlsListener>,
    /// Networks that may connect.
    pub allow: Vec<Network>,
    /// Connections and time per exchange.
    pub limits: Limits,
}

impl Endpoint {
    /// Accepts connections from here on.
    pub fn open(self) -> Result<(Listener, SocketAddr), CliError> {
        let Self { socket, tls, allow, limits } = self;
        Listener::new(socket, tls, allow, limits).map_err(CliError::io("set up the listener"))
    }
}

impl Listener {
    /// Accepts connections from here on. Addresses that are not on the list share a few of them.
    pub fn new(
        socket: std::net::TcpListener,
        tls: Option<TlsListener>,
        allow: Vec<Network>,
        limits: Limits,
    ) -> io::Result<(Self, SocketAddr)> {
        socket.set_nonblocking(true)?;
        let socket = TcpListener::from_std(socket)?;
        let address = socket.local_addr()?;
        let (sender, ready) = mpsc::channel(1);
        // The loop ends when the listener is dropped.
        tokio::spawn(accept(socket, tls, allow, limits, sender));
        Ok((Self { address, ready }, address))
    }
}

async fn accept(
    socket: TcpListener,
    mut tls: Option<TlsListener>,
    allow: Vec<Network>,
    limits: Limits,
    ready: mpsc::Sender<(Connection, SocketAddr)>,
) {
    let permits = Arc::new(Semaphore::new(limits.connections));
    let strangers = Arc::new(Semaphore::new(UNLISTED_MAX));
    loop {
        let accepted = tokio::select! {
            accepted = socket.accept() => accepted,
            () = ready.closed() => return,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_RETRY_PAUSE).await;
                continue;
            }
        };
        let permit = if allow.iter().any(|network| network.contains(peer.ip())) {
            permits.clone().acquire_owned().await.expect("the permits are never closed")
        } else {
            let Ok(permit) = strangers.clone().try_acquire_owned() else { continue };
            permit
        };
        // Do not delay small responses (Nagle).
        let _ = stream.set_nodelay(true);
        let config = tls.as_mut().map(TlsListener::config);
        let ready = ready.clone();
        tokio::spawn(async move {
            let stream = match config {
                None => Stream::Plain(stream),
                Some(config) => {
                    let handshake = TlsAcceptor::from(config).accept(stream);
                    match tokio::time::timeout(HANDSHAKE_MAX, handshake).await {
                        Ok(Ok(stream)) => Stream::Tls(Box::new(stream)),
                        Ok(Err(error)) => return debug!(%peer, %error, "no TLS with this client"),
                        Err(_) => return debug!(%peer, "the handshake took too long"),
                    }
                }
            };
            let Limits { exchange, reading_counts, .. } = limits;
            let deadline = Box::pin(tokio::time::sleep(exchange));
            let _ = ready
                .send((Connection { stream, deadline, exchange, reading_counts, _permit: permit }, peer))
                .await;
        });
    }
}

impl axum::serve::Listener for Listener {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        match self.ready.recv().await {
            Some(accepted) => accepted,
            // The accept loop lives as long as this listener.
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }
}

impl Connection {
    /// The result of polling the stream, or a time-out if it is pending past the deadline.
    fn in_time<T>(&mut self, context: &mut Context<'_>, asked: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if asked.is_pending() && self.deadline.as_mut().poll(context).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        asked
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = match &mut self.stream {
            Stream::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Stream::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
        };
        if self.reading_counts && read.is_ready() {
            let end = Instant::now() + self.exchange;
            self.deadline.as_mut().reset(end);
        }
        self.in_time(context, read)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = match &mut self.stream {
            Stream::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Stream::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        };
        if written.is_ready() {
            let end = Instant::now() + self.exchange;
            self.deadline.as_mut().reset(end);
        }
        self.in_time(context, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = match &mut self.stream {
            Stream::Plain(stream) => Pin::new(stream).poll_flush(context),
            Stream::Tls(stream) => Pin::new(stream).poll_flush(context),
        };
        self.in_time(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let ended = match &mut self.stream {
            Stream::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Stream::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        };
        self.in_time(context, ended)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;
    use crate::allow::everybody;
    use axum::serve::Listener as _;

    async fn connected(exchange: Duration) -> (Connection, TcpStream) {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let limits = Limits { connections: 4, exchange, reading_counts: false };
        let (mut listener, address) = Listener::new(socket, None, everybody(), limits).unwrap();
        let client = TcpStream::connect(address).await.unwrap();
        (listener.accept().await.0, client)
    }

    #[tokio::test]
    async fn who_takes_nothing_of_an_answer_is_let_go() {
        let (mut connection, _client) = connected(Duration::from_millis(200)).await;
        // More than the buffers of two sockets hold.
        let written = connection.write_all(&vec![0; 64 << 20]).await;
        assert_eq!(written.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn each_piece_that_is_taken_gives_time_for_the_next() {
        let (mut connection, _client) = connected(Duration::from_secs(30)).await;
        let before = connection.deadline.deadline();
        tokio::time::sleep(Duration::from_millis(10)).await;
        connection.write_all(b"a piece").await.unwrap();
        assert!(connection.deadline.deadline() > before);
    }

    #[tokio::test]
    async fn who_asks_nothing_is_let_go() {
        let (mut connection, _client) = connected(Duration::from_millis(200)).await;
        let read = connection.read_u8().await;
        assert_eq!(read.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
}
