//! Disk errors that only a tracer can inject.

use std::process::Command;

use menagerie_testkit::{Keeper, Server};

use crate::full::{assert_all_there, create_until_the_end};

/// A keeper in which one kind of system call begins to fail: `when` counts the calls of each thread.
fn failing(call: &str, error: &str, when: &str) -> Server {
    if let Err(error) = Command::new("strace").arg("-V").output() {
        panic!("cannot run strace: {error}; apt-get install strace, or leave out the feature `strace`");
    }
    let trace = format!("trace={call}");
    let inject = format!("inject={call}:error={error}:when={when}");
    // -D: strace runs beside the keeper instead of as its parent, so that the process that tests see is the keeper.
    let line = ["strace", "-D", "-f", "-qq", "-o", "/dev/null", "-e", &trace, "-e", &inject];
    Keeper::new().under(line).start()
}

fn assert_stops(mut server: Server, message: &str) {
    let acknowledged = create_until_the_end(&server);
    assert!(acknowledged > 5, "the disk worked at first");
    let end = server.wait_for_end();
    assert_eq!(end.status.code(), Some(74), "{}", end.stderr);
    for word in ["error: ", "because: ", message, "help: "] {
        assert!(end.stderr.contains(word), "{word:?} is missing in:\n{}", end.stderr);
    }
    assert_all_there(&server, acknowledged);
}

#[test]
fn failed_sync_ends_the_process_and_is_not_tried_again() {
    // Once only: a second sync would report success, and must not be believed.
    assert_stops(failing("fdatasync", "EIO", "20"), "Input/output error");
}

#[test]
fn failed_write_ends_the_process() {
    assert_stops(failing("pwrite64", "EIO", "20"), "Input/output error");
}

#[test]
fn full_disk_ends_the_process() {
    assert_stops(failing("pwrite64", "ENOSPC", "20+"), "No space left on device");
}
