//! Clients that do not read, or send without end: they slow down themselves, nobody else, and memory stays bounded.

use std::io::Write as _;
use std::thread;
use std::time::{Duration, Instant};

use menagerie_testkit::{DEADLINE, Incoming, Keeper, RawClient, Server, eventually, four_letter_word};
use menagerie_wire::{MultiOp, OpCode, Request, Response, WatchMode};

use crate::ask::{
    EPHEMERAL, PERSISTENT, create, create_as, creation, done, get, open_with_timeout, read_znode, resumption,
    set,
};
use crate::process::{peak_rss_mb, rss_mb};

/// Memory limit of a keeper in these tests. Its data is small; the rest is buffers.
const RSS_MB_MAX: u64 = 256;

/// The next reply's xid. Fails if the connection ends.
#[track_caller]
fn next_xid(client: &mut RawClient) -> i32 {
    match client.reply(DEADLINE) {
        Some(Incoming::Reply(reply)) => reply.header.xid,
        other => panic!("the client was not waited for: {other:?}"),
    }
}

fn watches(server: &Server) -> u64 {
    let answer = four_letter_word(server.address(), "mntr");
    let count = answer.lines().find_map(|line| line.strip_prefix("zk_watch_count\t"));
    count.expect("mntr tells the number of watches").parse().expect("a number")
}

/// The slowest of many small writes and reads, ignoring the few that a busy machine delays.
fn latency(client: &mut RawClient) -> Duration {
    let mut times: Vec<Duration> = (0..100)
        .map(|_| {
            let begun = Instant::now();
            done(client, &set("/small", b"new"));
            read_znode(client, "/small");
            begun.elapsed()
        })
        .collect();
    times.sort_unstable();
    times[times.len() * 9 / 10]
}

#[test]
fn flooding_reader_is_slowed_and_served_in_full_while_others_go_on() {
    const REQUESTS: i32 = 200_000;
    let server = Keeper::new().start();
    let mut other = RawClient::open(server.address());
    done(&mut other, &create("/small", &[7; 100]));
    let mut flooder = RawClient::open(server.address());
    let mut sending = flooder.sender();
    let sender = thread::spawn(move || {
        let mut bytes = Vec::new();
        for xid in 1..=REQUESTS {
            menagerie_wire::framed(&mut bytes, |out| get("/small").encode(xid, out));
        }
        sending.write_all(&bytes).expect("the server takes everything in the end");
    });
    let slowest = latency(&mut other);
    assert!(slowest < Duration::from_millis(250), "others wait {slowest:?} while one client floods");
    for xid in 1..=REQUESTS {
        assert_eq!(next_xid(&mut flooder), xid, "replies come in the order of requests");
    }
    sender.join().expect("everything was sent");
    assert!(peak_rss_mb(server.pid()) < RSS_MB_MAX);
}

#[test]
fn replies_that_add_up_to_much_are_neither_dropped_nor_kept_in_memory() {
    const REPLIES: usize = 600;
    let server = Keeper::new().start();
    let mut client = RawClient::open(server.address());
    done(&mut client, &create("/large", &vec![7; 1_000_000]));
    // A write in front: all reads wait for it, and could be answered at once when it is durable.
    client.send(&create("/first", b""));
    for _ in 0..REPLIES {
        client.send(&get("/large"));
    }
    let first = next_xid(&mut client);
    for at in 1..=REPLIES {
        assert_eq!(next_xid(&mut client), first + i32::try_from(at).expect("small"));
    }
    let peak = peak_rss_mb(server.pid());
    assert!(peak < RSS_MB_MAX, "{REPLIES} MB of replies took {peak} MB");
}

