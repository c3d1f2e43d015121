//! A client that hides nothing: one connection, blocking, every frame visible.

use std::io::{self, ErrorKind, Read, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use menagerie_wire::request::xid;
use menagerie_wire::{
    ConnectRequest, ConnectResponse, DecodeError, Event, EventKind, OpCode, Reader, ReplyHeader, Request,
    Response, event, frame, framed,
};

use crate::sockets;
use crate::wait::{DEADLINE, eventually};

/// Larger than any frame a server sends: children of a well-filled znode can exceed what servers accept.
const FRAME_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Parameters of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Connect {
    /// The time-out to ask for.
    pub timeout_ms: i32,
    /// The session to resume, and its password; `None` for a new one.
    pub session: Option<(i64, Vec<u8>)>,
    /// The newest transaction that the client claims to have seen.
    pub last_zxid: i64,
    /// The trailing byte, which old clients do not send.
    pub read_only: Option<bool>,
}

impl Default for Connect {
    /// A new session as today's clients ask for it, long enough never to expire in a test.
    fn default() -> Self {
        Self { timeout_ms: 30_000, session: None, last_zxid: 0, read_only: Some(false) }
    }
}

/// The session that a server granted.
#[expect(missing_docs, reason = "fields name themselves")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    pub id: i64,
    /// Needed to resume the session.
    pub password: Vec<u8>,
    /// The granted time-out.
    pub timeout_ms: i32,
    /// The trailing byte, if there was one.
    pub read_only: Option<bool>,
}

/// Why there is no session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// The server hung up without a reply.
    Closed,
    /// The server replied that the session is gone (id 0).
    Gone(Session),
}

/// A reply, not decoded yet: the type of its body depends on the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// Xid, zxid and error.
    pub header: ReplyHeader,
    /// Everything after the header.
    pub body: Vec<u8>,
}

impl Reply {
    /// Decodes the body as the answer to `op`.
    pub fn response(&self, op: OpCode) -> Result<Response<'_>, DecodeError> {
        Response::decode(op, &mut Reader::new(&self.body))
    }
}

/// A watch's notification.
#[expect(missing_docs, reason = "fields name themselves")]
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Notification {
    /// The transaction that caused it; -1 from servers that do not say.
    pub zxid: i64,
    pub kind: EventKind,
    pub path: String,
}

/// What a server can send.
#[expect(missing_docs, reason = "variants name themselves")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Incoming {
    Reply(Reply),
    Event(Notification),
    /// The end of the connection; nothing follows.
    Closed,
}

/// One connection with a session.
#[derive(Debug)]
pub struct RawClient {
    stream: TcpStream,
    /// Bytes received and not yet consumed.
    received: Vec<u8>,
    session: Session,
    last_xid: i32,
    events: Vec<Notification>,
}

impl RawClient {
    /// Opens a connection with a new session.
    ///
    /// # Panics
    /// If the server grants none.
    #[track_caller]
    pub fn open(address: SocketAddr) -> Self {
        match Self::connect(address, &Connect::default()) {
            Ok(client) => client,
            Err(refusal) => panic!("{address} grants no session: {refusal:?}"),
        }
    }

    /// Opens a connection with these parameters.
    ///
    /// # Panics
    /// If there is no server, or it neither answers nor hangs up.
    #[track_caller]
    pub fn connect(address: SocketAddr, connect: &Connect) -> Result<Self, Refusal> {
        Self::try_connect(address, connect).unwrap_or_else(|error| panic!("cannot reach {address}: {error}"))
    }

