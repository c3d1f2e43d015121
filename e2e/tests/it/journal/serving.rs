//! Beyond loopback, with metrics, with followers, and with a version that is too old.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Command, Stdio};

use menagerie_journal::client::Address;
use menagerie_journal::token::Token;
use menagerie_journal::{Client, Commit, Journal, JournalError, MessageId, NewMessage, Read, TopicConfig};
use menagerie_testkit::{Authority, Process, binary, eventually, free_port};
use rustix::process::Signal;

use super::{Served, runtime, spot, topic};
use crate::metrics::samples;

fn path(authority: &Authority, name: &str) -> String {
    authority.file(name).to_str().expect("its name is text").to_owned()
}

#[test]
fn beyond_loopback_tls_and_the_token_are_needed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let data = folder.path().to_str().expect("its name is text");
    let everywhere = ["journal", "--unregistered", "--data", data, "--listen", "0.0.0.0:0"];
    let mut plain = Process::menagerie(everywhere);
    let end = plain.wait_for_end();
    assert_eq!(end.status.code(), Some(2), "{}", end.stderr);
    assert!(end.stderr.contains("--tls-cert"), "{}", end.stderr);

    let authority = Authority::new();
    let (cert, key) = (path(&authority, "cert.pem"), path(&authority, "key.pem"));
    let encrypted: Vec<&str> =
        everywhere.into_iter().chain(["--tls-cert", &cert, "--tls-key", &key]).collect();
    let served = Process::menagerie(encrypted);
    let address = served.wait_until_listening("journal");
    let token_file = folder.path().join("journal/token");
    let token = fs::read_to_string(&token_file).expect("the token is there").trim().to_owned();
    let client = |authority: Option<&Authority>, token: &str| {
        Client::new(Address {
            address: format!("127.0.0.1:{}", address.port()),
            tokens: vec![Token::new(token)],
            authority: authority.map(|authority| authority.file("ca.pem")),
            identity: None,
        })
    };
    runtime().block_on(async {
        let ours = client(Some(&authority), &token);
        ours.create_topic(&topic(), TopicConfig::default()).await.expect("TLS and the token");
        ours.commit(Commit::append(spot(1), NewMessage::new("x"))).await.expect("appended");
        let denied = client(Some(&authority), "guessed").topics().await;
        assert!(matches!(denied, Err(JournalError::Denied(_))), "{denied:?}");
        let strange = client(Some(&Authority::new()), &token).topics().await;
        assert!(matches!(strange, Err(JournalError::Unreachable { .. })), "{strange:?}");
        let unencrypted = client(None, &token).topics().await;
        assert!(matches!(unencrypted, Err(JournalError::Unreachable { .. })), "{unencrypted:?}");
        let read =
            ours.read(Read::after(spot(1), MessageId::ZERO)).await.expect("the others have not disturbed");
        assert_eq!(read.messages.len(), 1);
    });
    let untrusting =
        Command::new(binary()).args(["journal", "topics", "--data", data]).output().expect("it can be run");
    let said = String::from_utf8_lossy(&untrusting.stderr);
    assert_eq!(untrusting.status.code(), Some(2), "{said}");
    assert!(said.contains("speaks TLS") && said.contains("--tls-ca"), "{said}");
    let ca = path(&authority, "ca.pem");
    let port = format!("127.0.0.1:{}", address.port());
    let listed = Command::new(binary())
        .args(["journal", "topics", "--journal", &port, "--tls-ca", &ca, "--token-file"])
        .arg(&token_file)
        .output()
        .expect("it can be run");
    assert!(String::from_utf8_lossy(&listed.stdout).contains("mail"), "{listed:?}");
}

