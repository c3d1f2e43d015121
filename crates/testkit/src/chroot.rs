//! A chroot for every test, so that all can share one ensemble.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};

use menagerie_wire::request::Create;
use menagerie_wire::{Acl, ErrorCode, OpCode, Request};

use crate::client::RawClient;

/// The connect string of these addresses.
pub(crate) fn join(addresses: &[SocketAddr]) -> String {
    addresses.iter().map(SocketAddr::to_string).collect::<Vec<_>>().join(",")
}

/// Creates a znode of its own for the test and returns its path. Clients that connect from now on see it on every
/// server, because a later transaction opens their session.
///
/// # Panics
/// If the server does not create it.
#[track_caller]
pub(crate) fn create(address: SocketAddr, name: &str) -> String {
    static LAST: AtomicU32 = AtomicU32::new(0);
    assert!(!name.contains('/'), "a test's name becomes one znode's name: {name}");
    let path = format!("/test-{:03}-{name}", LAST.fetch_add(1, Ordering::Relaxed) + 1);
    let mut client = RawClient::open(address);
    let create = Create { path: &path, data: Some(&[]), acl: vec![Acl::open()], flags: 0, ttl: None };
    let reply = client.call(&Request::Create { op: OpCode::Create, create });
    assert_eq!(reply.header.err, ErrorCode::Ok, "{address} does not make {path}");
    client.end_session();
    path
}
