//! The state that the loops share.

use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use mio::Waker;

use super::conn::{Conn, Flushed, Phase, Waiting};
use super::conns::{Conns, FlushReport};
use super::metrics::Metrics;
use super::network::is_whole;
use crate::config::Config;
use crate::core::sessions::Millis;
use crate::core::{ConnId, SessionId, State, Txn};

/// Most writes in a group, before the network loop stops reading: one sync should not take visibly longer than another.
const GROUP_MAX: usize = 1000;
/// Bytes of them: about a thousand with a kilobyte of data each.
const GROUP_BYTES_MAX: usize = 5 << 18;

/// Who waits for a write, and since when.
#[derive(Debug, Clone, Copy)]
pub struct Origin {
    /// The connection.
    pub conn: ConnId,
    /// The request's number.
    pub xid: i32,
    /// The operation, for metrics.
    pub op: menagerie_wire::OpCode,
    /// When it came in.
    pub arrived: Instant,
}

/// An item of a group.
pub enum Item {
    /// A write; without an origin it is the server's own.
    Txn(Txn, Option<Origin>),
    /// Notifies its origin when everything before it is durable.
    Barrier(Origin),
}

/// Writes that will be made durable together.
#[derive(Default)]
pub struct Group {
    /// In the order of their zxids.
    pub items: Vec<Item>,
    /// Their approximate bytes.
    pub bytes: usize,
}

/// A snapshot that is complete and waits for the log loop to put it in place.
#[derive(Debug)]
pub struct Finished {
    /// Its temporary name.
    pub path: std::path::PathBuf,
    /// The last record of the log that it covers.
    pub sequence: u64,
    /// Its length.
    pub bytes: u64,
}

/// A copy of the transactions applied while a capture is in progress.
#[derive(Debug)]
pub struct Tee {
    /// Which capture it is for.
    pub number: u64,
    /// Records that the capture has not written yet.
    pub records: Vec<u8>,
    /// Too many records piled up: the capture is slower than the writes, and must give up.
    pub overflowed: bool,
}

impl Tee {
    /// Most bytes that may wait for a capture.
    const BYTES_MAX: usize = 256 << 20;

    /// Copies a transaction that was just applied.
    pub fn copy(&mut self, txn: &Txn) {
        self.overflowed |= self.records.len() > Self::BYTES_MAX;
        if !self.overflowed {
            crate::store::snapshot::encode_record(txn, &mut self.records);
        }
    }
}

/// Everything that both loops touch.
pub struct Server {
    /// Znodes, sessions, watches.
    pub state: State,
    /// The configuration.
    pub config: Arc<Config>,
    /// Counters.
    pub metrics: Metrics,
    /// Writes that the log loop will take next.
    pub group: Group,
    /// The log loop is writing a group.
    pub log_busy: bool,
    /// The network loop has stopped reading until the group is taken.
    pub starved: bool,
    /// No more requests are taken; the loops end when the last group is durable.
    pub stopping: bool,
    /// The last record that is applied.
    pub applied_sequence: u64,
    /// Tees of the captures in progress.
    pub tees: Vec<Tee>,
    /// A snapshot is being taken.
    pub capturing: bool,
    /// A snapshot to put in place.
    pub finished: Option<Finished>,
    /// Connections that have something to read.
    pub ready: Vec<ConnId>,
    /// Connections that wait for their handshake, oldest first.
    pub greeting: std::collections::VecDeque<(Millis, ConnId)>,
    /// When the server started.
    pub started: Instant,
    conns: Conns,
    last_conn: u64,
}

/// The server, and the means to wake its loops.
pub struct Shared {
    server: Mutex<Server>,
    /// The log loop waits here for work.
    pub work: Condvar,
    /// Wakes the network loop.
    pub waker: Waker,
}

impl Shared {
    /// A server that the loops can share.
    pub fn new(server: Server, waker: Waker) -> Self {
        Self { server: Mutex::new(server), work: Condvar::new(), waker }
    }

    /// Locks the server. A loop that panicked has left it in an unknown state, so then everybody stops.
    pub fn lock(&self) -> MutexGuard<'_, Server> {
        self.server.lock().expect("no loop panics while it holds the server")
    }

    /// Waits until there is work for the log loop.
    pub fn wait_for_work<'a>(&self, guard: MutexGuard<'a, Server>) -> MutexGuard<'a, Server> {
        self.work.wait(guard).expect("no loop panics while it holds the server")
    }
}

impl Server {
    /// A server over a state that was just loaded.
    pub fn new(state: State, config: Arc<Config>, metrics: Metrics, sequence: u64) -> Self {
        let conns = Conns::new(config.held_bytes_max);
        Self {
            state,
            config,
            metrics,
            group: Group::default(),
            log_busy: false,
            starved: false,
            stopping: false,
            applied_sequence: sequence,
            tees: Vec::new(),
            capturing: false,
            finished: None,
            ready: Vec::new(),
            greeting: std::collections::VecDeque::new(),
            started: Instant::now(),
            conns,
            last_conn: 0,
        }
    }

