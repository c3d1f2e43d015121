//! A server, and clients whose sockets are real.

use std::io::Read as _;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use menagerie_wire::{ConnectRequest, ConnectResponse, ErrorCode, Reader, ReplyHeader, Request};
use prometheus_client::registry::Registry;

use crate::config::Config;
use crate::core::{ConnId, Options, State};
use crate::shell::conn::Conn;
use crate::shell::metrics::Metrics;
use crate::shell::request::Next;
use crate::shell::server::{Group, Server};
use crate::shell::stream::Stream;

/// Replies arrive at once; this only keeps a failing test from hanging.
const PATIENCE: Duration = Duration::from_secs(10);

/// The time-out that sessions request.
pub const TIMEOUT_MS: i32 = 10_000;

/// The connections that [`Rig`]'s server takes from one address.
pub const CONNECTIONS_MAX: usize = 3;

pub struct Rig {
    pub server: Server,
    sequence: u64,
}

/// One client's end.
pub struct Client {
    pub id: ConnId,
    /// Number and password of its session; 0 until it has one, or when it was refused.
    pub session: (i64, Vec<u8>),
    socket: TcpStream,
    last_xid: i32,
}

impl Rig {
    pub fn new() -> Self {
        Self::with(|_| {})
    }

    /// A rig with another configuration.
    pub fn with(change: impl FnOnce(&mut Config)) -> Self {
        let mut config = Config {
            connections_per_address_max: CONNECTIONS_MAX,
            ..Config::new(PathBuf::new(), (Ipv4Addr::LOCALHOST, 0).into())
        };
        change(&mut config);
        let metrics = Metrics::new(&mut Registry::default());
        let state = State::new(Options { limits: config.limits, ..Options::default() });
        let server = Server::new(state, Arc::new(config), metrics, 0);
        Self { server, sequence: 0 }
    }

    /// A connection that seems to come from `peer`.
    pub fn connect(&mut self, peer: SocketAddr) -> Client {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        accepted.set_nonblocking(true).unwrap();
        let id = self.server.next_conn_id();
        let stream = Stream::Plain(mio::net::TcpStream::from_std(accepted));
        let mut conn = Conn::new(id, stream, peer, Instant::now());
        // Frames are handed over, not read from the socket.
        conn.readable = false;
        self.server.add(conn);
        Client { id, session: (0, vec![0; 16]), socket, last_xid: 0 }
    }

    /// A client with a session.
    pub fn open(&mut self) -> Client {
        let mut client = self.connect((Ipv4Addr::LOCALHOST, 1).into());
        assert!(self.greet(&client, &(0, vec![0; 16]), TIMEOUT_MS));
        self.make_durable();
        self.welcomed(&mut client);
        client
    }

    /// Another connection asks for the session of `client`; the answer is not read.
    pub fn ask_to_resume(&mut self, client: &Client, timeout_ms: i32) -> Client {
        let resuming = self.connect((Ipv4Addr::LOCALHOST, 1).into());
        assert!(self.greet(&resuming, &client.session, timeout_ms));
        resuming
    }

    /// The session of `client` on another connection.
    pub fn resume(&mut self, client: &Client) -> Client {
        let mut resumed = self.ask_to_resume(client, TIMEOUT_MS);
        self.welcomed(&mut resumed);
        assert_eq!(resumed.session, client.session);
        resumed
    }

    /// Whether a client that asks for a session is kept.
    pub fn greet(
        &mut self,
        client: &Client,
        (session_id, password): &(i64, Vec<u8>),
        timeout_ms: i32,
    ) -> bool {
        let mut frame = Vec::new();
        let connect = ConnectRequest {
            protocol_version: 0,
            last_zxid_seen: 0,
            timeout_ms,
            session_id: *session_id,
            password,
            read_only: None,
        };
        connect.encode(&mut frame);
        self.server.receive(client.id, &frame, Instant::now()) == Next::Continue
    }

    /// Reads the answer to the handshake, which must be due now.
    pub fn welcomed(&mut self, client: &mut Client) {
        self.server.flush();
        let frame = client.frame();
        let answer = ConnectResponse::decode(&frame).unwrap();
        client.session = (answer.session_id, answer.password.to_vec());
    }

    /// The server gets a request.
    pub fn send(&mut self, client: &mut Client, request: &Request<'_>) -> i32 {
        client.last_xid += 1;
        let mut frame = Vec::new();
        request.encode(client.last_xid, &mut frame);
        self.server.receive(client.id, &frame, Instant::now());
        client.last_xid
    }

    /// Takes the group, as the log loop does.
    pub fn take_group(&mut self) -> Group {
        self.server.log_busy = true;
        std::mem::take(&mut self.server.group)
    }

    /// Finishes a durable group, as the log loop does.
    pub fn finish_group(&mut self, group: Group) {
        self.sequence += group.items.len() as u64;
        self.server.apply(group, self.sequence);
        self.server.log_busy = false;
        self.server.flush();
    }

    /// Both at once.
    pub fn make_durable(&mut self) {
        let group = self.take_group();
        self.finish_group(group);
    }

    /// Whether the server has closed the connection.
    pub fn is_gone(&mut self, client: &Client) -> bool {
        self.server.flush();
        self.server.conn(client.id).is_none()
    }

    /// Whether the server has nothing to send to the client now.
    pub fn is_silent(&mut self, client: &Client) -> bool {
        self.server.conn(client.id).expect("it is connected").unsent() == 0
    }

    /// The next reply of the server, which must be due now.
    pub fn reply(&mut self, client: &mut Client) -> (i32, i64, ErrorCode) {
        self.server.flush();
        let frame = client.frame();
        let header = ReplyHeader::decode(&mut Reader::new(&frame)).unwrap();
        (header.xid, header.zxid, header.err)
    }
}

impl Client {
    fn frame(&mut self) -> Vec<u8> {
        let mut length = [0; 4];
        self.socket.read_exact(&mut length).expect("a frame is due");
        let mut body = vec![0; u32::from_be_bytes(length) as usize];
        self.socket.read_exact(&mut body).unwrap();
        body
    }
}
