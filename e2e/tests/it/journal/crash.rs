//! kill -9 at any moment under mixed load: every acknowledged commit is there in full, none in part.

use std::env;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use menagerie_journal::{
    Append, Client, Commit, Consumer, Edit, Fence, Journal, JournalError, MessageId, Move, NewMessage, Read,
    StateWrite, TopicConfig,
};
use menagerie_testkit::{binary, eventually};

use super::{Served, runtime, spot, topic};
use crate::dice::{Dice, seed};

const WORKERS: u32 = 4;
/// Largest number of commits between two kills.
const COMMITS_MAX: u64 = 300;

/// Retries while the outcome is unknown: dedup ids make that harmless.
async fn insist<T>(mut attempt: impl AsyncFnMut() -> Result<T, JournalError>) -> T {
    loop {
        match attempt().await {
            Ok(value) => return value,
            Err(JournalError::Unknown(_) | JournalError::Unreachable { .. } | JournalError::Closed) => {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            Err(error) => panic!("refused: {error:?}"),
        }
    }
}

/// Each commit has a message for both partitions of the worker, a position and a state record; each third removes the
/// message before.
async fn work(client: Client, worker: u32, stop: Arc<AtomicBool>, done: Arc<AtomicU64>) -> u64 {
    let (left, right) = (spot(2 * worker + 1), spot(2 * worker + 2));
    let consumer = Consumer::new("worker").expect("a name");
    let fence = Fence::new(1, 1);
    insist(async || client.open(&left, &consumer, fence).await).await;
    let (mut number, mut position) = (0u64, MessageId::ZERO);
    while !stop.load(Ordering::SeqCst) {
        number += 1;
        let message = || NewMessage {
            dedup: Some(Bytes::from(format!("{worker}-{number}"))),
            ..NewMessage::new(format!("{number}:{}", "x".repeat((number % 500) as usize)))
        };
        let right_message =
            NewMessage { dedup: Some(Bytes::from(format!("{worker}-{number}-r"))), ..message() };
        let commit = Commit {
            appends: vec![
                Append { partition: left.clone(), message: message() },
                Append { partition: right.clone(), message: right_message },
            ],
            moves: vec![Move {
                partition: left.clone(),
                consumer: consumer.clone(),
                fence,
                from: None,
                position,
            }],
            states: vec![StateWrite {
                partition: left.clone(),
                consumer: consumer.clone(),
                fence,
                key: "number".into(),
                value: Some(Bytes::from(number.to_string())),
            }],
            edits: Vec::new(),
        };
        let committed = insist(async || client.commit(commit.clone()).await).await;
        let id = committed.appends[0].id().expect("it is there");
        if number.is_multiple_of(3) {
            let remove =
                Commit { edits: vec![Edit::Remove { partition: left.clone(), id }], ..Commit::default() };
            insist(async || client.commit(remove.clone()).await).await;
        }
        position = id;
        done.fetch_add(1, Ordering::SeqCst);
    }
    number
}

/// Takes backups all the time: each is a checkpoint, so kills hit those, too. A backup reported complete must be.
/// Returns their number.
fn back_up(folder: &Path, stop: &AtomicBool) -> usize {
    let file = folder.join("backup");
    let run = |verb: &str, data: &Path| {
        let mut command = Command::new(binary());
        command.args(["journal", verb]).arg(&file).arg("--data").arg(data).output().expect("it can be run")
    };
    let mut whole = 0;
    while !stop.load(Ordering::SeqCst) {
        if run("backup", folder).status.success() {
            let elsewhere = tempfile::tempdir().expect("a temporary folder");
            let restored = run("restore", elsewhere.path());
            assert!(restored.status.success(), "{}", String::from_utf8_lossy(&restored.stderr));
            whole += 1;
        }
    }
    whole
}

async fn numbers(client: &Client, partition: u32) -> Vec<u64> {
    let (mut found, mut after) = (Vec::new(), MessageId::ZERO);
    loop {
        let batch = client.read(Read::after(spot(partition), after)).await.expect("it can be read");
        let Some(last) = batch.messages.last() else { return found };
        after = last.id;
        for message in &batch.messages {
            let text = std::str::from_utf8(&message.body).expect("text");
            let (number, padding) = text.split_once(':').expect("a number");
            let number: u64 = number.parse().expect("a number");
            assert_eq!(padding.len() as u64, number % 500, "the message is whole");
            found.push(number);
        }
    }
}

#[test]
fn nothing_acknowledged_is_lost_to_kill_9_and_nothing_is_there_in_part() {
    let kills = env::var("MENAGERIE_KILLS").map_or(50, |n| n.parse().expect("MENAGERIE_KILLS is a number"));
    let mut dice = Dice::new(seed());
    let mut served = Served::start();
    let runtime = runtime();
    let config =
        TopicConfig { dedup_window: Duration::from_secs(3600), ..TopicConfig::partitions(2 * WORKERS) };
    runtime.block_on(served.client().create_topic(&topic(), config)).expect("a topic");
    let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let workers: Vec<_> = (0..WORKERS)
        .map(|worker| {
            let (client, stop, done) = (served.client(), stop.clone(), done.clone());
            thread::spawn(move || super::runtime().block_on(work(client, worker, stop, done)))
        })
        .collect();
    let backups = thread::spawn({
        let (folder, stop) = (served.data(), stop.clone());
        move || back_up(&folder, &stop)
    });
    for _ in 0..kills {
        let target = done.load(Ordering::SeqCst) + dice.below(COMMITS_MAX);
        eventually("commits", || {
            assert!(!workers.iter().any(thread::JoinHandle::is_finished), "a worker has failed");
            (done.load(Ordering::SeqCst) >= target).then_some(())
        });
        served.crash();
    }
    stop.store(true, Ordering::SeqCst);
    let counts: Vec<u64> =
        workers.into_iter().map(|worker| worker.join().expect("it found nothing wrong")).collect();
    assert!(backups.join().expect("all that were whole could be restored") > 0, "there were some");
    served.crash();
    let client = served.client();
    for (worker, count) in (0..WORKERS).zip(counts) {
        let all: Vec<u64> = (1..=count).collect();
        let kept: Vec<u64> = all.iter().copied().filter(|number| !number.is_multiple_of(3)).collect();
        runtime.block_on(async {
            assert_eq!(numbers(&client, 2 * worker + 2).await, all, "each once, in order");
            assert_eq!(numbers(&client, 2 * worker + 1).await, kept, "what was removed stays so");
            let consumer = Consumer::new("worker").expect("a name");
            let stored = client
                .consumer(&spot(2 * worker + 1), &consumer)
                .await
                .expect("it answers")
                .expect("it is known");
            assert_eq!(
                stored.state,
                [("number".into(), Bytes::from(count.to_string()))],
                "state is of the last commit"
            );
            let older = client.open(&spot(2 * worker + 1), &consumer, Fence::new(1, 0)).await;
            assert!(matches!(older, Err(JournalError::Fenced { .. })), "{older:?}");
        });
    }
}
