//! Backup during writes, and restore into a new folder.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use menagerie_testkit::{Connect, End, Keeper, Process, RawClient, Refusal, Server, eventually};
use menagerie_wire::{MultiOp, OpCode, Request, Stat};
use tempfile::TempDir;

use crate::ask::{ANY, EPHEMERAL, PERSISTENT, children, create, create_as, creation, delete, done};
use crate::ask::{read_znode, resumption, set};
use crate::cli::User;
use crate::dice::{Dice, seed};

fn folder() -> TempDir {
    tempfile::tempdir().expect("a temporary directory can be made")
}

fn text(path: &Path) -> &str {
    path.to_str().expect("names of temporary files are text")
}

fn back_up(server: &Server, file: &Path) -> End {
    Process::menagerie(["keeper", "backup", text(file), "--data", text(server.data())]).wait_for_end()
}

fn restore(file: &Path, data: &Path) -> End {
    Process::menagerie(["keeper", "restore", text(file), "--data", text(data)]).wait_for_end()
}

/// A keeper on data restored from `file`.
fn restored(file: &Path) -> Server {
    let keeper = Keeper::new();
    let end = restore(file, keeper.data());
    assert!(end.status.success(), "{}", end.stderr);
    keeper.start()
}

/// Everything below `path` except the system's own, with metadata.
fn content(client: &mut RawClient, path: &str, into: &mut BTreeMap<String, (Vec<u8>, Stat)>) {
    let znode = read_znode(client, path).expect("nobody deletes it meanwhile");
    into.insert(path.to_owned(), znode);
    for name in children(client, path) {
        let below = format!("{}/{name}", path.trim_end_matches('/'));
        if below != "/zookeeper" {
            content(client, &below, into);
        }
    }
}

