//! One connection: its waiting requests and its unsent replies.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use menagerie_wire::{ErrorCode, Id, ReplyHeader, framed};

use super::stream::Stream;
use crate::core::{ConnId, SessionId};

/// Requests of one connection that may wait for an earlier write; beyond that we stop reading from it.
const WAITING_MAX: usize = 1000;
/// Bytes of such requests and of their answers, which are produced all at once when the write is durable.
const WAITING_BYTES_MAX: usize = 4 << 20;
/// Bytes of unsent replies at which we stop reading from a client that does not read.
const OUT_BYTES_PAUSE: usize = 1 << 20;
/// Bytes of sent replies at which their memory is released while others still wait.
const SENT_BYTES_KEPT: usize = 256 << 10;
/// Bytes of unsent notifications at which a client that does not read is cut off. Its session lives on; when it comes
/// back it sets its watches again and misses nothing.
const OUT_BYTES_MAX: usize = 64 << 20;
/// A buffer that grew beyond this is released when it is empty.
const BUFFER_KEPT: usize = 64 << 10;

/// Identities of one connection: each is compared with each entry of an access list.
const IDENTITIES_MAX: usize = 100;
/// Bytes of their names.
const IDENTITY_BYTES_MAX: usize = 64 << 10;

/// The phase of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// It waits for the connect request.
    Greeting,
    /// Its new session is not durable yet.
    Opening,
    /// It serves a session.
    Open,
    /// It reads nothing more, and is closed when the last reply is sent.
    Closing,
}

/// Something that has to wait for an earlier write.
pub enum Waiting {
    /// A write of this connection that is not durable yet.
    Txn,
    /// Everybody's writes up to now; then the request that asked for it, if any, is answered.
    Barrier(Option<Vec<u8>>),
    /// A request to answer after them, and the approximate length of the answer.
    Frame(Vec<u8>, usize),
    /// An answer that is known already.
    Reply(Vec<u8>),
}

impl Waiting {
    /// Bytes including those of the answer to come.
    fn bytes(&self) -> usize {
        match self {
            Self::Frame(bytes, answer) => bytes.len() + answer,
            Self::Txn | Self::Barrier(_) | Self::Reply(_) => self.held_bytes(),
        }
    }

    /// Bytes in memory while it waits.
    fn held_bytes(&self) -> usize {
        match self {
            Self::Txn => 0,
            Self::Frame(bytes, _) => bytes.len(),
            Self::Barrier(frame) => frame.as_ref().map_or(0, Vec::len),
            Self::Reply(bytes) => bytes.len(),
        }
    }
}

/// One client's connection.
pub struct Conn {
    /// Its number; never reused.
    pub id: ConnId,
    /// Its socket.
    pub stream: Stream,
    /// The client's address.
    pub peer: SocketAddr,
    /// Its phase.
    pub phase: Phase,
    /// The session it serves.
    pub session: Option<SessionId>,
    /// The identities that the client has proved.
    pub ids: Arc<Vec<Id>>,
    /// Whether the handshake had the byte that older clients do not send: it is echoed.
    pub read_only: Option<bool>,
    /// The socket may hold more.
    pub readable: bool,
    /// The client will send nothing more; what it has sent must still be read.
    pub hung_up: bool,
    /// Whole frames lie in `input`, because we stopped taking more.
    pub held: bool,
    /// In the list of connections to read from.
    pub queued: bool,
    /// In the list of connections to send to.
    pub dirty: bool,
    /// Bytes that do not make a whole frame yet, or frames that had to wait.
    pub input: Vec<u8>,
    /// For `cons` and `stat`.
    pub since: Instant,
    /// Requests received.
    pub received: u64,
    /// Replies and notifications sent.
    pub sent: u64,
    /// Bytes in its buffers when the budget of all connections was last updated.
    pub counted_bytes: usize,
    waiting: VecDeque<Waiting>,
    waiting_bytes: usize,
    waiting_held_bytes: usize,
    out: Vec<u8>,
    out_sent: usize,
    stream_drained: bool,
    flooded: bool,
}

impl Conn {
    /// A connection that has just been accepted.
    pub fn new(id: ConnId, stream: Stream, peer: SocketAddr, now: Instant) -> Self {
        let address = peer.ip().to_canonical();
        Self {
            id,
            stream,
            peer,
            phase: Phase::Greeting,
            session: None,
            ids: Arc::new(vec![Id::new("ip", &address.to_string())]),
            read_only: None,
            readable: true,
            hung_up: false,
            held: false,
            queued: false,
            dirty: false,
            input: Vec::new(),
            since: now,
            received: 0,
            sent: 0,
            counted_bytes: 0,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            waiting_held_bytes: 0,
            out: Vec::new(),
            out_sent: 0,
            stream_drained: true,
            flooded: false,
        }
    }

    /// Adds an identity that the client has proved. `false`: it has too many.
    pub fn prove(&mut self, identity: Id) -> bool {
        let bytes: usize = self.ids.iter().map(|id| id.id.len()).sum();
        if self.ids.contains(&identity) {
            return true;
        }
        let fits = self.ids.len() < IDENTITIES_MAX && bytes + identity.id.len() <= IDENTITY_BYTES_MAX;
        if fits {
            Arc::make_mut(&mut self.ids).push(identity);
        }
        fits
    }

