//! Snapshots: taken when the log has grown by 64 MiB, while writes go on; what they cover leaves the log.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use menagerie_testkit::{DEADLINE, Incoming, Keeper, RawClient, eventually};

use crate::ask::{create, done, look, set};

/// Together the log of one round: well above the 64 MiB that call for a snapshot.
const ZNODES: u8 = 180;
const BYTES: usize = 500_000;

fn names(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).expect("the folder can be listed");
    entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect()
}

fn snapshots(data: &Path) -> BTreeSet<String> {
    let finished = |name: &String| name.strip_prefix("snapshot-").is_some_and(|rest| rest != "new");
    names(&data.join("keeper")).into_iter().filter(finished).collect()
}

/// Files of the log that hold records.
fn segments(log: &Path) -> BTreeSet<String> {
    names(log).into_iter().filter(|name| name.starts_with("log-")).collect()
}

fn path(at: u8) -> String {
    format!("/znode-{at}")
}

/// Sets every znode, a few at a time under way; its content tells the round.
fn write_round(client: &mut RawClient, round: u8) {
    for at in 0..ZNODES {
        client.send(&set(&path(at), &vec![at ^ round; BYTES]));
    }
    for _ in 0..ZNODES {
        let reply = client.reply(DEADLINE);
        assert!(matches!(&reply, Some(Incoming::Reply(reply)) if reply.header.err.0 == 0), "{reply:?}");
    }
}

#[track_caller]
fn assert_round(client: &mut RawClient, round: u8) {
    for at in 0..ZNODES {
        let (data, stat) = look(client, &path(at)).expect("the znode is there");
        assert_eq!(stat.version, i32::from(round), "of znode {at}");
        assert!(data.len() == BYTES && data.iter().all(|byte| *byte == at ^ round), "data of znode {at}");
    }
}

#[test]
fn snapshot_replaces_the_log_that_it_covers() {
    let mut server = Keeper::new().start();
    let mut client = RawClient::open(server.address());
    for at in 0..ZNODES {
        done(&mut client, &create(&path(at), b""));
    }
    let log = server.data().join("keeper/log");
    let first_log = segments(&log);
    assert!(!first_log.is_empty());
    write_round(&mut client, 1);
    eventually("a snapshot is taken", || snapshots(server.data()).pop_first());
    eventually("the segments that it covers leave the log", || {
        first_log.is_disjoint(&segments(&log)).then_some(())
    });
    write_round(&mut client, 2);
    server.kill();
    server.restart();
    assert_round(&mut RawClient::open(server.address()), 2);
}

#[test]
fn kill_while_a_snapshot_is_taken_loses_nothing() {
    let mut server = Keeper::new().start();
    let mut client = RawClient::open(server.address());
    for at in 0..ZNODES {
        done(&mut client, &create(&path(at), b""));
    }
    write_round(&mut client, 1);
    eventually("a snapshot is under way, or done already", || {
        names(&server.data().join("keeper")).iter().any(|name| name.starts_with("snapshot-")).then_some(())
    });
    server.kill();
    server.restart();
    assert!(!names(&server.data().join("keeper")).contains("snapshot-new"), "leftovers are removed");
    assert_round(&mut RawClient::open(server.address()), 1);
}

#[test]
fn writes_that_outrun_snapshots_lose_nothing() {
    const ROUNDS: u8 = 4;
    let mut server = Keeper::new().start();
    let mut client = RawClient::open(server.address());
    for at in 0..ZNODES {
        done(&mut client, &create(&path(at), b""));
    }
    // While one snapshot is written, the log grows by enough to call for the next.
    (1..=ROUNDS).for_each(|round| write_round(&mut client, round));
    server.kill();
    server.restart();
    assert_round(&mut RawClient::open(server.address()), ROUNDS);
}