/// Writes rows, each a multi that sets two znodes to the same number and creates a third one with it.
fn write_rows(client: &mut RawClient, stop: &AtomicBool, rows: &AtomicUsize) {
    while !stop.load(Ordering::SeqCst) {
        let row = rows.load(Ordering::SeqCst).to_string();
        let (path, data) = (format!("/rows/{row}"), row.as_bytes());
        let set = |path| MultiOp::SetData { path, data: Some(data), version: ANY };
        let create = MultiOp::Create { op: OpCode::Create, create: creation(&path, data, PERSISTENT) };
        done(client, &Request::Multi(vec![set("/left"), create, set("/right")]));
        rows.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn backup_under_load_is_a_state_that_there_was() {
    let server = Keeper::new().start();
    let mut client = RawClient::open(server.address());
    // Enough that a backup takes many steps, with writes in between.
    for at in 0..60 {
        done(&mut client, &create(&format!("/filler-{at}"), &vec![7; 300_000]));
    }
    for path in ["/left", "/right", "/rows"] {
        done(&mut client, &create(path, b""));
    }
    let backups = folder();
    let (stop, rows) = (AtomicBool::new(false), AtomicUsize::new(0));
    let (stop, rows) = (&stop, &rows);
    let taken: Vec<_> = thread::scope(|scope| {
        let writer = scope.spawn(move || write_rows(&mut client, stop, rows));
        let taken = (0..3).map(|at| {
            let before = rows.load(Ordering::SeqCst);
            eventually("the writer is at work", || (rows.load(Ordering::SeqCst) > before).then_some(()));
            let file = backups.path().join(at.to_string());
            let at_least = rows.load(Ordering::SeqCst);
            let end = back_up(&server, &file);
            assert!(end.status.success(), "{}", end.stderr);
            (file, at_least)
        });
        let taken = taken.collect();
        stop.store(true, Ordering::SeqCst);
        writer.join().expect("the writer was not disturbed");
        taken
    });
    for (file, at_least) in taken {
        let server = restored(&file);
        let mut client = RawClient::open(server.address());
        let (left, _) = read_znode(&mut client, "/left").expect("it was there before the backup");
        let (right, _) = read_znode(&mut client, "/right").expect("it was there before the backup");
        assert_eq!(left, right, "half of a multi");
        let last: usize = String::from_utf8_lossy(&left).parse().expect("a number");
        assert!(
            last + 1 >= at_least,
            "row {at_least} was acknowledged before the backup, which ends with {last}"
        );
        let mut found = children(&mut client, "/rows");
        found.sort_by_key(|name| name.parse::<usize>().expect("a number"));
        let expected: Vec<String> = (0..=last).map(|row| row.to_string()).collect();
        assert_eq!(found, expected, "all rows up to the last, and none beyond");
    }
}

#[test]
fn restored_copy_is_equal_but_for_sessions_and_the_epoch_of_zxids() {
    let server = Keeper::new().start();
    let mut client = RawClient::open(server.address());
    for path in ["/a", "/a/b", "/a/b/c", "/gone", "/ephemerals"] {
        done(&mut client, &create(path, path.as_bytes()));
    }
    done(&mut client, &set("/a/b", b"changed"));
    done(&mut client, &delete("/gone"));
    done(&mut client, &create_as("/ephemerals/mine", b"", EPHEMERAL));
    let backups = folder();
    let file = backups.path().join("backup");
    let end = back_up(&server, &file);
    assert!(end.status.success(), "{}", end.stderr);
    assert!(end.stdout.concat().contains(text(&file)), "{:?}", end.stdout);
    let newest = client.ping();
    let mut before = BTreeMap::new();
    content(&mut client, "/a", &mut before);

    let copy = restored(&file);
    let gone = RawClient::connect(copy.address(), &resumption(client.session())).err();
    assert!(matches!(gone, Some(Refusal::Gone(_))), "sessions are ended: {gone:?}");
    // A client that has seen more than the backup holds may connect, too: the new epoch is above it.
    let ahead = Connect { last_zxid: newest + 1000, ..Connect::default() };
    let mut client = RawClient::connect(copy.address(), &ahead).expect("a new session");
    let mut after = BTreeMap::new();
    content(&mut client, "/a", &mut after);
    assert_eq!(after, before);
    assert_eq!(children(&mut client, "/ephemerals"), [""; 0], "ephemeral znodes end with their sessions");
    assert_eq!(read_znode(&mut client, "/gone"), None);
    let zxid = done(&mut client, &create("/new", b"")).header.zxid;
    assert!(zxid >> 32 > newest >> 32, "a new epoch: {zxid:#x} after {newest:#x}");
}

#[test]
fn generations_of_a_restored_keeper_are_above_all_that_there_were() {
    let generation = |user: &User| -> u64 {
        let text = user.ok(&["zk", "get", "/menagerie/generation"]);
        text.trim().parse().expect("it is a number")
    };
    let server = Keeper::new().start();
    let user = User::at(server.address().to_string());
    user.ok(&["slots", "create", "web", "--max", "2"]);
    // Another application's znode of the same name.
    user.ok(&["zk", "create", "-p", "/theirs/generation", "7"]);
    let backups = folder();
    let file = backups.path().join("backup");
    assert!(back_up(&server, &file).status.success());
    let first = generation(&user);
    user.ok(&["zk", "export", "namespace.jsonl"]);
    user.ok(&["zk", "import", "--replace", "namespace.jsonl"]);
    let second = generation(&user);
    assert!(second > first);
    drop(server);

    let server = restored(&file);
    let user = User::at(server.address().to_string());
    let third = generation(&user);
    assert!(third > second, "{first}, {second} after the import, {third} after the restore");
    assert_eq!(user.ok(&["zk", "get", "/theirs/generation"]).trim(), "7");
    assert!(user.ok(&["slots", "show", "web"]).contains("web"));
}

#[test]
fn restore_onto_data_is_refused_and_changes_nothing() {
    let mut server = Keeper::new().start();
    done(&mut RawClient::open(server.address()), &create("/old", b""));
    let backups = folder();
    let file = backups.path().join("backup");
    assert!(back_up(&server, &file).status.success());
    done(&mut RawClient::open(server.address()), &create("/newer", b""));
    let end = restore(&file, server.data());
    assert_eq!(end.status.code(), Some(74), "a running keeper's folder: {}", end.stderr);
    assert!(server.terminate().success());
    let end = restore(&file, server.data());
    assert_eq!(end.status.code(), Some(74), "{}", end.stderr);
    assert!(end.stderr.contains("holds keeper data already"), "{}", end.stderr);
    server.restart();
    assert!(read_znode(&mut RawClient::open(server.address()), "/newer").is_some());
}

#[test]
fn damaged_backup_is_refused_wherever_the_damage_is() {
    let server = Keeper::new().start();
    let mut client = RawClient::open(server.address());
    for path in ["/a", "/b", "/c"] {
        done(&mut client, &create(path, b"some data"));
    }
    let backups = folder();
    let file = backups.path().join("backup");
    assert!(back_up(&server, &file).status.success());
    let whole = fs::read(&file).expect("the backup is there");
    let mut dice = Dice::new(seed());
    let refused = |what: &str, bytes: &[u8]| {
        let (damaged, data) = (backups.path().join("damaged"), folder());
        fs::write(&damaged, bytes).expect("a file can be written");
        let end = restore(&damaged, data.path());
        assert_eq!(end.status.code(), Some(74), "{what}: {}", end.stderr);
        assert!(end.stderr.contains(text(&damaged)), "{what}: {}", end.stderr);
        assert!(!data.path().join("keeper").exists(), "{what}: nothing is left behind");
    };
    let length = whole.len() as u64;
    let some = |dice: &mut Dice| [0, 8, length / 2, length - 1, dice.below(length), dice.below(length)];
    for cut in some(&mut dice) {
        refused(&format!("cut to {cut} of {length} bytes"), &whole[..cut as usize]);
    }
    for at in (0..5).flat_map(|_| some(&mut dice)).collect::<Vec<_>>() {
        let mut bytes = whole.clone();
        let bit = dice.below(8);
        bytes[at as usize] ^= 1 << bit;
        refused(&format!("bit {bit} of byte {at} flipped"), &bytes);
    }
    refused("bytes behind the end", &[&whole[..], b"x"].concat());
}

#[test]
fn backup_without_a_keeper_says_so_and_leaves_the_old_one_alone() {
    let (data, backups) = (folder(), folder());
    let file = backups.path().join("backup");
    fs::write(&file, "of yesterday").expect("a file can be written");
    let end =
        Process::menagerie(["keeper", "backup", text(&file), "--data", text(data.path())]).wait_for_end();
    assert_eq!(end.status.code(), Some(69), "{}", end.stderr);
    assert_eq!(fs::read(&file).expect("it is still there"), b"of yesterday");
}