    /// Milliseconds since the server started: the clock of sessions.
    pub fn now(&self) -> Millis {
        Millis(u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX))
    }

    /// The number that the next connection gets.
    pub fn next_conn_id(&mut self) -> ConnId {
        self.last_conn += 1;
        ConnId(self.last_conn)
    }

    /// Whether another connection from this address is allowed.
    pub fn admits(&self, peer: SocketAddr) -> bool {
        let here = self.conns.count_from(peer.ip());
        self.conns.count() < self.config.connections_max
            && (peer.ip().to_canonical().is_loopback() || here < self.config.connections_per_address_max)
    }

    /// Adds a connection.
    pub fn add(&mut self, conn: Conn) {
        self.greeting.push_back((self.now(), conn.id));
        self.conns.insert(conn);
        self.metrics.connections.set(self.conns.count() as i64);
    }

    /// A connection, if it still exists.
    pub fn conn(&mut self, id: ConnId) -> Option<&mut Conn> {
        self.conns.get_mut(id)
    }

    /// All connections.
    pub fn conns(&self) -> impl Iterator<Item = &Conn> {
        self.conns.iter()
    }

    /// The session that a connection serves.
    pub fn session_of(&self, id: ConnId) -> Option<SessionId> {
        self.conns.get(id)?.session
    }

    /// The state and the connections, to use both at once.
    pub fn split(&mut self) -> (&mut State, &mut Conns) {
        (&mut self.state, &mut self.conns)
    }

    /// Drops a connection at once: its socket, its watches, and its unsent replies. Its session lives on.
    pub fn close(&mut self, id: ConnId) {
        let Some(conn) = self.conns.remove(id) else { return };
        self.state.watches.drop_conn(id);
        if let Some(session) = conn.session.and_then(|session| self.state.sessions.get_mut(session))
            && session.conn == Some(id)
        {
            session.conn = None;
        }
        self.metrics.connections.set(self.conns.count() as i64);
    }

    /// Stops reading from a connection, and closes it when the last reply is sent.
    pub fn close_gently(&mut self, id: ConnId) {
        let now = self.now();
        if let Some(conn) = self.conns.get_mut(id) {
            conn.phase = Phase::Closing;
            self.conns.touch(id);
            // It must not keep us waiting: from now on it has as long as a new connection has for its handshake.
            self.greeting.push_back((now, id));
        }
    }

    /// Puts a connection on the list of those that have something to send.
    pub fn touch(&mut self, id: ConnId) {
        self.conns.touch(id);
    }

    /// Returns the unhandled input to a connection.
    pub fn return_input(&mut self, id: ConnId, input: Vec<u8>) {
        if let Some(conn) = self.conns.get_mut(id) {
            conn.held = is_whole(conn.phase, &input);
            conn.input = input;
            if conn.held_bytes() != conn.counted_bytes {
                self.conns.recount(id);
            }
        }
    }

    /// Puts a connection on the list of those to read from, if there may be input and we accept it.
    pub fn enqueue(&mut self, id: ConnId) {
        if let Some(conn) = self.conns.get_mut(id)
            && !conn.queued
            && conn.accepts_more()
            && (conn.readable || conn.held)
        {
            conn.queued = true;
            self.ready.push(id);
        }
    }

    /// Sends all pending output, and drops broken connections.
    pub fn flush(&mut self) {
        let now = self.now();
        while let Some(FlushReport { id, session, flushed, done }) = self.conns.flush_next() {
            if flushed == Flushed::Dead || done {
                self.close(id);
                continue;
            }
            if flushed == (Flushed::Stuck { progress: true })
                && let Some(session) = session
            {
                // We do not read from a client that lags behind with its replies; reading them is its sign of life.
                self.state.sessions.touch(session, now);
            }
            self.enqueue(id);
        }
        self.conns.note_flushed();
    }

    /// Flushes early if many clients request much at once: replies should not pile up until all requests are handled.
    pub fn flush_if_due(&mut self) {
        if self.conns.is_flush_due() {
            self.flush();
        }
    }

    /// Whether the group is so full that reading has to wait.
    pub fn is_full(&self) -> bool {
        self.group.items.len() >= GROUP_MAX || self.is_group_too_long()
    }

    /// Whether the group has so many bytes that even requests that were already received must wait: a small request can
    /// turn into a long transaction.
    pub fn is_group_too_long(&self) -> bool {
        self.group.bytes >= GROUP_BYTES_MAX
    }

    /// Adds a decided write to the group.
    pub fn commit(&mut self, txn: Txn, origin: Option<Origin>) {
        self.group.bytes += txn.held_bytes();
        self.group.items.push(Item::Txn(txn, origin));
    }

    /// Makes the connection wait until all decisions so far are durable; then answers `frame`, if there is one.
    pub fn place_barrier(&mut self, origin: Origin, frame: Option<Vec<u8>>) {
        if let Some(conn) = self.conns.get_mut(origin.conn) {
            conn.wait(Waiting::Barrier(frame));
            self.group.items.push(Item::Barrier(origin));
        }
    }

    /// Whether the log loop sleeps although there is something for it to do.
    pub fn has_work(&self) -> bool {
        !self.log_busy && (!self.group.items.is_empty() || self.finished.is_some())
    }

    /// Whether a snapshot may be started: one at a time, until it is in place, because all are written to one file.
    pub fn may_capture(&self) -> bool {
        !self.capturing && self.finished.is_none()
    }

    /// Whether no write is in flight.
    pub fn is_idle(&self) -> bool {
        self.group.items.is_empty() && !self.log_busy
    }
}

/// The wall clock, for `ctime` and `mtime` only.
pub fn wall_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}
