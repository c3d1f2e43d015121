//! Connections that end while their write is on its way to disk. A session that comes back must find what it had
//! begun: a client that reads stale state creates a second time what is about to appear.

use std::net::SocketAddr;
use std::time::Duration;

use menagerie_testkit::{Connect, Incoming, Keeper, RawClient, Refusal, Server};
use menagerie_wire::Request;

use crate::ask::{EPHEMERAL, SEQUENTIAL, children, create, create_as, done, resumption};

/// Long enough to reconnect meanwhile.
const SYNC: Duration = Duration::from_millis(500);

/// A keeper with a slow disk, and a znode to write below.
fn start() -> Server {
    let server = Keeper::new().slow_syncs(SYNC).start();
    done(&mut RawClient::open(server.address()), &create("/lock", b""));
    server
}

fn come_back(address: SocketAddr, client: &RawClient) -> RawClient {
    RawClient::connect(address, &resumption(client.session())).expect("the session lives")
}

/// The children at once, and once everything decided before has happened.
fn now_and_later(client: &mut RawClient, path: &str) -> [Vec<String>; 2] {
    let now = children(client, path);
    done(client, &Request::Sync { path });
    [now, children(client, path)]
}

#[test]
fn session_that_comes_back_sees_the_write_that_it_had_begun() {
    let server = start();
    for cut in [true, false] {
        let mut old = RawClient::open(server.address());
        old.send(&create_as("/lock/contender-", b"", EPHEMERAL | SEQUENTIAL));
        old.wait_until_taken();
        if cut {
            old.hang_up();
        }
        let mut new = come_back(server.address(), &old);
        let [now, later] = now_and_later(&mut new, "/lock");
        assert_eq!(now, later, "what was begun before must not appear after the first look");
        assert_eq!(now.len(), 1);
        new.end_session();
    }
}

#[test]
fn request_that_was_not_read_when_its_session_moved_never_happens() {
    /// More than the keeper accepts from one connection before the disk catches up.
    const WRITES: usize = 3000;
    let server = start();
    let mut old = RawClient::open(server.address());
    for _ in 0..WRITES {
        old.send(&create_as("/lock/contender-", b"", EPHEMERAL | SEQUENTIAL));
    }
    let mut new = come_back(server.address(), &old);
    let count = |client: &mut RawClient| now_and_later(client, "/lock").map(|names| names.len());
    let [now, later] = count(&mut new);
    assert_eq!(now, later);
    assert!(now < WRITES, "the keeper had not read them all");
    old.hang_up();
    assert_eq!(count(&mut new), [now, now]);
}

#[test]
fn session_whose_end_is_under_way_is_refused_once_its_znodes_are_gone() {
    let server = start();
    let mut witness = RawClient::open(server.address());
    let mut old = RawClient::open(server.address());
    done(&mut old, &create_as("/lock/mine", b"", EPHEMERAL));
    let session: Connect = resumption(old.session());
    old.send(&Request::CloseSession);
    old.wait_until_taken();
    assert!(matches!(RawClient::connect(server.address(), &session), Err(Refusal::Gone(_))));
    assert_eq!(children(&mut witness, "/lock"), Vec::<String>::new(), "it was told that they are gone");
    assert!(matches!(old.reply(menagerie_testkit::DEADLINE), Some(Incoming::Reply(_))));
}

#[cfg(feature = "python")]
#[test]
fn kazoos_lock_finds_the_contender_that_it_was_creating() {
    use std::path::Path;
    use std::process::Command;

    use menagerie_testkit::{OpCode, Process, Proxy, eventually};

    let server = start();
    let proxy = Proxy::new(server.address());
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/mid_write/lock.py");
    let mut python = Command::new(menagerie_testkit::python());
    let process = Process::spawn(python.arg(script).args([&proxy.address().to_string(), "/lock"]));
    eventually("the contender is on its way", || (proxy.requests_of(OpCode::Create) == 1).then_some(()));
    proxy.lose_connections();
    let outcome =
        process.wait_for_line("the outcome", |line| line.strip_prefix("outcome: ").map(str::to_owned));
    assert_eq!(outcome.trim(), "held by one contender of 1");
}
