//! A slow disk, and one that breaks its promise of room.

use std::time::{Duration, Instant};

use menagerie_journal::{Commit, Journal, JournalError, MessageId, NewMessage, Read, TopicConfig};
use menagerie_testkit::eventually;

use super::{Served, runtime, spot, topic};

fn under<'a>(trace: &'a str, inject: &'a str) -> [&'a str; 10] {
    ["strace", "-D", "-f", "-qq", "-o", "/dev/null", "-e", trace, "-e", inject]
}

#[test]
fn with_a_slow_sync_commits_take_longer_and_stay_in_order() {
    const DELAY: Duration = Duration::from_millis(300);
    const COMMITS: u32 = 8;
    let inject = format!("inject=fdatasync:delay_enter={}", DELAY.as_micros());
    let line = under("trace=fdatasync", &inject);
    let served = Served::start_under(&line, &[]);
    let client = served.client();
    runtime().block_on(async {
        client.create_topic(&topic(), TopicConfig::default()).await.expect("a topic");
        let begun = Instant::now();
        for n in 0..COMMITS {
            let commit = Commit::append(spot(1), NewMessage::new(n.to_string()));
            client.commit(commit).await.expect("it is slow, not broken");
        }
        assert!(begun.elapsed() >= DELAY * COMMITS, "each was answered after a sync of its own");
        let batch = client.read(Read::after(spot(1), MessageId::ZERO)).await.expect("it can be read");
        let bodies: Vec<String> =
            batch.messages.iter().map(|m| String::from_utf8_lossy(&m.body).into_owned()).collect();
        assert_eq!(bodies, (0..COMMITS).map(|n| n.to_string()).collect::<Vec<_>>());
    });
}

/// As on a copy-on-write file system. The writes that fail after the first are those of the mark, while the log is
/// reopened.
#[test]
fn want_of_room_within_a_segment_refuses_commits_and_ends_nothing() {
    let line = under("trace=pwrite64", "inject=pwrite64:error=ENOSPC:when=6..8");
    let mut served = Served::start_under(&line, &[]);
    let client = served.client();
    let runtime = runtime();
    let read = async || {
        let batch = client.read(Read::after(spot(1), MessageId::ZERO)).await.expect("it can be read");
        batch.messages.iter().map(|message| message.body.clone()).collect::<Vec<_>>()
    };
    let (mut acknowledged, mut refused) = (Vec::new(), 0);
    runtime.block_on(async {
        client.create_topic(&topic(), TopicConfig::default()).await.expect("a topic");
        for n in 0..200 {
            let body = bytes::Bytes::from(n.to_string());
            match client.commit(Commit::append(spot(1), NewMessage::new(body.clone()))).await {
                Ok(_) => acknowledged.push(body),
                Err(JournalError::DiskFull) => {
                    refused += 1;
                    assert_eq!(read().await, acknowledged, "readers go on, and see what was acknowledged");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                Err(error) => panic!("{error:?}"),
            }
        }
        assert_eq!(read().await, acknowledged);
    });
    assert!(refused > 0 && acknowledged.len() > 100, "{refused} refused, {} not", acknowledged.len());
    served.crash();
    let client = served.client();
    runtime.block_on(async {
        let batch = client.read(Read::after(spot(1), MessageId::ZERO)).await.expect("it can be read");
        let found: Vec<_> = batch.messages.iter().map(|message| message.body.clone()).collect();
        assert_eq!(found, acknowledged, "also after a crash");
    });
}

/// A power cut keeps any subset of names that are not durable: a snapshot must not be durable before the dedup ids
/// that it names, nor anything before the folder itself.
#[test]
fn names_are_durable_before_what_rests_on_them() {
    let traced = tempfile::NamedTempFile::new().expect("a temporary file");
    let to = traced.path().to_str().expect("its name is text");
    let calls = "trace=rename,renameat,renameat2,fsync";
    let mut served = Served::start_under(&["strace", "-D", "-f", "-y", "-qq", "-o", to, "-e", calls], &[]);
    let client = served.client();
    runtime().block_on(async {
        client.create_topic(&topic(), TopicConfig::default()).await.expect("a topic");
        let message = NewMessage { dedup: Some("once".into()), ..NewMessage::new("x") };
        client.commit(Commit::append(spot(1), message)).await.expect("a commit");
    });
    served.process.stop();
    let data = served.data().canonicalize().expect("it is there");
    let synced = |folder: &std::path::Path| format!("<{}>", folder.display());
    eventually("the last checkpoint in the trace", || {
        let trace = std::fs::read_to_string(traced.path()).expect("it can be read");
        let lines: Vec<&str> = trace.lines().collect();
        let find = |what: &[&str], from: usize| {
            let found = lines[from..].iter().position(|line| what.iter().all(|word| line.contains(word)));
            found.map(|at| from + at)
        };
        let folder = synced(&data.join("journal"));
        let snapshot = find(&["rename", "/snapshot-"], 0)?;
        find(&["fsync(", &folder], snapshot)?;
        let ids = find(&["rename", "/ids-"], 0).expect("there is one");
        let between = find(&["fsync(", &folder], ids).expect("the ids are durable");
        assert!(ids < snapshot && between < snapshot, "{trace}");
        find(&["fsync(", &synced(&data)], 0).expect("the folder itself is durable");
        Some(())
    });
}
