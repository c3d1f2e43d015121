//! A host that checks itself.

use menagerie_testkit::{Process, eventually};
use rustix::process::Signal;

use super::{holders, pool, user};
use crate::cli::User;

/// A check that takes longer than its interval counts as failed, so this interval is long.
fn watch(user: &User, holder: &str) -> Process {
    let check = "test -e well";
    user.spawn(&[
        "slots",
        "watch",
        "pool",
        "--holder",
        holder,
        "--host",
        holder,
        "--when",
        check,
        "--every",
        "3s",
        "--times",
        "2",
        "--on-acquire",
        "echo filed",
        "--",
        "sh",
        "-c",
        "echo ran $MENAGERIE_SLOT",
    ])
}

fn out_of_service(user: &User) -> usize {
    pool(user)["disarmed"].as_array().map_or(0, Vec::len)
}

#[test]
fn host_takes_itself_out_once_and_stays_out_until_it_is_rearmed() {
    let user = user("watch", 1);
    user.write("well", "");
    let mut dog = watch(&user, "a");
    user.write("other", "");
    assert_eq!(holders(&user), [""; 0]);
    std::fs::remove_file(user.folder().join("well")).expect("it can be removed");
    dog.wait_for_line("the ticket", |line| (line == "filed").then_some(()));
    dog.wait_for_line("the work", |line| (line == "ran 1").then_some(()));
    assert!(dog.stderr().contains("2 of 2 times"), "{}", dog.stderr());
    eventually("it is out of service", || (out_of_service(&user) == 1).then_some(()));
    eventually("and says so", || dog.stderr().contains("slots rearm pool a").then_some(()));
    eventually("its slot is free", || holders(&user).is_empty().then_some(()));

    // Also after a restart.
    assert_eq!(dog.stop().status.code(), Some(0));
    let mut dog = watch(&user, "a");
    eventually("it is still out", || dog.stderr().contains("slots rearm pool a").then_some(()));
    assert!(!dog.stderr().contains("has failed"), "it does not even look");
    user.ok(&["slots", "rearm", "pool", "a"]);
    dog.wait_for_line("the work again", |line| (line == "ran 1").then_some(()));
    dog.signal(Signal::INT);
    dog.wait_for_end();
}

#[test]
fn many_hosts_that_decide_at_once_stay_within_the_maximum() {
    let user = user("dogs", 2);
    let log = user.folder().join("log");
    let script = format!("echo + >> {0}; sleep 0.3; echo - >> {0}", log.display());
    let dogs: Vec<Process> = (0..6)
        .map(|number| {
            let name = format!("host-{number}");
            user.spawn(&[
                "slots", "watch", "pool", "--holder", &name, "--host", &name, "--when", "false", "--every",
                "1s", "--", "sh", "-c", &script,
            ])
        })
        .collect();
    eventually("all are out of service", || (out_of_service(&user) == dogs.len()).then_some(()));
    let text = std::fs::read_to_string(log).expect("they have written");
    let counts = text.lines().scan(0_i32, |running, line| {
        *running += if line == "+" { 1 } else { -1 };
        Some(*running)
    });
    let most = counts.max();
    assert!(most.is_some_and(|most| most <= 2), "{text}");
}

#[test]
fn command_that_fails_ends_the_watch_and_keeps_the_slot() {
    let user = user("dog-fails", 1);
    let args = [
        "slots", "watch", "pool", "--holder", "a", "--when", "false", "--every", "1s", "--", "sh", "-c",
        "exit 6",
    ];
    let mut dog = user.spawn(&args);
    assert_eq!(dog.wait_for_end().status.code(), Some(6));
    assert_eq!((holders(&user), out_of_service(&user)), (vec!["a".to_owned()], 0));
    user.fails(
        &["slots", "watch", "none", "--when", "x", "--every", "1s", "--", "true"],
        2,
        &["no pool none"],
    );
    user.fails(&["slots", "watch", "pool", "--when", "x", "--every", "0", "--", "true"], 2, &["too often"]);
}

#[test]
fn host_does_not_go_again_when_two_watch_it() {
    let user = user("two-dogs", 1);
    let (go, log) = (user.folder().join("go"), user.folder().join("log"));
    let script = format!("echo ran >> {}; until [ -e {} ]; do sleep 0.05; done", log.display(), go.display());
    let dogs = [(), ()].map(|()| {
        user.spawn(&[
            "slots", "watch", "pool", "--holder", "a", "--host", "a", "--when", "false", "--every", "1s",
            "--", "sh", "-c", &script,
        ])
    });
    let says = |words: &str| dogs.iter().any(|dog| dog.stderr().contains(words));
    eventually("one is in and the other waits for it", || {
        says("which this holder has: it is alive").then_some(())
    });
    std::fs::write(go, "").expect("a file can be written");
    eventually("the other finds it done", || says("another run of a has done it").then_some(()));
    assert_eq!(std::fs::read_to_string(log).expect("one has run"), "ran\n");
    eventually("the slot is free", || holders(&user).is_empty().then_some(()));
    assert_eq!(out_of_service(&user), 1);
}

#[test]
fn check_has_all_the_time_until_the_next_one() {
    let user = user("watch-time", 1);
    // The shortest interval that is allowed, too.
    let check = "sleep 0.3; echo well >> seen";
    let args = ["slots", "watch", "pool", "--when", check, "--every", "1s", "--times", "1000", "--", "true"];
    let _dog = user.spawn(&args);
    let seen = || std::fs::read_to_string(user.folder().join("seen")).ok();
    eventually("it is well, again and again", || (seen()?.lines().count() >= 2).then_some(()));
}

#[test]
fn check_that_takes_too_long_has_failed_and_says_so() {
    let user = user("watch-slow", 1);
    let dog =
        user.spawn(&["slots", "watch", "pool", "--when", "sleep 600", "--every", "1s", "--", "echo", "ran"]);
    dog.wait_for_line("the work", |line| (line == "ran").then_some(()));
    assert!(dog.stderr().contains("took longer than 1s"), "{}", dog.stderr());
}

#[test]
fn check_that_cannot_be_run_takes_nobody_out() {
    let user = user("watch-typo", 1);
    let check = "echo tried >> seen; no-such-check";
    let dog = user.spawn(&["slots", "watch", "pool", "--when", check, "--every", "5s", "--", "echo", "ran"]);
    let tried = || std::fs::read_to_string(user.folder().join("seen")).ok();
    eventually("it is tried again", || (tried()?.lines().count() >= 2).then_some(()));
    assert!(dog.stderr().contains("could not be run"), "{}", dog.stderr());
    assert_eq!(out_of_service(&user), 0);
}