#[test]
fn metrics_are_there_and_move() {
    let metrics = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let served = Served::start_under(&[], &["--metrics", &metrics.to_string()]);
    let client = served.client();
    // Dropping it would end the connection.
    let runtime = runtime();
    let before = eventually("metrics", || std::panic::catch_unwind(|| samples(metrics)).ok());
    runtime.block_on(async {
        client.create_topic(&topic(), TopicConfig::default()).await.expect("a topic");
        for _ in 0..5 {
            client.commit(Commit::append(spot(1), NewMessage::new("12345"))).await.expect("appended");
        }
        assert_eq!(client.read(Read::after(spot(1), MessageId::ZERO)).await.expect("read").messages.len(), 5);
        client.commit(Commit::append(spot(9), NewMessage::new("x"))).await.expect_err("no such partition");
    });
    let grown = [
        ("menagerie_journal_commits_total", 6.0),
        ("menagerie_journal_refused_total", 1.0),
        ("menagerie_journal_appended_messages_total", 5.0),
        ("menagerie_journal_appended_bytes_total", 25.0),
        ("menagerie_journal_reads_total", 1.0),
        ("menagerie_journal_read_messages_total", 5.0),
        ("menagerie_journal_fsync_seconds_count", 6.0),
        ("menagerie_journal_messages", 5.0),
        ("menagerie_journal_connections", 1.0),
    ];
    eventually("the metrics to move", || {
        let now = samples(metrics);
        let moved = |name: &str, by: f64| {
            let value = |of: &std::collections::BTreeMap<String, f64>| {
                *of.get(name).unwrap_or_else(|| panic!("{name} is missing in {of:#?}"))
            };
            value(&now) - value(&before) >= by
        };
        grown.iter().all(|(name, by)| moved(name, *by)).then_some(())
    });
    assert!(samples(metrics)["menagerie_journal_disk_bytes"] > 0.0);
}

#[test]
fn tail_follows_what_comes() {
    let served = Served::start();
    let client = served.client();
    let runtime = runtime();
    let append = |text: &str| {
        let commit = Commit::append(spot(1), NewMessage::new(text.to_owned()));
        runtime.block_on(client.commit(commit)).expect("appended");
    };
    runtime.block_on(client.create_topic(&topic(), TopicConfig::default())).expect("a topic");
    for n in 0..3 {
        append(&format!("old {n}"));
    }
    let data = served.data();
    let mut tail = Command::new(binary())
        .args([
            "journal",
            "tail",
            "-f",
            "mail",
            "-n",
            "1",
            "--data",
            data.to_str().expect("its name is text"),
        ])
        .stdout(Stdio::piped())
        .spawn()
        .expect("it can be run");
    let mut lines = BufReader::new(tail.stdout.take().expect("its output is piped")).lines();
    let mut next = || lines.next().expect("it goes on").expect("text");
    assert!(next().ends_with("old 2"));
    for n in 0..3 {
        append(&format!("new {n}"));
        assert!(next().ends_with(&format!("new {n}")));
    }
    rustix::process::kill_process(rustix::process::Pid::from_child(&tail), Signal::INT).expect("it runs");
    assert_eq!(tail.wait().expect("it ends").code(), Some(130));
}

#[test]
fn a_newer_format_is_refused() {
    let mut served = Served::start();
    assert_eq!(served.process.stop().status.code(), Some(0));
    let format = served.data().join("journal/format");
    let text = fs::read_to_string(&format).expect("it says its format");
    let newer = text.replace(" 1", " 2");
    assert_ne!(newer, text);
    fs::write(&format, newer).expect("it can be written");
    let data = served.data();
    let data = data.to_str().expect("its name is text");
    for args in [
        vec!["journal", "--unregistered", "--listen", "127.0.0.1:0", "--data", data],
        vec!["journal", "verify", "--data", data],
    ] {
        let end = Process::menagerie(args.iter().copied()).wait_for_end();
        assert!(!end.status.success(), "{args:?}");
        assert!(
            end.stderr.contains("has format 2, but this version reads formats up to 1"),
            "{}",
            end.stderr
        );
        assert!(end.stderr.contains("help: "), "{}", end.stderr);
    }
}
