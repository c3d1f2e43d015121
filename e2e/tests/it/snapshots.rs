//! Snapshots: taken when the log has grown by 64 MiB, while writes go on; what they cover leaves the log.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use menagerie_testkit::{DEADLINE, Incoming, Keeper, RawClient, eventually};

use crate::ask::{create, done, read_znode, set};

/// The log of one round: well above the 64 MiB that trigger a snapshot.
const ZNODES: u8 = 180;
const BYTES: usize = 500_000;
/// Enough for many snapshots.
const ROUNDS_MAX: usize = 50;

fn names(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).expect("the folder can be listed");
    entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect()
}

fn snapshots(data: &Path) -> BTreeSet<String> {
    names(&data.join("keeper")).into_iter().filter(|name| name.starts_with("snapshot-")).collect()
}

/// Log files that hold records.
fn segments(log: &Path) -> BTreeSet<String> {
    names(log).into_iter().filter(|name| name.starts_with("log-")).collect()
}

fn path(at: u8) -> String {
    format!("/znode-{at}")
}

/// Sets every znode, a few in flight; the content is the round.
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
        let (data, stat) = read_znode(client, &path(at)).expect("the znode is there");
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

/// Sets the znodes one after the other until the server is gone, and counts what it acknowledged.
fn write_until_gone(client: &mut RawClient, acknowledged: &AtomicUsize) {
    for write in 0..usize::from(ZNODES) * ROUNDS_MAX {
        let at = (write % usize::from(ZNODES)) as u8;
        let round = (write / usize::from(ZNODES) + 1) as u8;
        client.send(&set(&path(at), &vec![at ^ round; BYTES]));
        match client.reply(DEADLINE) {
            Some(Incoming::Reply(reply)) => assert_eq!(reply.header.err.0, 0),
            _ => return,
        }
        acknowledged.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn kill_while_a_snapshot_is_taken_loses_nothing_and_leaves_nothing() {
    let mut server = Keeper::new().start();
    let mut client = RawClient::open(server.address());
    for at in 0..ZNODES {
        done(&mut client, &create(&path(at), b""));
    }
    let in_the_making = server.data().join("keeper/snapshot.new");
    let acknowledged = AtomicUsize::new(0);
    thread::scope(|scope| {
        scope.spawn(|| write_until_gone(&mut client, &acknowledged));
        eventually("a snapshot is under way", || {
            if !in_the_making.exists() {
                return None;
            }
            // Paused, it cannot finish the snapshot any more: either it was too late, or it is within one.
            server.pause();
            let within = in_the_making.exists();
            if !within {
                server.resume();
            }
            within.then_some(())
        });
        server.kill();
    });
    assert!(in_the_making.exists(), "the kill fell within it");
    server.restart();
    assert!(!in_the_making.exists(), "leftovers are removed");
    let mut client = RawClient::open(server.address());
    let (rounds, more) = {
        let acknowledged = acknowledged.load(Ordering::SeqCst);
        (acknowledged / usize::from(ZNODES), acknowledged % usize::from(ZNODES))
    };
    for at in 0..ZNODES {
        let (data, stat) = read_znode(&mut client, &path(at)).expect("the znode is there");
        let least = rounds + usize::from(usize::from(at) < more);
        assert!(stat.version as usize >= least, "of znode {at}, round {least}: {}", stat.version);
        let content = at ^ stat.version as u8;
        assert!(stat.version == 0 || data.iter().all(|byte| *byte == content), "data of znode {at}");
    }
}

#[test]
fn writes_that_outrun_snapshots_lose_nothing() {
    const ROUNDS: u8 = 4;
    let mut server = Keeper::new().start();
    let mut client = RawClient::open(server.address());
    for at in 0..ZNODES {
        done(&mut client, &create(&path(at), b""));
    }
    // While one snapshot is written, the log grows by enough to trigger the next.
    (1..=ROUNDS).for_each(|round| write_round(&mut client, round));
    server.kill();
    server.restart();
    assert_round(&mut RawClient::open(server.address()), ROUNDS);
}
