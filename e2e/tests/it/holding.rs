//! What clients may make the keeper hold is bounded, and the excess is refused with an error.

use menagerie_testkit::{DEADLINE, Incoming, Keeper, RawClient, Server};
use menagerie_wire::request::SetWatches;
use menagerie_wire::{ErrorCode, MultiOp, Request};

use crate::ask::{create, done, resumption};
use crate::process::{peak_rss_mb, rss_mb};

/// The longest path of a znode or a watch.
const PATH_BYTES_MAX: usize = 1_048_000;

/// Limit for the watches of one connection.
const WATCHES_MB: u64 = 256;

fn long_path(at: usize, bytes: usize) -> String {
    let start = format!("/{at}-");
    let rest = "x".repeat(bytes - start.len());
    start + &rest
}

/// Watches a missing znode, and returns the code of the answer.
fn await_creation(client: &mut RawClient, path: &str) -> ErrorCode {
    client.send(&Request::Exists { path, watch: true });
    match client.reply(DEADLINE) {
        Some(Incoming::Reply(reply)) => reply.header.err,
        other => panic!("no reply: {other:?}"),
    }
}

/// Watches as many long paths as the keeper accepts, and returns their number.
fn watch_all(server: &Server, client: &mut RawClient) -> usize {
    for at in 0..1_500 {
        match await_creation(client, &long_path(at, PATH_BYTES_MAX)) {
            ErrorCode::NoNode => {}
            refused => {
                assert_eq!(refused, ErrorCode::QuotaExceeded);
                return at;
            }
        }
        let peak = peak_rss_mb(server.pid());
        assert!(peak < 2 * WATCHES_MB, "{at} watches take {peak} MB");
    }
    panic!("a gigabyte and a half was taken");
}

#[test]
fn watches_of_a_connection_are_bounded_and_come_back_with_it() {
    let server = Keeper::new().start();
    let mut other = RawClient::open(server.address());
    let mut client = RawClient::open(server.address());
    let count = watch_all(&server, &mut client);
    assert_eq!(await_creation(&mut client, "/short"), ErrorCode::NoNode, "there is room for a short one");
    assert_eq!(await_creation(&mut other, "/short"), ErrorCode::NoNode, "others are not concerned");

    client.hang_up();
    let mut client = RawClient::connect(server.address(), &resumption(client.session())).expect("it resumes");
    for at in 0..count {
        let path = long_path(at, PATH_BYTES_MAX);
        let watches = SetWatches { exist: vec![&path], ..SetWatches::default() };
        client.send(&Request::SetWatches(watches));
        match client.reply(DEADLINE) {
            Some(Incoming::Reply(reply)) => assert_eq!(reply.header.err, ErrorCode::Ok, "watch {at}"),
            other => panic!("watch {at} is not set again: {other:?}"),
        }
    }
    let path = long_path(count - 1, PATH_BYTES_MAX);
    other.send(&create(&path, b""));
    match client.recv(DEADLINE) {
        Some(Incoming::Event(event)) => assert!(event.path == path),
        other => panic!("no event: {other:?}"),
    }
}

#[test]
fn no_znode_and_no_watch_has_a_longer_path_than_fits_into_every_request() {
    let server = Keeper::new().start();
    let mut client = RawClient::open(server.address());
    let (longest, longer) = (long_path(0, PATH_BYTES_MAX), long_path(0, PATH_BYTES_MAX + 1));
    for (path, code) in [(&longest, ErrorCode::Ok), (&longer, ErrorCode::BadArguments)] {
        client.send(&create(path, b""));
        let Some(Incoming::Reply(reply)) = client.reply(DEADLINE) else { panic!("no reply") };
        assert_eq!(reply.header.err, code);
    }
    assert_eq!(await_creation(&mut client, &longest), ErrorCode::Ok);
    assert_eq!(await_creation(&mut client, &longer), ErrorCode::BadArguments);
    // Nothing will ever happen there, so a watch that is not restored misses nothing.
    let watches = SetWatches { exist: vec![&longer], ..SetWatches::default() };
    done(&mut client, &Request::SetWatches(watches));
}

#[test]
fn memory_of_replies_is_given_back_while_they_are_read() {
    const CLIENTS: u64 = 6;
    const REPLY_MB: usize = 60;
    /// More than sockets hold, so that the keeper keeps some of it.
    const UNREAD: usize = 12 << 20;
    let server = Keeper::new().start();
    let mut writer = RawClient::open(server.address());
    done(&mut writer, &create("/large", &vec![7; 1_000_000]));
    let reads = vec![MultiOp::GetData { path: "/large", watch: false }; REPLY_MB];
    let mut clients: Vec<_> = (0..CLIENTS).map(|_| RawClient::open(server.address())).collect();
    for client in &mut clients {
        client.send(&Request::MultiRead(reads.clone()));
        let most = REPLY_MB * 1_000_000 - UNREAD;
        assert!(client.read_exact(most).is_some(), "the connection lives");
    }
    let now = rss_mb(server.pid());
    assert!(now < CLIENTS * REPLY_MB as u64 / 2, "replies of which a fifth is left take {now} MB");
}
