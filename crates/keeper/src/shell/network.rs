//! The network loop: accepts, reads, and hands decided writes to the log loop.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use tracing::debug;

use super::conn::{Conn, Phase, release_spare};
use super::expiry::Pulse;
use super::request::Next;
use super::server::{Server, Shared};
use super::stream::Stream;
use super::tls::TlsListener;
use super::words;
use crate::core::ConnId;

/// Tokens of what is not a connection; connections use their number, which starts at 1.
pub const WAKE: Token = Token(usize::MAX);
const PLAIN: Token = Token(usize::MAX - 1);
const TLS: Token = Token(usize::MAX - 2);

/// Bytes read from one connection before it is the next one's turn.
const READ_BYTES: usize = 64 << 10;
/// Bytes of the first frame of a connection. A handshake has 45; strangers must not make us buffer megabytes.
const GREETING_BYTES_MAX: usize = 4 << 10;
/// How long one connection's requests may keep the others waiting; the rest follows in its next turn.
const TURN: Duration = Duration::from_millis(5);
/// Events taken from the kernel at once.
const EVENTS: usize = 1024;

/// The listening sockets.
pub struct Listeners {
    /// Plain ones.
    pub plain: TcpListener,
    /// TLS ones.
    pub tls: Option<(TcpListener, TlsListener)>,
}

/// The network loop.
pub struct Network {
    poll: Poll,
    shared: Arc<Shared>,
    listeners: Listeners,
    scratch: Box<[u8]>,
    pulse: Pulse,
    /// Accepting failed (no file descriptors, say); try again at the next beat.
    accept_again: bool,
}

impl Network {
    /// Registers the listeners.
    pub fn new(poll: Poll, shared: Arc<Shared>, mut listeners: Listeners) -> io::Result<Self> {
        poll.registry().register(&mut listeners.plain, PLAIN, Interest::READABLE)?;
        if let Some((listener, _)) = &mut listeners.tls {
            poll.registry().register(listener, TLS, Interest::READABLE)?;
        }
        let pulse = Pulse::new(shared.lock().now());
        Ok(Self { poll, shared, listeners, scratch: vec![0; READ_BYTES].into(), pulse, accept_again: false })
    }