#[test]
fn flooding_writer_is_slowed_and_not_dropped() {
    const WRITES: i32 = 400;
    let server = Keeper::new().start();
    let mut other = RawClient::open(server.address());
    done(&mut other, &create("/small", b""));
    let mut flooder = RawClient::open(server.address());
    done(&mut flooder, &create("/large", b""));
    let mut sending = flooder.sender();
    // After the xid of the request above.
    let first = 2;
    let sender = thread::spawn(move || {
        let data = vec![7; 200_000];
        for xid in first..first + WRITES {
            let mut bytes = Vec::new();
            menagerie_wire::framed(&mut bytes, |out| set("/large", &data).encode(xid, out));
            sending.write_all(&bytes).expect("the server takes everything in the end");
        }
    });
    let slowest = latency(&mut other);
    assert!(slowest < Duration::from_secs(1), "others wait {slowest:?} while one client floods");
    for xid in first..first + WRITES {
        assert_eq!(next_xid(&mut flooder), xid, "replies come in the order of requests");
    }
    sender.join().expect("everything was sent");
    assert!(peak_rss_mb(server.pid()) < RSS_MB_MAX);
}

#[test]
fn client_that_never_takes_its_replies_expires_like_a_silent_one() {
    let server = Keeper::new().args(["--tick", "100"]).start();
    let mut stuck = open_with_timeout(server.address(), 2000);
    done(&mut stuck, &create_as("/lock", b"", EPHEMERAL));
    done(&mut stuck, &create("/large", &vec![7; 1_000_000]));
    for _ in 0..200 {
        stuck.send(&get("/large"));
    }
    // As if it was stopped here: its socket is open, it sends no pings, its lock must not be held for ever.
    let mut witness = RawClient::open(server.address());
    eventually("its ephemeral znode goes", || read_znode(&mut witness, "/lock").is_none().then_some(()));
}

#[test]
fn watcher_that_never_reads_is_cut_off_and_can_come_back() {
    const EVENTS_BYTES_MAX: usize = 200_000_000;
    let server = Keeper::new().start();
    let mut watcher = RawClient::open(server.address());
    let mode = WatchMode::PersistentRecursive as i32;
    done(&mut watcher, &Request::AddWatch { path: "/", mode });
    assert_eq!(watches(&server), 1);
    // An event is little more than a path, so long paths make large events of few writes.
    let path = format!("/{}", "x".repeat(400_000));
    let mut writer = RawClient::open(server.address());
    done(&mut writer, &create(&path, b""));
    let mut events_bytes = 0;
    // Its watch ends with its connection.
    while watches(&server) > 0 {
        assert!(events_bytes < EVENTS_BYTES_MAX, "still there after {events_bytes} bytes");
        done(&mut writer, &set(&path, b""));
        events_bytes += path.len();
    }
    let peak = peak_rss_mb(server.pid());
    assert!(peak < RSS_MB_MAX, "events for a client that does not read took {peak} MB");
    let mut back = RawClient::connect(server.address(), &resumption(watcher.session())).expect("it resumes");
    let reply = done(&mut back, &Request::GetAllChildrenNumber { path: "/" });
    assert!(matches!(reply.response(OpCode::GetAllChildrenNumber), Ok(Response::Number(1..))));
}

#[test]
fn pipelined_requests_that_take_long_do_not_pile_up() {
    const ZNODES: usize = 20_000;
    const REQUESTS: i32 = 2_000_000;
    /// Turns of the server's loop, in each of which it could read more than it handles.
    const TURNS: usize = 300;
    let server = Keeper::new().start();
    let mut other = RawClient::open(server.address());
    let paths: Vec<String> = (0..ZNODES).map(|at| format!("/{at}")).collect();
    for some in paths.chunks(5_000) {
        let op = |path| MultiOp::Create { op: OpCode::Create, create: creation(path, b"", PERSISTENT) };
        done(&mut other, &Request::Multi(some.iter().map(|path| op(path)).collect()));
    }
    let flooder = RawClient::open(server.address());
    let mut bytes = Vec::new();
    for xid in 1..=REQUESTS {
        let count = Request::GetAllChildrenNumber { path: "/" };
        menagerie_wire::framed(&mut bytes, |out| count.encode(xid, out));
    }
    let before_mb = rss_mb(server.pid());
    let mut sending = flooder.sender();
    // Not all of it is read before the test ends.
    let sender = thread::spawn(move || drop(sending.write_all(&bytes)));
    for _ in 0..TURNS {
        other.ping();
    }
    let grown_mb = rss_mb(server.pid()) - before_mb;
    assert!(grown_mb < 8, "requests that wait take {grown_mb} MB");
    drop(server);
    sender.join().expect("the connection has ended");
}
