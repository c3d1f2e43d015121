//! A worker whose journal has a full disk: what needs no room goes on, what needs some waits, nothing is lost.

use std::fs;
use std::path::{Path, PathBuf};

use menagerie_testkit::{Daemon, eventually, eventually_within};
use rustix::process::Signal;

use super::{Fleet, LONG, assert_all, assert_once, assert_order, ready};
use crate::cli::User;
use crate::journal::full::{SMALL, noise, unshare};

/// One message fails for good, so that something must be recorded about it; the others are handled as usual.
const TASK: &str = r#"read -r body; [ "$body" != 99 ] || exit 65; echo "$body" | sh work.sh"#;

/// A journal on a disk of its own, and the path to see it.
fn fleet() -> (Fleet, PathBuf) {
    let user = User::new("queues-full-disk");
    let data = user.folder().join("data");
    fs::create_dir_all(data.join("journal")).expect("a folder can be made");
    let path = data.to_str().expect("its name is text");
    let line = ["unshare", unshare(), "sh", "-c", SMALL, path, "160m"];
    let journal = ["--log-level", "warn", "journal", "--listen", "127.0.0.1:0", "--reserve", "0"];
    let journal = Daemon::start("journal", user.command_under(&line, &journal));
    let within = data.strip_prefix("/").expect("a full path");
    let seen = Path::new("/proc").join(journal.id().to_string()).join("root").join(within);
    (Fleet::with_journal(user, journal), seen)
}

/// Puts incompressible messages, smaller and smaller, until there is room for nothing.
fn fill(user: &User) {
    let noise: Vec<u8> = (1..=32).flat_map(noise).collect();
    for size in [noise.len(), 64 << 10, 4 << 10, 256] {
        fs::write(user.folder().join("noise"), &noise[..size]).expect("a file can be written");
        eventually_within(LONG, "the disk is full", || {
            let done = user.run(&["queue", "put", "ballast", "--file", "noise", "--whole"]);
            (done.code != Some(0)).then(|| assert!(done.stderr.contains("disk is full"), "{}", done.stderr))
        });
    }
}

#[test]
fn what_needs_no_room_goes_on_and_the_rest_waits() {
    let (fleet, seen) = fleet();
    let user = &fleet.user;
    fleet.create("mail", 2);
    fleet.create("ballast", 1);
    let mut worker = fleet.starting("mail", &[], &["sh", "-c", TASK]);
    ready(&worker);
    eventually("it has both partitions", || (fleet.show("mail")["state"] == "open").then_some(()));
    user.ok(&["queue", "pause", "mail"]);
    fleet.put("mail", 0..20);
    user.ok(&["queue", "put", "mail", "99", "--partition", "1"]);
    fill(user);
    user.ok(&["queue", "resume", "mail"]);
    eventually("all but one are handled", || (fleet.handled().len() >= 20).then_some(()));
    assert!(worker.try_wait().is_none(), "it goes on");
    // It leaves, and does not count the last message as recorded.
    worker.signal(Signal::INT);
    assert_eq!(worker.wait_for_end().status.code(), Some(0));
    let _worker = fleet.starting("mail", &[], &["sh", "-c", TASK]);
    fs::remove_file(seen.join("filler")).expect("it is there");
    fleet.wait_until_drained("mail");
    let failed = user.json(&["queue", "failed", "mail"]);
    assert_eq!(failed.as_array().map(Vec::len), Some(1), "{failed}");
    assert_eq!(failed[0]["body"], "99");
    let handled = fleet.handled();
    assert_all(&handled, 0..20);
    assert_order(&handled);
    assert_once(&handled);
}