    /// Whether we read more requests from it now: back-pressure on a client that sends faster than the disk writes, or
    /// that does not read its replies.
    pub fn accepts_more(&self) -> bool {
        self.phase != Phase::Closing && !self.waits_for_disk() && !self.is_choked()
    }

    /// Whether the client lets its replies pile up.
    pub fn is_choked(&self) -> bool {
        self.unsent() >= OUT_BYTES_PAUSE
    }

    /// Whether we stopped reading from the client because the disk has to catch up first.
    pub fn waits_for_disk(&self) -> bool {
        self.waiting.len() >= WAITING_MAX || self.waiting_bytes >= WAITING_BYTES_MAX
    }

    /// Whether a request can be answered now: no earlier write is in flight.
    pub fn can_answer(&self) -> bool {
        matches!(self.waiting.front(), Some(Waiting::Frame(..) | Waiting::Reply(_)))
    }

    /// Whether everything is sent, including TLS's own buffer.
    pub fn is_drained(&self) -> bool {
        self.unsent() == 0 && self.stream_drained
    }

    /// Bytes that wait for the client to read.
    pub fn unsent(&self) -> usize {
        self.out.len() - self.out_sent
    }

    /// Bytes in its buffers.
    pub fn held_bytes(&self) -> usize {
        self.input.len() + self.waiting_held_bytes + self.unsent()
    }

    /// Makes the next flush close the connection, whatever is left to send. The session lives on.
    pub fn cut_off(&mut self) {
        self.flooded = true;
    }

    /// Whether the next request has to wait.
    pub fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// How many requests wait.
    pub fn waiting_len(&self) -> usize {
        self.waiting.len()
    }

    /// Appends something to what waits.
    pub fn wait(&mut self, item: Waiting) {
        self.waiting_bytes += item.bytes();
        self.waiting_held_bytes += item.held_bytes();
        self.waiting.push_back(item);
    }

    /// Sends a whole frame once everything before it is answered.
    pub fn reply_in_turn(&mut self, frame: Vec<u8>) {
        if self.has_waiting() {
            self.wait(Waiting::Reply(frame));
        } else {
            self.send_raw(&frame);
        }
    }

    /// The first thing that waits, taken out.
    pub fn next_waiting(&mut self) -> Option<Waiting> {
        let item = self.waiting.pop_front()?;
        self.waiting_bytes -= item.bytes();
        self.waiting_held_bytes -= item.held_bytes();
        if self.waiting.is_empty() && self.waiting.capacity() > 64 {
            self.waiting = VecDeque::new();
        }
        Some(item)
    }

    /// Appends one frame to the output.
    pub fn send(&mut self, body: impl FnOnce(&mut Vec<u8>)) {
        framed(&mut self.out, body);
        self.sent += 1;
    }

    /// Appends bytes that are framed already, or that need no frame.
    pub fn send_raw(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
        self.sent += 1;
    }

    /// Appends a reply without a body.
    pub fn send_header(&mut self, xid: i32, zxid: i64, err: ErrorCode) {
        self.send(|out| ReplyHeader { xid, zxid, err }.encode(out));
    }

    /// Appends a notification. They come unasked, so a client that does not read them is eventually cut off; replies
    /// never pile up, because we stop answering.
    pub fn send_event(&mut self, body: impl FnOnce(&mut Vec<u8>)) {
        self.flooded |= self.unsent() > OUT_BYTES_MAX;
        if !self.flooded {
            self.send(body);
        }
    }

    /// Sends what the socket takes.
    pub fn flush(&mut self) -> Flushed {
        let (before, taken) = (self.out_sent, self.stream.taken());
        while self.out_sent < self.out.len() {
            match self.stream.write(&self.out[self.out_sent..]) {
                Ok(sent) => self.out_sent += sent,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let progress = self.out_sent > before || self.stream.taken() > taken;
                    // When most of it is sent, the rest is moved to the front: seldom enough to cost little, and often
                    // enough for memory to follow what is unsent.
                    if self.out_sent > SENT_BYTES_KEPT && self.out_sent > self.out.len() / 2 {
                        self.out.drain(..self.out_sent);
                        self.out_sent = 0;
                        release_spare(&mut self.out);
                    }
                    return if self.flooded { Flushed::Dead } else { Flushed::Stuck { progress } };
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Flushed::Dead,
            }
        }
        self.out_sent = 0;
        if self.out.capacity() > BUFFER_KEPT {
            self.out = Vec::new();
        } else {
            self.out.clear();
        }
        match self.stream.flush() {
            Ok(drained) if !self.flooded => {
                self.stream_drained = drained;
                Flushed::All
            }
            _ => Flushed::Dead,
        }
    }
}

/// Releases memory that a buffer no longer needs.
pub fn release_spare(buffer: &mut Vec<u8>) {
    if buffer.capacity() > BUFFER_KEPT && buffer.capacity() / 2 > buffer.len() {
        buffer.shrink_to(buffer.len());
    }
}

/// The outcome of a flush.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flushed {
    /// Everything was taken.
    All,
    /// The client has to read first.
    Stuck {
        /// Whether it has read anything since the last time.
        progress: bool,
    },
    /// The connection is broken.
    Dead,
}
