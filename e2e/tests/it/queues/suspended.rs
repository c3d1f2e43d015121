//! A worker whose machine was suspended. When it wakes up, another may own its partitions.

use menagerie_testkit::{Machine, Process, eventually};

use super::{Fleet, ready};

/// Records its begin and its end, with the name of its worker; runs until the test creates a file.
const SLOW: &str =
    r#"echo "$0 begins" >> runs; until [ -e go ]; do sleep 0.05; done; echo "$0 ends" >> runs"#;

/// The same as a long-running program.
const FED: &str = r#"while read -r line; do
echo "$0 begins" >> runs; until [ -e go ]; do sleep 0.05; done; echo "$0 ends" >> runs
echo "$line" | sed 's/,.*/,"ok":true}/'; done"#;

/// Starts a worker on this machine, with these servers, and waits until its task runs.
fn at_work(fleet: &Fleet, machine: &Machine, servers: &str, task: &[&str]) -> Process {
    let usual = ["worker", "mail", "--settle", "300ms", "--grace", "1s"];
    let mut command = fleet.user.command(&[&usual, task, &["first"]].concat());
    command.env("MENAGERIE_ZOOKEEPER", servers);
    let worker = Process::spawn(machine.host(&mut command));
    ready(&worker);
    eventually("it is at work", || (fleet.file("runs") == "first begins\n").then_some(()));
    worker
}

#[test]
fn suspended_worker_begins_nothing_that_another_has_by_then() {
    sleeps("suspended", &["--", "sh", "-c", SLOW]);
}

#[test]
fn suspended_worker_feeds_its_program_nothing_that_another_has_by_then() {
    sleeps("suspended-fed", &["--serve", "--", "sh", "-c", FED]);
}

#[track_caller]
fn sleeps(name: &str, task: &[&str]) {
    let fleet = Fleet::hasty(name, "mail", 1, "4s");
    let (machine, (servers, proxy)) = (Machine::new(), fleet.user.servers_through_proxy());
    fleet.user.ok(&["queue", "put", "mail", "a"]);
    let first = at_work(&fleet, &machine, &servers, task);
    let suspended = machine.suspend(&first);
    // The network comes back later than the machine, so the server cannot tell the worker what has happened.
    proxy.partition();
    let _second = fleet.starting("mail", &[], &["sh", "-c", SLOW, "second"]);
    eventually("another has taken over", || fleet.file("runs").contains("second begins").then_some(()));
    suspended.resume();
    eventually("it knows that its time is over", || first.stderr().contains("lease is over").then_some(()));
    fleet.user.write("go", "");
    fleet.wait_until_drained("mail");
    assert_eq!(fleet.file("runs"), "first begins\nsecond begins\nsecond ends\n", "{}", first.stderr());
}