    /// The same for tests in which there may be no server.
    ///
    /// # Panics
    /// If there is one, and it neither answers nor hangs up.
    #[track_caller]
    pub fn try_connect(address: SocketAddr, connect: &Connect) -> io::Result<Result<Self, Refusal>> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true).expect("a socket has options");
        let none = Session { id: 0, password: Vec::new(), timeout_ms: 0, read_only: None };
        let mut client =
            Self { stream, received: Vec::new(), session: none, last_xid: 0, events: Vec::new() };
        let (session_id, password) = match &connect.session {
            Some((id, password)) => (*id, password.as_slice()),
            None => (0, &[0; 16][..]),
        };
        let request = ConnectRequest {
            protocol_version: 0,
            last_zxid_seen: connect.last_zxid,
            timeout_ms: connect.timeout_ms,
            session_id,
            password,
            read_only: connect.read_only,
        };
        let mut bytes = Vec::new();
        framed(&mut bytes, |out| request.encode(out));
        client.send_bytes(&bytes);
        let Some(frame) = client.frame(DEADLINE).expect("the server answers or hangs up") else {
            return Ok(Err(Refusal::Closed));
        };
        let response = ConnectResponse::decode(&frame).expect("the answer to a connect request");
        client.session = Session {
            id: response.session_id,
            password: response.password.to_owned(),
            timeout_ms: response.timeout_ms,
            read_only: response.read_only,
        };
        Ok(if response.session_id == 0 { Err(Refusal::Gone(client.session)) } else { Ok(client) })
    }

    /// The granted session.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Parameters to resume this session on another connection.
    pub fn resumption(&self) -> Connect {
        Connect { session: Some((self.session.id, self.session.password.clone())), ..Connect::default() }
    }

    /// Sends a request under the xid that clients use for it, and returns that xid.
    pub fn send(&mut self, request: &Request<'_>) -> i32 {
        let xid = match request {
            Request::Ping => xid::PING,
            Request::Auth { .. } => xid::AUTH,
            Request::SetWatches(_) | Request::SetWatches2(_) => xid::SET_WATCHES,
            _ => {
                self.last_xid += 1;
                self.last_xid
            }
        };
        let mut bytes = Vec::new();
        framed(&mut bytes, |out| request.encode(xid, out));
        self.send_bytes(&bytes);
        xid
    }

    /// Sends a request and waits for its reply. Keeps events that arrive first for
    /// [`take_events`](Self::take_events).
    ///
    /// # Panics
    /// If the reply is not the next one, or there is none.
    #[track_caller]
    pub fn call(&mut self, request: &Request<'_>) -> Reply {
        let xid = self.send(request);
        match self.reply(DEADLINE) {
            Some(Incoming::Reply(reply)) => {
                assert_eq!(reply.header.xid, xid, "replies come in the order of their requests: {request:?}");
                reply
            }
            other => panic!("no reply to {request:?}: {other:?}"),
        }
    }

    /// Sends a ping and waits for its reply, by which time all events of earlier transactions have arrived. Returns
    /// the last zxid that the server applied.
    #[track_caller]
    pub fn ping(&mut self) -> i64 {
        self.call(&Request::Ping).header.zxid
    }

    /// The next reply, or the end of the connection; keeps events that arrive first.
    pub fn reply(&mut self, patience: Duration) -> Option<Incoming> {
        let deadline = Instant::now() + patience;
        loop {
            match self.recv(deadline.saturating_duration_since(Instant::now()))? {
                Incoming::Event(event) => self.events.push(event),
                incoming => return Some(incoming),
            }
        }
    }

    /// The next reply or event; `None` if nothing arrives in time.
    ///
    /// # Panics
    /// If the server sends an invalid frame.
    #[track_caller]
    pub fn recv(&mut self, patience: Duration) -> Option<Incoming> {
        let Some(frame) = self.frame(patience)? else { return Some(Incoming::Closed) };
        let mut r = Reader::new(&frame);
        let header = ReplyHeader::decode(&mut r).expect("every frame starts with a header");
        if header.xid != event::EVENT_XID {
            return Some(Incoming::Reply(Reply { header, body: r.rest().to_owned() }));
        }
        let Event { kind, path } = Event::decode(&mut r).expect("what has the number of events is one");
        Some(Incoming::Event(Notification { zxid: header.zxid, kind, path: path.to_owned() }))
    }

    /// The events kept so far, in the order of arrival.
    pub fn take_events(&mut self) -> Vec<Notification> {
        std::mem::take(&mut self.events)
    }

    /// Closes the session: when this returns, the server has removed its ephemeral znodes.
    ///
    /// # Panics
    /// If the server does not confirm it.
    #[track_caller]
    pub fn end_session(mut self) {
        self.call(&Request::CloseSession);
    }

    /// Closes the connection without closing the session, as a dying client does.
    pub fn hang_up(&mut self) {
        // Fails only if the server was quicker.
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    /// The sending side of the connection, for a thread that sends while another one reads.
    pub fn sender(&self) -> TcpStream {
        self.stream.try_clone().expect("a socket can be shared")
    }

    /// Waits until the server's process has read everything sent so far, as the kernel's socket table shows. Only
    /// then can the connection end without taking a request with it. Works for what fits into a socket's buffer.
    ///
    /// # Panics
    /// If the server does not read it in time.
    #[track_caller]
    pub fn wait_until_taken(&self) {
        let here = self.stream.local_addr().expect("a connected socket has an address").port();
        let there = self.stream.peer_addr().expect("a connected socket has a peer").port();
        // On loopback, everything sent is in the server's socket. A socket no longer listed was closed by the server.
        eventually("the server has read what was sent", || {
            (sockets::unread_bytes(there, here).unwrap_or(0) == 0).then_some(())
        });
    }

    /// Sends raw bytes. A connection that the server has closed swallows them; the next read shows that.
    pub fn send_bytes(&mut self, bytes: &[u8]) {
        match self.stream.write_all(bytes) {
            Err(error) if !is_end(&error) => panic!("cannot send: {error}"),
            _ => {}
        }
    }

    /// The next `n` raw bytes, or `None` if the connection ends first.
    ///
    /// # Panics
    /// If neither happens in time.
    #[track_caller]
    pub fn read_exact(&mut self, n: usize) -> Option<Vec<u8>> {
        let deadline = Instant::now() + DEADLINE;
        while self.received.len() < n {
            if !self.fill(deadline).expect("bytes come in time, or the end") {
                return None;
            }
        }
        Some(self.received.drain(..n).collect())
    }

    /// The body of the next frame; inner `None` at the end of the connection, outer `None` on time-out.
    fn frame(&mut self, patience: Duration) -> Option<Option<Vec<u8>>> {
        let deadline = Instant::now() + patience;
        loop {
            let split = frame::split(&self.received, FRAME_BYTES_MAX).expect("servers send frames");
            if let Some((body, taken)) = split {
                let body = body.to_owned();
                self.received.drain(..taken);
                return Some(Some(body));
            }
            if !self.fill(deadline)? {
                return Some(None);
            }
        }
    }

    /// Reads more bytes: false at the end of the connection, `None` on time-out.
    fn fill(&mut self, deadline: Instant) -> Option<bool> {
        // A time-out of zero would mean no time-out.
        let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        self.stream.set_read_timeout(Some(left)).expect("a socket has options");
        let mut buffer = [0; 16 * 1024];
        match self.stream.read(&mut buffer) {
            Ok(0) => Some(false),
            Ok(n) => {
                self.received.extend_from_slice(&buffer[..n]);
                Some(true)
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => None,
            Err(error) if is_end(&error) => Some(false),
            Err(error) => panic!("cannot receive: {error}"),
        }
    }
}

/// A server that closes with our bytes unread resets the connection; both count as the end.
fn is_end(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::ConnectionAborted)
}
