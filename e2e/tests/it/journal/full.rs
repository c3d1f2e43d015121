//! A full disk: commits are refused, readers go on, and commits resume when there is room.

use std::fs;

use menagerie_journal::{
    Append, Client, Commit, Consumer, Fence, Journal, JournalError, MessageId, Move, NewMessage, Read,
    TopicConfig,
};
use menagerie_testkit::eventually;
use rustix::process::{Pid, Signal, kill_process};

use super::{Served, runtime, spot, topic};

/// Mounts a small file system, visible only to this process, over the data folder, puts a removable file there, and
/// execs the journal. Removing the file makes room for a checkpoint, and for little else: the log must not take it.
pub const SMALL: &str = "mount -t tmpfs -o size=$1,mode=700 none \"$0\" && head -c 60M /dev/zero > \"$0/filler\" && shift && exec \"$@\"";

/// The same, and when the journal has ended, makes room and starts another one.
const TWICE: &str = "mount -t tmpfs -o size=$1,mode=700 none \"$0\" && head -c 60M /dev/zero > \"$0/filler\" && shift && { \"$@\"; rm \"$0/filler\"; exec \"$@\"; }";

/// The options of `unshare`: without privileges it needs a user namespace, too.
pub fn unshare() -> &'static str {
    if rustix::process::geteuid().is_root() { "-m" } else { "-rm" }
}

fn start(script: &str, size: &str, args: &[&str]) -> Served {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().to_str().expect("its name is text").to_owned();
    Served::start_in(folder, &["unshare", unshare(), "sh", "-c", script, &path, size], args)
}

/// Incompressible bytes.
pub fn noise(number: u64) -> Vec<u8> {
    let mut state = number.wrapping_mul(0x2545_f491_4f6c_dd1d) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    (0..16 << 10).flat_map(|_| next().to_le_bytes()).collect()
}

pub async fn append(client: &Client, number: u64) -> Result<MessageId, JournalError> {
    let message = NewMessage::new(noise(number));
    let commit = Commit { appends: vec![Append { partition: spot(1), message }], ..Commit::default() };
    Ok(client.commit(commit).await?.appends[0].id().expect("it is there"))
}

/// Appends until refused, and records what was acknowledged.
pub async fn append_all(client: &Client, ids: &mut Vec<MessageId>) -> JournalError {
    loop {
        match append(client, ids.len() as u64).await {
            Ok(id) => ids.push(id),
            Err(error) => return error,
        }
        assert!(ids.len() < 10_000, "there is always room");
    }
}

/// Appends until the disk is full.
async fn fill(client: &Client, ids: &mut Vec<MessageId>) {
    let error = append_all(client, ids).await;
    assert_eq!(error, JournalError::DiskFull);
    assert!(error.help().contains("free space"), "{}", error.help());
}

pub async fn assert_all_there(client: &Client, ids: &[MessageId]) {
    let (mut after, mut found) = (MessageId::ZERO, Vec::new());
    loop {
        let batch = client.read(Read::after(spot(1), after).limit(16)).await.expect("reading goes on");
        let Some(last) = batch.messages.last() else { break };
        after = last.id;
        for message in &batch.messages {
            assert_eq!(message.body, noise(found.len() as u64), "message {}", found.len());
            found.push(message.id);
        }
    }
    assert_eq!(found, ids, "each that was acknowledged, and no other");
}

#[test]
fn a_full_disk_refuses_appends_and_resumes_when_there_is_room() {
    let mut served = start(SMALL, "160m", &["--reserve", "0"]);
    let client = served.client();
    let runtime = runtime();
    runtime.block_on(client.create_topic(&topic(), TopicConfig::default())).expect("a topic");
    let mut ids = Vec::new();
    runtime.block_on(fill(&client, &mut ids));
    assert!(!ids.is_empty(), "there was room at first");
    runtime.block_on(assert_all_there(&client, &ids));
    // A flush that found no room has given back what it took, so a little more may fit.
    runtime.block_on(fill(&client, &mut ids));
    assert!(served.process.try_wait().is_none(), "it goes on");
    fs::remove_file(served.seen().join("filler")).expect("it is there");
    let id = eventually("room", || runtime.block_on(append(&client, ids.len() as u64)).ok());
    ids.push(id);
    runtime.block_on(assert_all_there(&client, &ids));
}

/// Messages in memory must move to segments before anything else can be written: the log, which is written first,
/// must leave room for that.
#[test]
fn a_journal_killed_on_a_full_disk_goes_on_when_there_is_room() {
    let served = start(TWICE, "160m", &["--reserve", "0"]);
    let client = served.client();
    let runtime = runtime();
    let (consumer, fence) = (Consumer::new("worker").expect("a name"), Fence::new(1, 1));
    runtime.block_on(client.create_topic(&topic(), TopicConfig::default())).expect("a topic");
    runtime.block_on(client.open(&spot(1), &consumer, fence)).expect("it is not an append");
    let mut ids = Vec::new();
    runtime.block_on(fill(&client, &mut ids));
    let lock = fs::read_to_string(served.seen().join("journal/lock")).expect("it is there");
    let journal = lock.trim().parse().ok().and_then(Pid::from_raw).expect("who has locked the folder");
    kill_process(journal, Signal::KILL).expect("it runs");
    let position = *ids.last().expect("there was room at first");
    eventually("it is back", || {
        let (partition, consumer) = (spot(1), consumer.clone());
        let commit = Commit {
            moves: vec![Move { partition, consumer, fence, from: None, position }],
            ..Commit::default()
        };
        runtime.block_on(client.commit(commit)).ok()
    });
    for _ in 0..100 {
        ids.push(eventually("room", || runtime.block_on(append(&client, ids.len() as u64)).ok()));
    }
    runtime.block_on(assert_all_there(&client, &ids));
}

#[test]
fn before_the_disk_is_full_there_is_room_left_to_make_room() {
    let mut served = start(SMALL, "400m", &[]);
    let client = served.client();
    let runtime = runtime();
    runtime.block_on(client.create_topic(&topic(), TopicConfig::default())).expect("a topic");
    let mut ids = Vec::new();
    runtime.block_on(fill(&client, &mut ids));
    runtime.block_on(assert_all_there(&client, &ids));
    let last = *ids.last().expect("there was room at first");
    runtime.block_on(async {
        let consumer = Consumer::new("worker").expect("a name");
        client.open(&spot(1), &consumer, Fence::new(1, 1)).await.expect("it is not an append");
        client.trim(&spot(1), last).await.expect("it makes room");
    });
    let id = eventually("what was trimmed to go", || runtime.block_on(append(&client, 0)).ok());
    runtime.block_on(assert_all_there(&client, &[id]));
    assert!(served.process.try_wait().is_none(), "it goes on");
}
