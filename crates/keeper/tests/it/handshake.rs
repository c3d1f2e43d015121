//! How connections begin: new sessions, old ones, and refusals.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use menagerie_testkit::{Connect, DEADLINE, Keeper, RawClient, Refusal, Server, Session, eventually};
use menagerie_wire::{ConnectRequest, ErrorCode, Reader, ReplyHeader, Request, framed};

use crate::verbs::{Verbs, assert_closed, creation};

/// Ticks short enough to watch a session expire.
const TICK_MS: i32 = 100;

fn start() -> Server {
    Keeper::new().start()
}

fn start_ticking() -> Server {
    Keeper::new().args(["--tick", &TICK_MS.to_string()]).start()
}

fn connect_bytes(read_only: Option<bool>) -> Vec<u8> {
    let request = ConnectRequest {
        protocol_version: 0,
        last_zxid_seen: 0,
        timeout_ms: 5000,
        session_id: 0,
        password: &[0; 16],
        read_only,
    };
    let mut bytes = Vec::new();
    framed(&mut bytes, |out| request.encode(out));
    bytes
}

fn socket(address: SocketAddr) -> TcpStream {
    let socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(DEADLINE)).unwrap();
    socket
}

/// Sends bytes on a new connection and reads one frame, length included.
fn exchange(address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut socket = socket(address);
    socket.write_all(bytes).unwrap();
    let mut length = [0; 4];
    socket.read_exact(&mut length).unwrap();
    let mut body = vec![0; u32::from_be_bytes(length) as usize];
    socket.read_exact(&mut body).unwrap();
    [&length[..], &body].concat()
}

fn resume(server: &Server, connect: &Connect) -> Result<RawClient, Refusal> {
    RawClient::connect(server.address(), connect)
}

fn gone(read_only: Option<bool>) -> Refusal {
    Refusal::Gone(Session { id: 0, password: vec![0; 16], timeout_ms: 0, read_only })
}

#[test]
fn answer_has_the_last_byte_only_if_the_request_had_it() {
    let server = start();
    assert_eq!(exchange(server.address(), &connect_bytes(Some(false))).len(), 4 + 37);
    assert_eq!(exchange(server.address(), &connect_bytes(Some(true))).len(), 4 + 37);
    assert_eq!(exchange(server.address(), &connect_bytes(None)).len(), 4 + 36);
    let unknown = Connect { session: Some((1, vec![0; 16])), read_only: None, ..Connect::default() };
    assert_eq!(resume(&server, &unknown).err(), Some(gone(None)), "refusals too");
}

#[test]
fn time_outs_lie_between_2_and_20_ticks() {
    let server = start();
    for (asked, granted) in
        [(-1, 4000), (0, 4000), (100, 4000), (4001, 4001), (40_000, 40_000), (10_000_000, 40_000)]
    {
        let client = resume(&server, &Connect { timeout_ms: asked, ..Connect::default() }).unwrap();
        assert_eq!(client.session().timeout_ms, granted, "asked for {asked}");
    }
}

#[test]
fn session_numbers_are_new_and_never_zero_also_after_a_restart() {
    let mut server = start();
    let mut last = 0;
    for restart in [false, false, true, false, true] {
        if restart {
            server.kill();
            server.restart();
        }
        let id = RawClient::open(server.address()).session().id;
        assert!(id > last, "{id:#x} follows {last:#x}");
        last = id;
    }
}

#[test]
fn session_is_resumed_with_its_password_on_any_connection_and_after_a_restart() {
    let mut server = start();
    let mut client = RawClient::open(server.address());
    client.create_ephemeral("/here");
    let session = client.session().clone();
    let back = client.resumption();
    client.hang_up();
    let client = resume(&server, &back).unwrap();
    assert_eq!(*client.session(), session);
    for clean in [true, false] {
        if clean {
            server.terminate();
        } else {
            server.kill();
        }
        server.restart();
        let mut client = resume(&server, &back).unwrap();
        assert_eq!(*client.session(), session);
        let owner = client.find("/here").expect("it lives with its session").stat.ephemeral_owner;
        assert_eq!(owner, session.id);
    }
}

#[test]
fn time_out_is_negotiated_again_when_a_session_is_resumed() {
    let server = start();
    let client = RawClient::open(server.address());
    let back = Connect { timeout_ms: 7000, ..client.resumption() };
    assert_eq!(resume(&server, &back).unwrap().session().timeout_ms, 7000);
}

