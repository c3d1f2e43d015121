//! Large loads: what a client may build up within all limits must not overload the keeper.

use menagerie_testkit::{DEADLINE, Incoming, Keeper, RawClient, Server, eventually};
use menagerie_wire::request::Create;
use menagerie_wire::{
    Acl, ErrorCode, FRAME_BYTES_MAX, Id, MultiOp, MultiResult, OpCode, Perms, Request, Response,
};

use crate::ask::{
    EPHEMERAL, PERSISTENT, SEQUENTIAL, children, create, create_as, creation, delete, done,
    open_with_timeout, read_znode,
};
use crate::process::peak_rss_mb;

/// The paths of these many ephemeral znodes add up to more than a record of the log may hold (64 MiB).
const EPHEMERALS: usize = 75;

fn long_path(at: usize) -> String {
    format!("/{at}-{}", "x".repeat(1_000_000))
}

fn create_ephemerals(client: &mut RawClient) {
    for at in 0..EPHEMERALS {
        done(client, &create_as(&long_path(at), b"", EPHEMERAL));
    }
}

#[track_caller]
fn assert_all_gone(server: &Server) {
    let mut witness = RawClient::open(server.address());
    for at in [0, EPHEMERALS / 2, EPHEMERALS - 1] {
        eventually("ephemeral znodes go", || {
            read_znode(&mut witness, &long_path(at)).is_none().then_some(())
        });
    }
}

#[test]
fn session_with_many_long_ephemerals_can_be_closed() {
    let mut server = Keeper::new().start();
    let mut client = RawClient::open(server.address());
    create_ephemerals(&mut client);
    done(&mut client, &Request::CloseSession);
    assert_all_gone(&server);
    server.kill();
    server.restart();
    assert_all_gone(&server);
}

#[test]
fn session_with_many_long_ephemerals_can_expire() {
    let mut server = Keeper::new().args(["--tick", "100"]).start();
    let mut client = open_with_timeout(server.address(), 2000);
    create_ephemerals(&mut client);
    assert_all_gone(&server);
    server.kill();
    server.restart();
    assert_all_gone(&server);
}

#[test]
fn small_request_cannot_ask_for_an_endless_reply() {
    let server = Keeper::new().start();
    let mut client = RawClient::open(server.address());
    done(&mut client, &create("/large", &vec![7; 1_000_000]));
    let reads = vec![MultiOp::GetData { path: "/large", watch: false }; 5_000];
    let reply = client.call(&Request::MultiRead(reads));
    assert_ne!(reply.header.err, ErrorCode::Ok, "five gigabytes");
    let peak = peak_rss_mb(server.pid());
    assert!(peak < 256, "the attempt took {peak} MB");
    done(&mut client, &delete("/large"));
}

/// Identities that a client may have, and entries of an access list that name it.
const IDENTITIES: usize = 60;
const ENTRIES: usize = 16;

/// A client with as many long identities as the keeper accepts.
fn somebody(server: &Server) -> RawClient {
    let mut client = RawClient::open(server.address());
    for at in 0..IDENTITIES {
        let credentials = format!("{at:03}{}:x", "u".repeat(1_000));
        let auth = Request::Auth { scheme: "digest", credentials: credentials.as_bytes() };
        assert_eq!(client.call(&auth).header.err, ErrorCode::Ok);
    }
    client
}

/// A list that is short on the wire: each entry stands for all identities of the client.
fn expanding(entries: usize) -> Vec<Acl> {
    let perms = 1..=i32::try_from(entries).expect("small");
    perms.map(|perms| Acl { perms: Perms(perms), id: Id::new("auth", "") }).collect()
}

fn expanding_creation(path: &str, entries: usize) -> Create<'_> {
    Create { acl: expanding(entries), ..creation(path, b"", PERSISTENT) }
}

#[test]
fn one_frame_cannot_become_a_transaction_of_gigabytes() {
    let mut server = Keeper::new().start();
    let mut witness = RawClient::open(server.address());
    let mut client = somebody(&server);
    for entries in [ENTRIES, 2] {
        let paths: Vec<String> = (0..2_300).map(|at| format!("/{entries}-{at}")).collect();
        let op = |path| MultiOp::Create { op: OpCode::Create, create: expanding_creation(path, entries) };
        client.send(&Request::Multi(paths.iter().map(|path| op(path)).collect()));
        let reply = client.reply(DEADLINE);
        let Some(Incoming::Reply(reply)) = reply else {
            panic!("no reply to {entries} entries each: {reply:?}")
        };
        let Ok(Response::Multi(results)) = reply.response(OpCode::Multi) else { panic!("no results") };
        let refused = results.iter().find(|result| !matches!(result, MultiResult::Error(ErrorCode::Ok)));
        assert!(matches!(refused, Some(MultiResult::Error(_))), "{entries} entries each: {refused:?}");
        assert_eq!(children(&mut witness, "/"), ["zookeeper"], "none of it happened");
    }
    let peak = peak_rss_mb(server.pid());
    assert!(peak < 256, "the attempt took {peak} MB");
    done(&mut client, &create("/still-served", b""));
    server.kill();
    server.restart();
    assert_eq!(children(&mut RawClient::open(server.address()), "/"), ["still-served", "zookeeper"]);
}

#[test]
fn small_requests_that_become_much_wait_for_the_disk() {
    const WRITES: usize = 1_000;
    let server = Keeper::new().start();
    let mut client = somebody(&server);
    // About as long as a list may be: 120 KB per request of 80 bytes.
    for at in 0..WRITES {
        let path = format!("/{at}");
        client.send(&Request::Create { op: OpCode::Create, create: expanding_creation(&path, 2) });
    }
    for at in 0..WRITES {
        match client.reply(DEADLINE) {
            Some(Incoming::Reply(reply)) => assert_eq!(reply.header.err, ErrorCode::Ok, "creation {at}"),
            other => panic!("no reply: {other:?}"),
        }
    }
    let peak = peak_rss_mb(server.pid());
    assert!(peak < 64, "{WRITES} small writes took {peak} MB");
}

#[test]
fn multi_that_fills_a_frame_with_the_smallest_operations_is_taken() {
    let server = Keeper::new().start();
    let mut client = RawClient::open(server.address());
    // The request that grows most on its way to the log: a number and a znode's whole metadata are added to one byte
    // of path.
    let smallest = || {
        let acl = vec![Acl { perms: Perms::ALL, id: Id::new("ip", "0.0.0.0") }];
        MultiOp::Create {
            op: OpCode::Create,
            create: Create { path: "/", data: None, acl, flags: SEQUENTIAL, ttl: None },
        }
    };
    let mut one = Vec::new();
    Request::Multi(vec![smallest()]).encode(0, &mut one);
    let mut two = Vec::new();
    Request::Multi(vec![smallest(), smallest()]).encode(0, &mut two);
    let count = (FRAME_BYTES_MAX - one.len()) / (two.len() - one.len()) + 1;
    done(&mut client, &Request::Multi((0..count).map(|_| smallest()).collect()));
    assert_eq!(children(&mut client, "/").len(), count + 1);
}
