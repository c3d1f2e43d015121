//! `menagerie up`: prints all addresses, for people and for programs, and cleans up.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::sync::{Mutex, OnceLock};

use menagerie_testkit::{Process, RawClient, binary, four_letter_word};
use rustix::process::Signal;

use crate::ask::{create, done};
use crate::cli::User;

const LISTEN: [&str; 5] =
    ["--keeper-listen", "--journal-listen", "--queue-listen", "--slots-listen", "--web-listen"];

/// `menagerie up` with these arguments, and free ports where they name none.
pub fn up<'a>(more: &[&'a str]) -> Vec<&'a str> {
    let free = LISTEN.into_iter().filter(|flag| !more.contains(flag)).flat_map(|flag| [flag, "127.0.0.1:0"]);
    ["up"].into_iter().chain(free).chain(more.iter().copied()).collect()
}

#[test]
fn up_says_where_it_is_and_takes_it_back_on_ctrl_c() {
    let root = tempfile::tempdir().expect("a temporary directory can be made");
    let data = root.path().to_str().expect("its name is text");
    let mut up = Process::menagerie(up(&["--data", data, "--metrics", "127.0.0.1:0"]));
    let keeper = up.wait_until_listening("keeper");
    let metrics: SocketAddr = up.wait_for_line("where the metrics are", |line| {
        line.trim().strip_prefix("metrics")?.split_whitespace().next()?.parse().ok()
    });
    up.wait_for_line("where the data is", |line| line.contains(data).then_some(()));
    up.wait_for_line("how to stop it", |line| line.contains("Ctrl-C").then_some(()));

    let file = root.path().join("addresses.json");
    let text = fs::read_to_string(&file).expect("addresses.json is there once it is ready");
    let addresses: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
    assert_eq!(addresses["pid"], up.id());
    assert_eq!(addresses["keeper"], keeper.to_string());
    assert_eq!(addresses["metrics"], metrics.to_string());
    let slots: SocketAddr = addresses["slots"].as_str().and_then(|at| at.parse().ok()).expect("an address");
    let mut lock = TcpStream::connect(slots).expect("FleetLock is served");
    lock.write_all(b"GET / HTTP/1.1\r\nHost: lock\r\nConnection: close\r\n\r\n").expect("it listens");
    let mut answer = String::new();
    lock.read_to_string(&mut answer).expect("it answers");
    assert!(answer.contains("unknown_path"), "{answer}");
    let queue: SocketAddr = addresses["queue"].as_str().and_then(|at| at.parse().ok()).expect("an address");
    let mut http = TcpStream::connect(queue).expect("queues are served");
    http.write_all(b"GET /__heartbeat__ HTTP/1.1\r\nHost: queue\r\nConnection: close\r\n\r\n")
        .expect("it listens");
    let mut answer = String::new();
    http.read_to_string(&mut answer).expect("it answers");
    assert!(answer.ends_with("\r\n\r\nOK"), "{answer}");
    done(&mut RawClient::open(keeper), &create("/works", b""));
    assert_eq!(running(keeper), ["coordinator", "journal", "keeper", "peer", "queue", "slots", "web"]);

    up.signal(Signal::INT);
    let end = up.wait_for_end();
    assert_eq!(end.status.code(), Some(0), "{}", end.stderr);
    assert!(!file.exists(), "nobody is misled to where nothing runs");
    assert!(root.path().join("keeper").is_dir(), "the data stays");
}

/// The roles that `menagerie status` lists as running.
fn running(keeper: SocketAddr) -> Vec<String> {
    let status = ["status", "-o", "json", "--zookeeper", &keeper.to_string()].map(str::to_owned);
    let output = Command::new(binary()).args(status).output().expect("it can be run");
    let view: serde_json::Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    let components = view["components"].as_array().expect("it is a list").iter();
    let running = components.filter(|role| role["state"] == "running");
    running.filter_map(|role| role["kind"].as_str().map(str::to_owned)).collect()
}

