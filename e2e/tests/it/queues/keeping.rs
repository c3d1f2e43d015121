//! How long handled messages stay; and how a full journal gets room again.

use std::fs;
use std::io::Read as _;
use std::path::Path;

use menagerie_testkit::eventually;
use serde_json::{Value, json};

use super::{Fleet, journal};
use crate::cli::User;

/// Size of a message: a few of them fill the journal.
const SIZE: u64 = 400_000;

/// The ids of all messages of a queue, oldest first.
fn ids(user: &User, queue: &str) -> Vec<String> {
    let found = user.ok(&["queue", "tail", queue, "-n", "100", "-o", "json"]);
    let id = |line: &str| serde_json::from_str::<Value>(line).ok()?["id"].as_str().map(str::to_owned);
    found.lines().filter_map(id).collect()
}

#[test]
fn handled_messages_stay_as_long_as_is_said() {
    let fleet = Fleet::new("keep");
    let user = &fleet.user;
    user.ok(&["queue", "create", "mail", "--partitions", "1", "--keep", "1d"]);
    fleet.create("news", 1);
    let list = user.json(&["queue", "list"]);
    assert_eq!((&list[0]["keep_ms"], &list[1]["keep_ms"]), (&86_400_000.into(), &604_800_000.into()));
    // Idempotent, but not if it would have to change.
    fleet.create("mail", 1);
    user.ok(&["queue", "create", "mail", "--partitions", "1", "--keep", "24h"]);
    user.fails(
        &["queue", "create", "mail", "--partitions", "1", "--keep", "1h"],
        1,
        &["keeps handled messages for 1d", "menagerie queue alter mail --keep 1h"],
    );
    user.fails(&["queue", "alter", "mail", "--keep", "soon"], 2, &["7d, or forever"]);
    user.fails(&["queue", "alter", "male", "--keep", "1d"], 2, &["there is no queue male"]);
    let _worker = fleet.worker("mail", &[]);
    fleet.put("mail", 0..6);
    fleet.wait_until_drained("mail");
    let handled = ids(user, "mail");
    assert_eq!(handled.len(), 6);
    user.ok(&["queue", "get", "mail", &handled[0]]);
    let altered = user.json(&["queue", "alter", "mail", "--keep", "forever"]);
    let handling = json!({"order": "partition"});
    assert_eq!(
        altered,
        json!({"queue": "mail", "partitions": 1, "keep_ms": "forever", "handling": handling})
    );
    assert_eq!(fleet.show("mail")["keep_ms"], "forever");
    assert!(user.ok(&["queue", "show", "mail"]).contains("handled messages are kept forever"));
    let told = user.run(&["queue", "alter", "mail", "--keep", "0s"]).stderr;
    assert!(told.contains("keeps handled messages for 0s"), "{told}");
    eventually("they are gone", || (fleet.show("mail")["messages"] == 0).then_some(()));
    user.fails(&["queue", "get", "mail", &handled[0]], 1, &["there is no message"]);
}

#[test]
fn a_full_journal_has_room_again_when_what_was_handled_is_purged() {
    let user = User::new("queues-keep-full");
    let journal = journal(&user, &["--quota", "2000000"]);
    let fleet = Fleet::with_journal(user, journal);
    let user = &fleet.user;
    fleet.create("mail", 1);
    fs::write(user.folder().join("noise"), noise(SIZE)).expect("a file can be written");
    let put = || user.run(&["queue", "put", "mail", "--file", "noise", "--whole"]);
    let refused = eventually("it is full", || Some(put()).filter(|done| done.code != Some(0)));
    for words in ["quota", "menagerie queue purge NAME --handled", "menagerie queue alter NAME --keep"] {
        assert!(refused.stderr.contains(words), "{}", refused.stderr);
    }
    let waiting = fleet.lag("mail");
    let purged = user.json(&["queue", "purge", "mail", "--handled"]);
    assert_eq!(purged, json!({"queue": "mail", "forgotten": 0, "partitions": 0, "bytes": 0}));
    assert_eq!(fleet.lag("mail"), waiting, "what waits stays");
    let segments = user.folder().join("data/journal/segments");
    let full = eventually("a checkpoint has come", || {
        Some(size(&segments)).filter(|bytes| *bytes > waiting / 2 * SIZE)
    });
    let mut worker = fleet.starting("mail", &[], &["sh", "-c", "cat > /dev/null"]);
    fleet.wait_until_drained("mail");
    worker.kill();
    let purged = user.json(&["queue", "purge", "mail", "--handled"]);
    assert_eq!((&purged["forgotten"], &purged["partitions"]), (&waiting.into(), &1.into()));
    assert!(purged["bytes"].as_u64().expect("a number") >= waiting * SIZE, "{purged}");
    eventually("there is room", || (put().code == Some(0)).then_some(()));
    eventually("the files are gone", || (size(&segments) < full / 2).then_some(()));
}

/// Bytes of the files in a folder.
fn size(folder: &Path) -> u64 {
    let below = fs::read_dir(folder).into_iter().flatten().flatten();
    let bytes = |entry: fs::DirEntry| match entry.path() {
        folder if folder.is_dir() => size(&folder),
        _ => entry.metadata().map_or(0, |file| file.len()),
    };
    below.map(bytes).sum()
}

/// Incompressible bytes.
fn noise(bytes: u64) -> Vec<u8> {
    let mut noise = Vec::new();
    let random = fs::File::open("/dev/urandom").expect("it is there");
    random.take(bytes).read_to_end(&mut noise).expect("it can be read");
    noise
}
