//! Short requests, and decoded answers.

use std::net::SocketAddr;

use menagerie_testkit::{Connect, RawClient, Reply, Session};
use menagerie_wire::request::Create;
use menagerie_wire::{Acl, ErrorCode, OpCode, Request, Response, Stat};

/// The flags of `create`.
pub const PERSISTENT: i32 = 0;
pub const EPHEMERAL: i32 = 1;
pub const SEQUENTIAL: i32 = 2;

/// Matches every version.
pub const ANY: i32 = -1;

pub fn creation<'a>(path: &'a str, data: &'a [u8], flags: i32) -> Create<'a> {
    Create { path, data: Some(data), acl: vec![Acl::open()], flags, ttl: None }
}

pub fn create<'a>(path: &'a str, data: &'a [u8]) -> Request<'a> {
    Request::Create { op: OpCode::Create, create: creation(path, data, PERSISTENT) }
}

pub fn create_as<'a>(path: &'a str, data: &'a [u8], flags: i32) -> Request<'a> {
    Request::Create { op: OpCode::Create, create: creation(path, data, flags) }
}

pub fn set<'a>(path: &'a str, data: &'a [u8]) -> Request<'a> {
    Request::SetData { path, data: Some(data), version: ANY }
}

pub fn delete(path: &str) -> Request<'_> {
    Request::Delete { path, version: ANY }
}

pub fn get(path: &str) -> Request<'_> {
    Request::GetData { path, watch: false }
}

/// Calls, and insists on success.
#[track_caller]
pub fn done(client: &mut RawClient, request: &Request<'_>) -> Reply {
    let reply = client.call(request);
    assert_eq!(reply.header.err, ErrorCode::Ok, "{request:?}");
    reply
}

/// Data and stat of a znode, if it exists.
#[track_caller]
pub fn read_znode(client: &mut RawClient, path: &str) -> Option<(Vec<u8>, Stat)> {
    let reply = client.call(&get(path));
    if reply.header.err == ErrorCode::NoNode {
        return None;
    }
    assert_eq!(reply.header.err, ErrorCode::Ok, "getData of {path}");
    match reply.response(OpCode::GetData) {
        Ok(Response::Data { data, stat }) => Some((data.unwrap_or_default().to_owned(), stat)),
        other => panic!("getData of {path} answers with {other:?}"),
    }
}

/// The names of a znode's children, sorted.
#[track_caller]
pub fn children(client: &mut RawClient, path: &str) -> Vec<String> {
    let reply = done(client, &Request::GetChildren { path, watch: false });
    let Ok(Response::Names(names)) = reply.response(OpCode::GetChildren) else {
        panic!("no names: {reply:?}")
    };
    let mut names: Vec<String> = names.into_iter().map(str::to_owned).collect();
    names.sort_unstable();
    names
}

/// A client whose session has this time-out, if the server's tick permits it.
#[track_caller]
pub fn open_with_timeout(address: SocketAddr, timeout_ms: i32) -> RawClient {
    let client = RawClient::connect(address, &Connect { timeout_ms, ..Connect::default() });
    let client = client.expect("a new session is granted");
    assert_eq!(client.session().timeout_ms, timeout_ms, "the tick permits the time-out that the test needs");
    client
}

/// Parameters to resume a session whose connection is gone.
pub fn resumption(session: &Session) -> Connect {
    Connect {
        session: Some((session.id, session.password.clone())),
        timeout_ms: session.timeout_ms,
        ..Connect::default()
    }
}
