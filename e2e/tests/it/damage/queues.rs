//! A queue with everything that can be in one.

use menagerie_testkit::{Process, eventually};
use menagerie_znodes::ZnodeSpec;

use super::{Damage, Matrix};
use crate::cli::User;
use crate::queues::ready;

const MATRIX: Matrix = Matrix {
    owners: &["components", "queues"],
    fleeting: &[],
    world,
    commands: &[
        &["queue", "list"],
        &["queue", "show", "mail"],
        &["queue", "workers"],
        &["queue", "peek", "mail"],
        &["queue", "tail", "mail"],
        &["queue", "put", "mail", "more"],
        &["queue", "failed", "mail"],
        &["queue", "retry", "mail", "--all"],
        &["queue", "forget", "mail", "--all"],
        &["queue", "delayed", "mail"],
        &["queue", "cancel", "mail", "--all"],
        &["queue", "purge", "mail", "--handled"],
        &["queue", "alter", "mail", "--keep", "3d"],
        &["queue", "create", "mail", "--partitions", "1", "--order", "none"],
        &["queue", "pause", "mail"],
        &["queue", "resume", "mail"],
        &["queue", "resume", "zoo"],
        &["queue", "key", "list"],
        &["queue", "key", "add", "app"],
        &["queue", "schedule", "list"],
        &["queue", "schedule", "run-now", "nightly"],
        &["queue", "schedule", "add", "weekly", "--queue", "mail", "--cron", "@weekly"],
        &["queue", "schedule", "remove", "weekly"],
        &["queue", "schedule", "remove", "nightly"],
        &["check", "lag", "mail"],
        &["check", "workers", "mail"],
        &["status"],
        &["worker", "mail", "--settle", "100ms", "--", "true"],
        &["queue", "serve", "--listen", "127.0.0.1:0"],
        &["queue", "delete", "zoo", "--force"],
        &["queue", "delete", "mail", "--force"],
    ],
    must_succeed: |command, _| command == ["status"],
    leaves_no_trace: |entry: &ZnodeSpec| {
        let folders = ["/application-keys", "/pause", "/queue-schedules", "/queue-schedules/<schedule>"];
        folders.contains(&entry.pattern)
    },
};

/// A queue with handled, failed and delayed messages, and its worker; a paused one; a key; a schedule.
fn world(user: &User) -> Vec<Process> {
    let journal = user.spawn(&["journal", "--log-level", "warn", "--listen", "127.0.0.1:0"]);
    journal.wait_until_listening("journal");
    // Without order, so that what is done beyond the cursor is stored, too.
    user.ok(&["queue", "create", "mail", "--partitions", "1", "--order", "none"]);
    user.ok(&["queue", "create", "zoo", "--partitions", "1"]);
    user.ok(&["queue", "key", "add", "app"]);
    user.ok(&["queue", "pause", "zoo", "--reason", "closed"]);
    user.ok(&["queue", "schedule", "add", "nightly", "--queue", "mail", "--cron", "@daily"]);
    user.ok(&["queue", "put", "mail", "good", "bad"]);
    user.ok(&["queue", "put", "mail", "later", "--delay", "1h"]);
    let task = ["sh", "-c", "read -r body; test \"$body\" != bad"];
    let worker = ["worker", "mail", "--settle", "100ms", "--attempts", "1", "--"];
    let worker = user.spawn(&[&worker[..], &task].concat());
    ready(&worker);
    eventually("both messages are handled", || {
        let mail = user.json(&["queue", "show", "mail"]);
        (mail["lag"] == 0 && mail["failed"] == 1).then_some(())
    });
    vec![journal, worker]
}

#[test]
fn queue_of_which_a_part_is_deleted_goes_on_or_says_why_not() {
    MATRIX.run(Damage::Deleted);
}

#[test]
fn queue_of_which_a_part_is_emptied_goes_on_or_says_why_not() {
    MATRIX.run(Damage::Emptied);
}

#[test]
fn queue_of_which_a_part_is_garbage_goes_on_or_says_why_not() {
    MATRIX.run(Damage::Garbage);
}