#[test]
fn words_of_the_keeper_are_allowed_by_flag_or_environment() {
    let root = tempfile::tempdir().expect("a temporary directory can be made");
    let data = root.path().to_str().expect("its name is text");
    for (args, environment, allowed) in [
        (&["--data", data][..], "", false),
        (&["--data", data, "--keeper-words", "dump"], "", true),
        (&["--data", data], "dump", true),
    ] {
        let mut command = Command::new(binary());
        let mut up = Process::spawn(command.args(up(args)).env("MENAGERIE_KEEPER_WORDS", environment));
        let keeper = up.wait_until_listening("keeper");
        let answer = four_letter_word(keeper, "dump");
        assert_eq!(answer.contains("not executed"), !allowed, "{args:?}, {environment:?}: {answer}");
        up.signal(Signal::INT);
        assert_eq!(up.wait_for_end().status.code(), Some(0));
    }
}

#[test]
fn plain_ports_for_other_machines_are_refused_with_flags_that_exist() {
    for (args, words) in [
        (&["up", "--keeper-listen", "0.0.0.0:0"][..], "run `menagerie keeper` with --tls-listen"),
        (&["keeper", "--listen", "0.0.0.0:0"], "use --tls-listen with certificates"),
        (&["up", "--metrics", "0.0.0.0:0"], "listen on 127.0.0.1, or say --insecure"),
    ] {
        let end = Process::menagerie(args.iter().copied()).wait_for_end();
        assert_eq!(end.status.code(), Some(2), "{}", end.stderr);
        assert!(end.stderr.contains(words), "{}", end.stderr);
    }
}

/// Waits until the demo has shown everything.
#[track_caller]
pub fn wait_for_demo(up: &Process) {
    let last_words = [
        "all 5 are done",
        "one of them failed",
        "most frequent words: the 58, and 20",
        "demo/app:propose/main/farewell passed, and is merged",
        "demo/app:propose/main/rude is not merged: FAILURE",
    ];
    let mut missing: Vec<&str> = last_words.to_vec();
    while !missing.is_empty() {
        let is_in = |line: &str| missing.iter().position(|words| line.contains(words));
        let found = up.wait_for_line("an end of the demo", is_in);
        missing.remove(found);
    }
}

/// `menagerie up --demo`, which has shown everything.
pub struct Demo {
    /// Where the dashboard is.
    pub web: SocketAddr,
    /// Of the user who may do everything.
    pub token: String,
    /// Never locked: it makes a static `Sync`.
    _up: Mutex<Process>,
}

impl Demo {
    /// Starts one with its data in the user's folder.
    pub fn start(user: &User) -> Self {
        let data = user.folder().join("data");
        let process = user.spawn(&up(&["--demo", "--data", data.to_str().expect("its name is text")]));
        wait_for_demo(&process);
        let read = |name: &str| fs::read_to_string(data.join(name)).expect("it is there once all is ready");
        let addresses: serde_json::Value = serde_json::from_str(&read("addresses.json")).expect("it is JSON");
        let web = addresses["web"].as_str().and_then(|at| at.parse().ok()).expect("an address");
        Self { web, token: read("web.token").trim().to_owned(), _up: Mutex::new(process) }
    }
}

/// One demo for all tests that only look; it ends with the test binary.
pub fn demo() -> &'static Demo {
    static DEMO: OnceLock<(Demo, User)> = OnceLock::new();
    let begin = || {
        let user = User::nowhere().lasting();
        (Demo::start(&user), user)
    };
    &DEMO.get_or_init(begin).0
}

#[test]
fn demo_leaves_nothing_behind() {
    let temporary = tempfile::tempdir().expect("a temporary directory can be made");
    let mut command = Command::new(binary());
    command.args(up(&["--demo"])).env("TMPDIR", temporary.path()).env_remove("MENAGERIE_DATA");
    let mut up = Process::spawn(&mut command);
    up.wait_for_line("how to stop it", |line| line.contains("Ctrl-C").then_some(()));
    let count = || fs::read_dir(temporary.path()).expect("it can be listed").count();
    assert_eq!(count(), 1, "the data is in a temporary folder");
    wait_for_demo(&up);
    assert_eq!(up.stop().status.code(), Some(0));
    assert_eq!(count(), 0);
}
