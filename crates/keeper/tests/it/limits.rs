//! Requests that are too long, too short, or unknown.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use menagerie_testkit::{DEADLINE, Incoming, Keeper, RawClient};
use menagerie_wire::{ErrorCode, FRAME_BYTES_MAX, OpCode, Request, Response, framed};

use crate::verbs::{Verbs, assert_closed};

/// Sends the first bytes of a connection, and returns all that comes back before the server closes it.
fn answer_to(address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(DEADLINE)).unwrap();
    socket.write_all(bytes).unwrap();
    let mut answer = Vec::new();
    // A server that closes with our bytes unread resets the connection: that is an end, too.
    let _ = socket.read_to_end(&mut answer);
    answer
}

#[test]
fn data_of_1_048_000_bytes_passes_both_ways() {
    let keeper = Keeper::new().start();
    let mut client = RawClient::open(keeper.address());
    let data: Vec<u8> = (0..1_048_000u32).map(|at| (at % 251) as u8).collect();
    client.create("/large", &data);
    assert_eq!(client.find("/large").expect("it is there").data, data);
    client.set("/large", &data[1..]);
    assert_eq!(client.find("/large").expect("it is there").data, data[1..]);
}

#[test]
fn frame_over_the_limit_ends_the_connection_but_not_the_session() {
    let keeper = Keeper::new().start();
    let mut client = RawClient::open(keeper.address());
    let back = client.resumption();
    client.send_bytes(&(FRAME_BYTES_MAX as u32 + 1).to_be_bytes());
    assert_closed(&mut client);
    let mut client = RawClient::connect(keeper.address(), &back).expect("the session lives");
    client.ping();
}

#[test]
fn frame_of_exactly_the_limit_is_taken() {
    let keeper = Keeper::new().start();
    let mut client = RawClient::open(keeper.address());
    let mut bytes = Vec::new();
    framed(&mut bytes, |out| {
        Request::Sync { path: "/" }.encode(1, out);
        // Bytes behind a body are ignored.
        out.resize(FRAME_BYTES_MAX, 0);
    });
    client.send_bytes(&bytes);
    let Some(Incoming::Reply(reply)) = client.reply(DEADLINE) else { panic!("no reply") };
    assert_eq!(reply.response(OpCode::Sync), Ok(Response::Path("/")));
}

#[test]
fn frames_too_short_for_a_request_end_the_connection() {
    let keeper = Keeper::new().start();
    for bytes in [&0u32.to_be_bytes()[..], &(-1i32).to_be_bytes(), &[0, 0, 0, 4, 0, 0, 0, 1]] {
        let mut client = RawClient::open(keeper.address());
        client.send_bytes(bytes);
        assert_closed(&mut client);
    }
}

#[test]
fn what_is_no_handshake_is_hung_up_on_without_a_word() {
    let keeper = Keeper::new().start();
    let short = [&10u32.to_be_bytes()[..], &[0; 10]].concat();
    for bytes in
        [&0u32.to_be_bytes()[..], &(-1i32).to_be_bytes(), &(FRAME_BYTES_MAX as u32 + 1).to_be_bytes(), &short]
    {
        assert_eq!(answer_to(keeper.address(), bytes), b"", "{bytes:?}");
    }
    RawClient::open(keeper.address()).ping();
}

#[test]
fn unknown_operation_is_refused_and_ends_the_connection() {
    let keeper = Keeper::new().start();
    for op in [0, 10, 23, 99, 108, -1, -10, 1000] {
        let mut client = RawClient::open(keeper.address());
        let back = client.resumption();
        let mut bytes = Vec::new();
        framed(&mut bytes, |out| {
            out.extend_from_slice(&7i32.to_be_bytes());
            out.extend_from_slice(&i32::to_be_bytes(op));
        });
        client.send_bytes(&bytes);
        let Some(Incoming::Reply(reply)) = client.reply(DEADLINE) else { panic!("no reply to {op}") };
        assert_eq!((reply.header.xid, reply.header.zxid), (7, -1));
        assert_eq!((reply.header.err, reply.body), (ErrorCode::Unimplemented, vec![]));
        assert_closed(&mut client);
        assert!(RawClient::connect(keeper.address(), &back).is_ok(), "the session lives");
    }
}

#[test]
fn refused_credentials_end_the_connection() {
    let keeper = Keeper::new().start();
    for scheme in ["nonsense", "world", "auth", "x509", ""] {
        let mut client = RawClient::open(keeper.address());
        let reply = client.call(&Request::Auth { scheme, credentials: b"x" });
        assert_eq!((reply.header.err, reply.header.zxid), (ErrorCode::AuthFailed, 0));
        assert_closed(&mut client);
    }
}

#[test]
fn configuration_is_readable_and_cannot_be_changed() {
    let keeper = Keeper::new().start();
    let mut client = RawClient::open(keeper.address());
    assert!(client.find("/zookeeper/config").is_some());
    let set = Request::SetData { path: "/zookeeper/config", data: None, version: -1 };
    assert_eq!(client.call(&set).header.err, ErrorCode::NoAuth);
    assert_eq!(client.call(&Request::Reconfig).header.err, ErrorCode::ReconfigDisabled);
}

#[test]
fn client_that_reads_nothing_is_slowed_and_loses_nothing() {
    let keeper = Keeper::new().start();
    let mut client = RawClient::open(keeper.address());
    client.create("/a", &[7; 100_000]);
    // 60 MB of replies: far more than sockets hold.
    let xids: Vec<i32> =
        (0..600).map(|_| client.send(&Request::GetData { path: "/a", watch: false })).collect();
    for xid in xids {
        let Some(Incoming::Reply(reply)) = client.reply(DEADLINE) else { panic!("no reply to {xid}") };
        assert_eq!((reply.header.xid, reply.header.err), (xid, ErrorCode::Ok));
    }
}
