//! The requests that these tests send.

use menagerie_testkit::{OpCode, RawClient};
use menagerie_wire::request::Create;
use menagerie_wire::{Acl, ErrorCode, Request};

pub fn creation(path: &str, flags: i32) -> Request<'_> {
    let create = Create { path, data: Some(b"x"), acl: vec![Acl::open()], flags, ttl: None };
    Request::Create { op: OpCode::Create, create }
}

/// Flag of ephemeral znodes.
pub const EPHEMERAL: i32 = 1;

#[track_caller]
pub fn create(client: &mut RawClient, path: &str, flags: i32) {
    assert_eq!(client.call(&creation(path, flags)).header.err, ErrorCode::Ok);
}

#[track_caller]
pub fn exists(client: &mut RawClient, path: &str) -> bool {
    let reply = client.call(&Request::Exists { path, watch: false });
    assert!([ErrorCode::Ok, ErrorCode::NoNode].contains(&reply.header.err), "{reply:?}");
    reply.header.err == ErrorCode::Ok
}
