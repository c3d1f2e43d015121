//! No file descriptors left: the keeper waits for one, and mere connections cannot use them all up.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::time::Duration;

use menagerie_testkit::{DEADLINE, Incoming, Keeper, Process, RawClient, binary, eventually};
use menagerie_wire::ErrorCode;
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, prlimit};

use crate::ask::{create, done};
use crate::full::assert_all_there;
use crate::up::up;

/// What `assert_all_there` expects in each znode.
static DATA: [u8; 20_000] = [7; 20_000];
/// More than a segment of the log holds (32 MiB).
const CREATES: usize = 1_800;

/// The same in fewer steps.
static LARGE: [u8; 500_000] = [7; 500_000];
const LARGE_CREATES: usize = 70;

/// Limits the open files of a process; open ones stay open. Returns the former limit.
fn allow(process: u32, files: Option<u64>) -> Option<u64> {
    let process = Pid::from_raw(process.try_into().expect("it is small"));
    // Only the soft limit: without privileges the hard one cannot be raised again.
    let maximum = getrlimit(Resource::Nofile).maximum;
    prlimit(process, Resource::Nofile, Rlimit { current: files, maximum }).expect("it is ours").current
}

#[test]
fn keeper_without_files_to_open_waits_for_one_and_goes_on() {
    let mut server = Keeper::new().start();
    let mut client = RawClient::open(server.address());
    let before = allow(server.pid(), Some(0));
    let mut sent = 0;
    // The next segment cannot be preallocated either, so the log ends with this one.
    let waiting = loop {
        client.send(&create(&format!("/{sent}"), &DATA));
        sent += 1;
        assert!(sent < 2 * CREATES, "the log needs no other file");
        let answered = eventually("an answer, or the reason why there is none", || {
            match client.reply(Duration::from_millis(10)) {
                None => server.stderr().contains("too many files are open").then_some(None),
                Some(reply) => Some(Some(reply)),
            }
        });
        match answered {
            None => break sent - 1,
            Some(Incoming::Reply(reply)) => assert_eq!(reply.header.err, ErrorCode::Ok),
            Some(other) => panic!("neither an answer nor silence: {other:?}"),
        }
    };
    allow(server.pid(), before);
    let Some(Incoming::Reply(reply)) = client.reply(DEADLINE) else { panic!("no answer") };
    assert_eq!(reply.header.err, ErrorCode::Ok, "/{waiting} is created when there are files again");
    server.kill();
    assert_all_there(&server, sent);
}

/// Sends a request to an HTTP server of `up` and returns the answer.
fn ask(up: &Process, address: SocketAddr, path: &str) -> String {
    let connected = TcpStream::connect(address);
    let mut stream = connected.unwrap_or_else(|error| panic!("{address}: {error}\n{}", up.stderr()));
    stream.set_read_timeout(Some(DEADLINE)).expect("it can be set");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n").expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    answer
}

/// Ports of `up`, and for those that speak HTTP a request that needs no key.
const PORTS: [(&str, Option<(&str, &str)>); 5] = [
    ("keeper", None),
    ("journal", None),
    ("queue", Some(("/__heartbeat__", "OK"))),
    ("slots", Some(("/", "unknown_path"))),
    ("metrics", Some(("/healthz", "ok"))),
];

#[test]
fn silent_connections_to_one_port_take_no_files_from_the_others() {
    let root = tempfile::tempdir().expect("a temporary directory can be made");
    let data = root.path().to_str().expect("its name is text");
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n 512; exec \"$@\"", "sh"]).arg(binary());
    let mut up = Process::spawn(command.args(up(&["--data", data, "--metrics", "127.0.0.1:0"])));
    up.wait_for_line("how to stop it", |line| line.contains("Ctrl-C").then_some(()));
    let text = std::fs::read(root.path().join("addresses.json")).expect("it is there");
    let addresses: serde_json::Value = serde_json::from_slice(&text).expect("it is JSON");
    let address = |port: &str| addresses[port].as_str().and_then(|at| at.parse().ok()).expect("an address");
    let mut client = RawClient::open(address("keeper"));
    for (round, (attacked, _)) in PORTS.iter().enumerate() {
        // Connect until the server accepts no more: further connections wait in the kernel and hold nothing of ours.
        let knock = |_| TcpStream::connect_timeout(&address(attacked), Duration::from_secs(1)).ok();
        let silent: Vec<TcpStream> = (0..470).map_while(knock).collect();
        // The log begins a new segment meanwhile.
        for at in 0..LARGE_CREATES {
            done(&mut client, &create(&format!("/{attacked}-{at}"), &LARGE));
        }
        for (port, answered) in &PORTS {
            match answered {
                Some((path, words)) if port != attacked => {
                    let answer = ask(&up, address(port), path);
                    assert!(answer.contains(words), "{port} while {attacked} is attacked: {answer}");
                }
                _ => {}
            }
        }
        assert!(up.try_wait().is_none(), "it goes on, round {round}");
        drop(silent);
    }
    up.signal(Signal::INT);
    assert_eq!(up.wait_for_end().status.code(), Some(0));
}
