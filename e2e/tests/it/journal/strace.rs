//! A disk that is slow, or refuses what it had promised room for.

use std::time::{Duration, Instant};

use menagerie_journal::{Commit, Journal, JournalError, MessageId, NewMessage, Read, TopicConfig};

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

/// As on a file system that writes nothing in place. The writes that fail after the first are of the mark, while the log is
/// opened again.
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