#[test]
fn session_that_moves_leaves_its_old_connection_closed() {
    let server = start();
    let mut old = RawClient::open(server.address());
    let mut new = resume(&server, &old.resumption()).unwrap();
    assert_closed(&mut old);
    new.create_ephemeral("/here");
    old.hang_up();
    new.ping();
    assert!(new.find("/here").is_some(), "the end of the old connection means nothing");
}

#[test]
fn wrong_passwords_are_refused_and_do_no_harm() {
    let server = start();
    let mut client = RawClient::open(server.address());
    let id = client.session().id;
    let mut almost = client.session().password.clone();
    almost[15] ^= 1;
    for password in [almost, vec![0; 16], vec![], vec![0; 15]] {
        let attack = Connect { session: Some((id, password)), ..Connect::default() };
        assert_eq!(resume(&server, &attack).err(), Some(gone(Some(false))));
    }
    client.ping();
}

#[test]
fn unknown_closed_and_expired_sessions_are_refused_and_not_replaced() {
    let server = start_ticking();
    let never = Connect { session: Some((0x1234, vec![0; 16])), ..Connect::default() };
    assert_eq!(resume(&server, &never).err(), Some(gone(Some(false))));

    let client = RawClient::open(server.address());
    let closed = client.resumption();
    client.close();
    assert_eq!(resume(&server, &closed).err(), Some(gone(Some(false))));

    let mut other = RawClient::open(server.address());
    // The longest that such ticks allow: it has to live until its znode is there.
    let short = Connect { timeout_ms: 20 * TICK_MS, ..Connect::default() };
    let mut silent = resume(&server, &short).unwrap();
    silent.create_ephemeral("/here");
    let expired = silent.resumption();
    eventually("the silent session expires", || {
        other.ping();
        other.find("/here").is_none().then_some(())
    });
    assert_eq!(resume(&server, &expired).err(), Some(gone(Some(false))));
    assert_closed(&mut silent);
}

#[test]
fn any_request_keeps_a_session_alive() {
    // Longer ticks than elsewhere: nothing keeps the first session while the second one is opened.
    let server = Keeper::new().args(["--tick", "1000", "--durability", "os"]).start();
    let mut client = resume(&server, &Connect { timeout_ms: 2000, ..Connect::default() }).unwrap();
    client.create_ephemeral("/here");
    let mut silent = resume(&server, &Connect { timeout_ms: 4000, ..Connect::default() }).unwrap();
    silent.create_ephemeral("/silent");
    // The silent session has twice the time: when it is over, the other has outlived its own at least once.
    eventually("the silent session expires", || client.find("/silent").is_none().then_some(()));
    assert!(client.find("/here").is_some());
}

#[test]
fn client_that_has_seen_more_than_the_server_is_turned_away_without_a_word() {
    let server = start();
    let last = RawClient::open(server.address()).ping();
    let ahead = Connect { last_zxid: last + 1, ..Connect::default() };
    assert_eq!(resume(&server, &ahead).err(), Some(Refusal::Closed));
    let even = Connect { last_zxid: last, ..Connect::default() };
    assert!(resume(&server, &even).is_ok());
}

#[test]
fn zxids_never_go_back_across_a_crash() {
    let mut server = start();
    let mut client = RawClient::open(server.address());
    client.create("/a", b"");
    // A refused write is the last one: it has a zxid, and clients have seen it.
    let seen = client.call(&creation("/a", b"", 0)).header.zxid;
    server.kill();
    server.restart();
    let back = Connect { last_zxid: seen, ..client.resumption() };
    let mut client = resume(&server, &back).expect("the server knows what its clients have seen");
    assert_eq!(client.create("/b", b""), seen + 1);
}

#[test]
fn requests_sent_together_with_the_handshake_are_served() {
    let server = start();
    let mut bytes = connect_bytes(Some(false));
    framed(&mut bytes, |out| creation("/a", b"", 0).encode(1, out));
    framed(&mut bytes, |out| Request::GetData { path: "/a", watch: false }.encode(2, out));
    let mut socket = socket(server.address());
    socket.write_all(&bytes).unwrap();
    let mut handshake = [0; 4 + 37];
    socket.read_exact(&mut handshake).unwrap();
    for expected in [1, 2] {
        let mut length = [0; 4];
        socket.read_exact(&mut length).unwrap();
        let mut body = vec![0; u32::from_be_bytes(length) as usize];
        socket.read_exact(&mut body).unwrap();
        let header = ReplyHeader::decode(&mut Reader::new(&body)).unwrap();
        assert_eq!((header.xid, header.err), (expected, ErrorCode::Ok));
    }
}
