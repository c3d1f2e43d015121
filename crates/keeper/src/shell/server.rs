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

/// Writes gathered at most before the network loop stops reading: one sync should not take visibly longer than another.
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

/// Something in a group.
pub enum Item {
    /// A write; without an origin it is the server's own.
    Txn(Txn, Option<Origin>),
    /// Somebody wants to know when everything before is durable.
    Barrier(Origin),
}

/// Writes that will be made durable together.
#[derive(Default)]
pub struct Group {
    /// In the order of their zxids.
    pub items: Vec<Item>,
    /// About how many bytes they are.
    pub bytes: usize,
}

/// A snapshot that is complete and waits for the log loop to put it in place.
#[derive(Debug)]
pub struct Finished {
    /// Its temporary name.
    pub path: std::path::PathBuf,
    /// The log is covered up to here.
    pub sequence: u64,
    /// How long it is.
    pub bytes: u64,
}

/// A copy of what is applied while a capture is under way.
#[derive(Debug)]
pub struct Tee {
    /// Which capture it is for.
    pub number: u64,
    /// What it has not written yet.
    pub records: Vec<u8>,
    /// So much came together that the capture must give up: it is slower than the writes.
    pub overflowed: bool,
}

impl Tee {
    /// What may wait in memory for a capture to write it.
    const BYTES_MAX: usize = 256 << 20;

    /// Adds a transaction that was just applied.
    pub fn note(&mut self, txn: &Txn) {
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
    /// What the operator chose.
    pub config: Arc<Config>,
    /// Counters.
    pub metrics: Metrics,
    /// Writes that the log loop will take next.
    pub group: Group,
    /// The log loop has a group in hand.
    pub log_busy: bool,
    /// The network loop has stopped reading until the group is taken.
    pub starved: bool,
    /// No more requests are taken; when the last group is durable, all is over.
    pub stopping: bool,
    /// The last record that is applied.
    pub applied_sequence: u64,
    /// Copies of what is applied, for captures under way.
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

    /// The server. A loop that panicked has left it in an unknown state, so then everybody stops.
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

    /// Whether another connection from there is welcome.
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

    /// A connection that is still there.
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

    /// Drops a connection at once: its socket, its watches, and what it was still owed. Its session lives on.
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

    /// Nothing more is read from it; it is closed when the last reply is out.
    pub fn close_gently(&mut self, id: ConnId) {
        let now = self.now();
        if let Some(conn) = self.conns.get_mut(id) {
            conn.phase = Phase::Closing;
            self.conns.touch(id);
            // It must not keep us waiting: from now on it has as long as somebody who has not said hello.
            self.greeting.push_back((now, id));
        }
    }

    /// Puts a connection on the list of those that have something to send.
    pub fn touch(&mut self, id: ConnId) {
        self.conns.touch(id);
    }

    /// Gives a connection its input back, less what was handled of it.
    pub fn return_input(&mut self, id: ConnId, input: Vec<u8>) {
        if let Some(conn) = self.conns.get_mut(id) {
            conn.held = is_whole(conn.phase, &input);
            conn.input = input;
            if conn.held_bytes() != conn.counted_bytes {
                self.conns.recount(id);
            }
        }
    }

    /// Puts a connection on the list of those to read from, if there may be something and we take it.
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

    /// Sends what is due to whom it is due, and drops who is gone.
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
                // We do not read from a client that lags behind with its replies; that it reads is its sign of life.
                self.state.sessions.touch(session, now);
            }
            self.enqueue(id);
        }
        self.conns.note_flushed();
    }

    /// Flushes early when many clients ask for much at once: replies should not pile up until all requests are handled.
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

    /// Makes the connection wait until everything decided so far is durable; then `frame` is answered, if there is one.
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

    /// Whether nothing is on its way to disk.
    pub fn is_idle(&self) -> bool {
        self.group.items.is_empty() && !self.log_busy
    }
}

/// The wall clock, for `ctime` and `mtime` only.
pub fn wall_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}
