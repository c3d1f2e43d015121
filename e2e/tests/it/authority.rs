//! Operators' tools: the superuser, and enforced quotas.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use menagerie_testkit::{DEADLINE, Incoming, Keeper, RawClient};
use menagerie_wire::request::Create;
use menagerie_wire::{Acl, ErrorCode, Id, OpCode, Perms, Request};
use sha1::{Digest as _, Sha1};

use crate::ask::{PERSISTENT, create, delete, done, get, set};

fn authenticate(client: &mut RawClient, credentials: &[u8]) -> Option<ErrorCode> {
    client.send(&Request::Auth { scheme: "digest", credentials });
    match client.reply(DEADLINE) {
        Some(Incoming::Reply(reply)) => Some(reply.header.err),
        _ => None,
    }
}

#[test]
fn superuser_may_do_what_an_access_list_forbids() {
    let digest = STANDARD.encode(Sha1::digest("super:secret"));
    let server = Keeper::new().args(["--super-digest", &format!("super:{digest}")]).start();
    let mut owner = RawClient::open(server.address());
    assert_eq!(authenticate(&mut owner, b"me:mine"), Some(ErrorCode::Ok));
    let acl = vec![Acl { perms: Perms::ALL, id: Id::new("auth", "") }];
    let private = Create { path: "/private", data: Some(b"mine"), acl, flags: PERSISTENT, ttl: None };
    done(&mut owner, &Request::Create { op: OpCode::Create, create: private });

    let mut other = RawClient::open(server.address());
    assert_eq!(other.call(&get("/private")).header.err, ErrorCode::NoAuth);
    assert_eq!(authenticate(&mut other, b"super:wrong"), Some(ErrorCode::Ok), "just another identity");
    assert_eq!(other.call(&get("/private")).header.err, ErrorCode::NoAuth);
    assert_eq!(authenticate(&mut other, b"super:secret"), Some(ErrorCode::Ok));
    done(&mut other, &get("/private"));
    done(&mut other, &set("/private", b"theirs"));
    done(&mut other, &delete("/private"));
}

#[test]
fn nobody_is_superuser_without_the_flag() {
    let server = Keeper::new().start();
    let mut owner = RawClient::open(server.address());
    assert_eq!(authenticate(&mut owner, b"me:mine"), Some(ErrorCode::Ok));
    let acl = vec![Acl { perms: Perms::ALL, id: Id::new("auth", "") }];
    let private = Create { path: "/private", data: None, acl, flags: PERSISTENT, ttl: None };
    done(&mut owner, &Request::Create { op: OpCode::Create, create: private });
    let mut other = RawClient::open(server.address());
    for credentials in ["super:", "super:secret", "super:super"] {
        authenticate(&mut other, credentials.as_bytes());
        assert_eq!(other.call(&get("/private")).header.err, ErrorCode::NoAuth, "{credentials}");
    }
}

/// Creates `/limited` with a hard limit of three znodes (itself included) and 100 bytes.
fn limit(client: &mut RawClient) {
    let limits = b"count=-1,bytes=-1=;byteHardLimit=100;countHardLimit=3";
    done(client, &create("/limited", b""));
    done(client, &create("/zookeeper/quota/limited", b""));
    done(client, &create("/zookeeper/quota/limited/zookeeper_limits", limits));
    done(client, &create("/zookeeper/quota/limited/zookeeper_stats", b"count=1,bytes=0"));
}

#[test]
fn enforced_quota_refuses_what_would_exceed_it_also_after_a_restart() {
    let mut server = Keeper::new().args(["--enforce-quota"]).start();
    let mut client = RawClient::open(server.address());
    limit(&mut client);
    done(&mut client, &create("/limited/a", &[7; 60]));
    let exceeded = ErrorCode::QuotaExceeded;
    assert_eq!(client.call(&create("/limited/b", &[7; 41])).header.err, exceeded, "too many bytes");
    assert_eq!(client.call(&set("/limited/a", &[7; 101])).header.err, exceeded, "too many bytes");
    done(&mut client, &create("/limited/b", &[7; 40]));
    assert_eq!(client.call(&create("/limited/c", b"")).header.err, exceeded, "too many znodes");

    server.kill();
    server.restart();
    let mut client = RawClient::open(server.address());
    assert_eq!(client.call(&create("/limited/c", b"")).header.err, exceeded, "the count was not forgotten");
    done(&mut client, &delete("/limited/a"));
    done(&mut client, &create("/limited/c", &[7; 60]));
    done(&mut client, &create("/elsewhere", &[7; 1000]));
}

#[test]
fn quota_that_is_not_enforced_only_counts() {
    let server = Keeper::new().start();
    let mut client = RawClient::open(server.address());
    limit(&mut client);
    for name in ["/limited/a", "/limited/b", "/limited/c"] {
        done(&mut client, &create(name, &[7; 100]));
    }
    let (counts, _) =
        crate::ask::read_znode(&mut client, "/zookeeper/quota/limited/zookeeper_stats").expect("it counts");
    assert_eq!(String::from_utf8_lossy(&counts), "count=4,bytes=300");
}
