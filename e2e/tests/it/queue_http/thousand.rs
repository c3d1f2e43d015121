//! A thousand waiting readers.

use std::fs;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream};
use std::thread::sleep;
use std::time::Duration;

use menagerie_testkit::{allow_files, eventually, free_port};

use super::{Client, Server};
use crate::metrics::samples;
use crate::queues::Fleet;

const READERS: usize = 1_000;
/// Memory per reader: the connection and the pending request. Test builds take more than others.
const KIB_EACH_MAX: u64 = 64;
/// While they wait there is nothing to do; observe that for this long.
const WATCHED: Duration = Duration::from_secs(3);
const TICKS_PER_SECOND: u64 = 100;

fn resident_kib(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("it has memory");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

/// CPU time, in ticks.
fn cpu_ticks(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
    let (_, fields) = stat.rsplit_once(") ").expect("a name in brackets");
    let ticks = |field: usize| fields.split(' ').nth(field).and_then(|ticks| ticks.parse::<u64>().ok());
    ticks(11).zip(ticks(12)).map(|(user, system)| user + system).expect("numbers")
}

#[test]
fn a_thousand_readers_cost_little_and_a_message_wakes_those_of_its_queue_only() {
    allow_files(3 * READERS as u64);
    let fleet = Fleet::new("http-thousand");
    let key = fleet.user.ok(&["queue", "key", "add", "notes", "--admin"]).trim().to_owned();
    let metrics = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let server = Server::start(&fleet.user, &["--metrics", &metrics.to_string()]);
    for queue in ["left", "right"] {
        assert_eq!(server.ask(&key, "POST", "/v1/notes", &format!("queue_name={queue}")).0, 201);
    }
    let pid = server.process.id();
    let before = resident_kib(pid);
    let wait = |queue: &str| {
        let mut reader = Client::open(server.address, &key).expect("it listens");
        reader.send("GET", &format!("/v1/notes/{queue}?wait=60"), "", "").expect("it is sent");
        reader
    };
    let mut readers: Vec<[Client; 2]> = (0..READERS / 2).map(|_| [wait("left"), wait("right")]).collect();
    eventually("all of them wait", || {
        (samples(metrics)["menagerie_queue_http_open_requests"] >= READERS as f64).then_some(())
    });
    let each = resident_kib(pid).saturating_sub(before) / READERS as u64;
    assert!(each <= KIB_EACH_MAX, "{each} KiB for each");
    let busy = cpu_ticks(pid);
    sleep(WATCHED);
    let busy = cpu_ticks(pid) - busy;
    assert!(busy < WATCHED.as_secs() * TICKS_PER_SECOND / 4, "{busy} ticks in {WATCHED:?}");

    assert_eq!(server.ask(&key, "POST", "/v1/notes/left", "for the left").0, 201);
    for [left, right] in &mut readers {
        let (code, read) = left.answer().expect("it is answered");
        assert_eq!((code, &read["messages"][0]["body"]), (200, &"for the left".into()));
        assert!(is_silent(&right.stream), "the others still wait");
    }
    assert_eq!(server.ask(&key, "POST", "/v1/notes/right", "for the right").0, 201);
    for [_, right] in &mut readers {
        let (code, read) = right.answer().expect("it is answered");
        assert_eq!((code, &read["messages"][0]["body"]), (200, &"for the right".into()));
    }
}

/// Whether nothing has arrived.
fn is_silent(stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).expect("a socket has options");
    let peeked = stream.peek(&mut [0]);
    stream.set_nonblocking(false).expect("a socket has options");
    matches!(peeked, Err(error) if error.kind() == ErrorKind::WouldBlock)
}