    /// Runs until the server stops.
    pub fn run(mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENTS);
        let shared = self.shared.clone();
        let mut sleep = Duration::ZERO;
        loop {
            if let Err(error) = self.poll.poll(&mut events, Some(sleep))
                && error.kind() != io::ErrorKind::Interrupted
            {
                return Err(error);
            }
            let mut server = shared.lock();
            if server.stopping {
                return Ok(());
            }
            sleep = self.turn(&mut server, &events);
            let work = server.has_work();
            // First unlock, then wake: the log loop begins by taking the lock.
            drop(server);
            if work {
                shared.work.notify_one();
            }
        }
    }

    /// Does all pending work. Returns how long to sleep if nothing happens.
    fn turn(&mut self, server: &mut Server, events: &Events) -> Duration {
        if std::mem::take(&mut self.accept_again) {
            self.accept(server, PLAIN);
            self.accept(server, TLS);
        }
        for event in events {
            match event.token() {
                WAKE => {}
                token @ (PLAIN | TLS) => self.accept(server, token),
                Token(number) => {
                    let id = ConnId(number as u64);
                    if event.is_writable() {
                        server.touch(id);
                    }
                    if event.is_readable() || event.is_read_closed() || event.is_error() {
                        if let Some(conn) = server.conn(id) {
                            conn.readable = true;
                            conn.hung_up |= event.is_read_closed() || event.is_error();
                        }
                        server.enqueue(id);
                    }
                }
            }
        }
        self.read_ready(server);
        self.pulse.beat(server);
        server.flush();
        if server.ready.is_empty() || server.starved {
            Duration::from_millis(self.pulse.sleep_ms(server, server.now()))
        } else {
            Duration::ZERO
        }
    }

    fn accept(&mut self, server: &mut Server, token: Token) {
        loop {
            let listener = match token {
                PLAIN => Some(&self.listeners.plain),
                _ => self.listeners.tls.as_ref().map(|(listener, _)| listener),
            };
            let Some(listener) = listener else { return };
            match listener.accept() {
                Ok((socket, peer)) => {
                    if let Err(error) = self.welcome(server, token, socket, peer) {
                        debug!(%peer, %error, "connection refused");
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    debug!(%error, "cannot accept a connection");
                    server.metrics.connections_refused.inc();
                    self.accept_again = true;
                    return;
                }
            }
        }
    }

    fn welcome(
        &mut self,
        server: &mut Server,
        token: Token,
        mut socket: TcpStream,
        peer: SocketAddr,
    ) -> io::Result<()> {
        if !server.admits(peer) {
            debug!(%peer, "connection refused: too many connections");
            server.metrics.connections_refused.inc();
            return Ok(());
        }
        socket.set_nodelay(true)?;
        let id = server.next_conn_id();
        self.poll.registry().register(
            &mut socket,
            Token(id.0 as usize),
            Interest::READABLE | Interest::WRITABLE,
        )?;
        let stream = match (&mut self.listeners.tls, token) {
            (Some((_, tls)), TLS) => Stream::tls(socket, tls.session().map_err(io::Error::other)?),
            _ => Stream::Plain(socket),
        };
        server.add(Conn::new(id, stream, peer, Instant::now()));
        server.enqueue(id);
        Ok(())
    }

    /// Reads from every ready connection, each its share, until the group is full.
    fn read_ready(&mut self, server: &mut Server) {
        for id in std::mem::take(&mut server.ready) {
            if server.is_full() {
                server.starved = true;
                server.ready.push(id);
                continue;
            }
            if let Some(conn) = server.conn(id) {
                conn.queued = false;
            }
            if self.read(server, id) == Next::Close {
                server.close(id);
            } else {
                server.enqueue(id);
                server.flush_if_due();
            }
        }
    }

    fn read(&mut self, server: &mut Server, id: ConnId) -> Next {
        let arrived = Instant::now();
        let Some(conn) = server.conn(id) else { return Next::Continue };
        let mut input = std::mem::take(&mut conn.input);
        // Frames that had to wait come before anything new.
        let mut taken = 0;
        let mut next = consume(server, id, &input, &mut taken, arrived);
        if next == Next::Continue
            && !server.is_group_too_long()
            && let Some(conn) = server.conn(id)
            && conn.readable
            && conn.accepts_more()
            // Reading on while whole frames wait would let requests pile up.
            && !is_whole(conn.phase, &input[taken..])
        {
            let fresh_max = self.scratch.len();
            match conn.stream.read(&mut self.scratch) {
                Ok(0) => next = Next::Close,
                Ok(read) => {
                    let fresh = &self.scratch[..read];
                    // A short read has emptied the socket, and new bytes raise an event: no second call to learn that
                    // there is nothing. (TLS returns one record at a time, so there a short read proves nothing.)
                    if read < fresh_max && conn.stream.is_plain() && !conn.hung_up {
                        conn.readable = false;
                    }
                    if taken == input.len() {
                        input.clear();
                        taken = 0;
                        let mut used = 0;
                        next = consume(server, id, fresh, &mut used, arrived);
                        input.extend_from_slice(&fresh[used..]);
                    } else {
                        input.extend_from_slice(fresh);
                        next = consume(server, id, &input, &mut taken, arrived);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => conn.readable = false,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => next = Next::Close,
            }
        }
        input.drain(..taken);
        release_spare(&mut input);
        server.return_input(id, input);
        next
    }
}

/// The four-letter word that a client sends in place of a greeting.
fn word(phase: Phase, bytes: &[u8]) -> Option<[u8; 4]> {
    let first = *bytes.first_chunk::<4>()?;
    if phase == Phase::Greeting { menagerie_wire::frame::four_letter_word(first) } else { None }
}

/// Whether these bytes can be handled without waiting for more: no event would remind us of them.
pub(super) fn is_whole(phase: Phase, bytes: &[u8]) -> bool {
    let frame = menagerie_wire::frame::split(bytes, usize::MAX);
    word(phase, bytes).is_some() || matches!(frame, Ok(Some(_)) | Err(_))
}

/// Handles whole frames from the front of `bytes`, as long as the connection accepts more.
fn consume(server: &mut Server, id: ConnId, bytes: &[u8], taken: &mut usize, arrived: Instant) -> Next {
    loop {
        let rest = &bytes[*taken..];
        let Some(conn) = server.conn(id) else { return Next::Continue };
        let waits = !conn.accepts_more() || rest.is_empty() || arrived.elapsed() > TURN;
        let phase = conn.phase;
        if waits || server.is_group_too_long() {
            return Next::Continue;
        }
        if let Some(word) = word(phase, rest) {
            let answer = words::answer(server, word);
            if let Some(conn) = server.conn(id) {
                conn.send_raw(answer.as_bytes());
            }
            server.close_gently(id);
            *taken = bytes.len();
            return Next::Continue;
        }
        let frame_max =
            if phase == Phase::Greeting { GREETING_BYTES_MAX } else { menagerie_wire::FRAME_BYTES_MAX };
        match menagerie_wire::frame::split(rest, frame_max) {
            Ok(Some((frame, length))) => {
                *taken += length;
                if server.receive(id, frame, arrived) == Next::Close {
                    return Next::Close;
                }
            }
            Ok(None) => return Next::Continue,
            Err(error) => {
                debug!(conn = id.0, %error, "connection closed");
                return Next::Close;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_whole_is_not_left_lying() {
        assert!(is_whole(Phase::Greeting, b"mntr"), "it reads like the length of a frame of 1.8 GB");
        assert!(is_whole(Phase::Open, &[0, 0, 0, 1, 9]));
        assert!(is_whole(Phase::Open, &[0xff; 4]), "a length that no frame has");
        for part in [&b""[..], b"mnt", &[0, 0, 0, 2, 9]] {
            assert!(!is_whole(Phase::Greeting, part));
        }
    }
}
