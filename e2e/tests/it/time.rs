//! Session time-outs: never early, hardly late, and a server that was away does not expire its clients for that.

use std::time::{Duration, Instant};

use menagerie_testkit::{DEADLINE, Incoming, Keeper, RawClient, Server, eventually};
use menagerie_wire::{ErrorCode, EventKind, Request};

use crate::ask::{EPHEMERAL, create_as, done, open_with_timeout, read_znode, resumption};
use crate::process::let_pass;

/// Makes time-outs of 200 to 2000 ms possible.
const TICK: [&str; 2] = ["--tick", "100"];

/// A persistent watch.
const PERSISTENT: i32 = 0;

/// How late a session may expire.
const LATE_MAX: Duration = Duration::from_millis(50);

/// On a busy machine a measurement includes the scheduler: the best of these tries is the server's.
const TRIES: usize = 40;

/// Waits for the end of the ephemeral znode at `path`, pinging meanwhile, so that the server is awake at all times
/// and has every opportunity to be early.
fn when_deleted(witness: &mut RawClient, path: &str) -> Instant {
    let reply = witness.call(&Request::Exists { path, watch: true });
    assert_eq!(reply.header.err, ErrorCode::Ok, "{path} is there at first");
    when_notified(witness, path, EventKind::Deleted)
}

/// The same for any event, when the watch is set.
fn when_notified(witness: &mut RawClient, path: &str, kind: EventKind) -> Instant {
    loop {
        witness.send(&Request::Ping);
        match witness.recv(DEADLINE) {
            Some(Incoming::Event(event)) => {
                assert_eq!((event.kind, event.path.as_str()), (kind, path));
                return Instant::now();
            }
            Some(Incoming::Reply(_)) => {}
            other => panic!("no reply to a ping: {other:?}"),
        }
    }
}

/// How long after its last sign of life a session with this time-out expires. `None`: it expired before it gave one,
/// because the machine was busy.
fn life(server: &Server, timeout: Duration) -> Option<Duration> {
    let mut witness = RawClient::open(server.address());
    let asked = Instant::now();
    let mut client = open_with_timeout(server.address(), timeout.as_millis().try_into().expect("small"));
    let path = format!("/of-{:x}", client.session().id);
    let reply = witness.call(&Request::AddWatch { path: &path, mode: PERSISTENT });
    assert_eq!(reply.header.err, ErrorCode::Ok);
    // The server cannot receive it earlier than it is sent.
    let heard = Instant::now();
    client.send(&create_as(&path, b"", EPHEMERAL));
    match client.reply(DEADLINE) {
        Some(Incoming::Reply(reply)) if reply.header.err == ErrorCode::Ok => {}
        over => {
            let life = asked.elapsed();
            assert!(life >= timeout, "a time-out of {timeout:?} was over after {life:?}: {over:?}");
            return None;
        }
    }
    when_notified(&mut witness, &path, EventKind::Created);
    Some(when_notified(&mut witness, &path, EventKind::Deleted) - heard)
}

#[test]
fn silent_session_expires_never_early_and_hardly_late() {
    // A sync before each notification may take longer than what is measured here.
    let server = Keeper::new().args(TICK).args(["--durability", "os"]).start();
    for timeout in [200, 500, 1000].map(Duration::from_millis) {
        let mut lates = (0..TRIES).filter_map(|_| {
            let life = life(&server, timeout)?;
            let late = life.checked_sub(timeout);
            Some(late.unwrap_or_else(|| panic!("a time-out of {timeout:?} ended after {life:?}")))
        });
        let late = lates.find(|late| *late <= LATE_MAX);
        assert!(late.is_some(), "a time-out of {timeout:?} is always more than {LATE_MAX:?} late");
    }
}

#[test]
fn session_that_speaks_does_not_expire() {
    let server = Keeper::new().args(TICK).start();
    let mut client = open_with_timeout(server.address(), 2000);
    done(&mut client, &create_as("/alive", b"", EPHEMERAL));
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(5) {
        let_pass(Duration::from_millis(50));
        client.ping();
    }
    assert!(read_znode(&mut client, "/alive").is_some());
}

#[test]
fn paused_server_expires_nobody_when_it_wakes() {
    // Twenty successive sessions must not wait for a slow disk each time.
    let server = Keeper::new().args(TICK).args(["--durability", "os"]).start();
    let mut clients: Vec<_> = (0..20).map(|_| open_with_timeout(server.address(), 2000)).collect();
    for client in &mut clients {
        let path = format!("/of-{:x}", client.session().id);
        done(client, &create_as(&path, b"", EPHEMERAL));
    }
    // Half of them lose their connection, too; they could not come back while the server was stopped.
    clients.iter_mut().step_by(2).for_each(RawClient::hang_up);
    server.pause();
    let_pass(Duration::from_secs(3));
    server.resume();
    for client in &mut clients {
        let session = client.session().clone();
        let mut back =
            RawClient::connect(server.address(), &resumption(&session)).expect("the session lives");
        let path = format!("/of-{:x}", session.id);
        let (_, stat) = read_znode(&mut back, &path).expect("its ephemeral znode is there");
        assert_eq!(stat.ephemeral_owner, session.id);
        *client = back;
    }
    // The grace period has an end: a client that stays silent now expires.
    let mut witness = RawClient::open(server.address());
    for client in &clients {
        let path = format!("/of-{:x}", client.session().id);
        eventually("silent sessions expire", || read_znode(&mut witness, &path).is_none().then_some(()));
    }
}

#[test]
fn restarted_server_gives_everybody_the_full_time_out_again() {
    const TIMEOUT: Duration = Duration::from_millis(2000);
    let mut server = Keeper::new().args(TICK).start();
    let mut client = open_with_timeout(server.address(), 2000);
    done(&mut client, &create_as("/mine", b"", EPHEMERAL));
    // Half of its time has passed when the server goes away.
    let_pass(TIMEOUT / 2);
    server.kill();
    let restarted = Instant::now();
    server.restart();
    let mut witness = RawClient::open(server.address());
    let deleted = when_deleted(&mut witness, "/mine");
    let life = deleted - restarted;
    assert!(life >= TIMEOUT, "the session lived only for {life:?} after the restart");
}
