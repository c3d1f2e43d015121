//! Operators' commands on a pool.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use menagerie_testkit::eventually;
use serde_json::Value;

use super::{holders, names, pool, queue, start, user, wait_for_waiter, waiters};

#[test]
fn pool_is_made_once_and_everybody_obeys_what_is_stored() {
    let user = user("made", 2);
    user.ok(&["slots", "create", "pool", "--max", "2"]);
    user.fails(&["slots", "create", "pool", "--max", "3"], 1, &["a maximum of 2, not 3", "set-max"]);
    let list = user.json(&["slots", "list"]);
    assert_eq!((&list[0]["pool"], &list[0]["max"]), (&"pool".into(), &2.into()));
    let table = user.ok(&["slots", "list"]);
    assert!(table.starts_with("POOL  USED  MAX  WAITING  OLDEST  BY  STATE\npool  0     2 "), "{table}");
}

#[test]
fn lowered_maximum_evicts_nobody_and_admits_nobody_until_the_count_is_below() {
    let user = user("lowered", 3);
    for holder in ["a", "b", "c"] {
        user.ok(&["slots", "acquire", "pool", "--holder", holder]);
    }
    user.ok(&["slots", "set-max", "pool", "1"]);
    assert_eq!(holders(&user), ["a", "b", "c"]);
    let mut waiter = queue(&user, "d", &[], "echo in");
    wait_for_waiter(&user, "d");
    for (released, left) in [("b", 2), ("a", 1)] {
        user.ok(&["slots", "release", "pool", released]);
        user.fails(&["slots", "acquire", "pool", "--holder", "e", "--wait", "0"], 75, &[]);
        assert_eq!((holders(&user).len(), waiters(&user).len()), (left, 1));
    }
    user.ok(&["slots", "release", "pool", "c"]);
    waiter.wait_for_line("that it is in", |line| (line == "in").then_some(()));
    assert_eq!(waiter.wait_for_end().status.code(), Some(0));
}

#[test]
fn of_two_who_change_the_maximum_one_gets_a_conflict() {
    let user = user("conflict", 2);
    user.ok(&["slots", "set-max", "pool", "5", "--from", "2"]);
    let late = ["slots", "set-max", "pool", "1", "--from", "2"];
    user.fails(&late, 1, &["has a maximum of 5, not 2", "somebody else", "decide again"]);
    assert_eq!(pool(&user)["max"], 5);
}

#[test]
fn emergency_stop_lets_nobody_in_and_tells_who_runs() {
    let user = user("freeze", 1);
    user.ok(&["slots", "freeze", "--all", "--reason", "storm"]);
    user.fails(&["slots", "run", "pool", "--wait", "1s", "--", "true"], 75, &["frozen by"]);
    let shown = user.ok(&["slots", "show", "pool"]);
    assert!(shown.contains("frozen by") && shown.contains("(storm)"), "{shown}");
    user.ok(&["slots", "thaw", "pool"]);
    let script = "trap 'echo told; exit 9' TERM; echo $$; while :; do sleep 0.05; done";
    let (mut run, _) = start(&user, "a", &[], script);
    user.ok(&["slots", "freeze", "pool"]);
    assert_eq!(holders(&user), ["a"], "who is in goes on");
    user.ok(&["slots", "freeze", "pool", "--tell"]);
    run.wait_for_line("that it was told", |line| (line == "told").then_some(()));
    assert_eq!(run.wait_for_end().status.code(), Some(9));
    assert_eq!(holders(&user), ["a"], "it has failed, so it is still out");
    user.fails(&["slots", "freeze"], 2, &["--all"]);
    user.fails(&["slots", "freeze", "pool", "--all"], 2, &["cannot be used with"]);
}

#[test]
fn emergency_stop_does_not_end_at_a_pool_that_is_damaged() {
    let user = user("freeze-all", 1);
    user.ok(&["slots", "create", "a-first", "--max", "1"]);
    user.ok(&["zk", "set", "/menagerie/slots/a-first", "rubbish"]);
    user.fails(&["slots", "freeze", "--all"], 1, &["freeze pool a-first"]);
    assert!(pool(&user)["frozen"].is_object(), "the others are stopped");
    user.fails(&["slots", "thaw", "--all"], 1, &["thaw pool a-first"]);
    assert!(pool(&user)["frozen"].is_null());
}

#[test]
fn what_is_done_by_force_is_recorded() {
    let user = user("forced", 1).with("SUDO_USER", "alice");
    user.ok(&["slots", "acquire", "pool", "--holder", "a", "--reason", "disk"]);
    user.ok(&["slots", "release", "pool", "a", "--force"]);
    user.ok(&["slots", "set-max", "pool", "2"]);
    let history = user.json(&["slots", "history", "pool"]);
    let what: Vec<&str> =
        history.as_array().unwrap().iter().filter_map(|event| event["what"].as_str()).collect();
    assert_eq!(what, ["created", "acquired", "forced", "set_max"]);
    let forced = &history[2];
    assert_eq!((&forced["holder"], &forced["slot"]), (&"a".into(), &1.into()));
    assert!(forced["by"].as_str().unwrap().starts_with("alice@"), "{forced}");
    assert_eq!(history[1]["detail"], "disk");
    let times: Vec<i64> =
        history.as_array().unwrap().iter().filter_map(|event| event["at_ms"].as_i64()).collect();
    assert!(times.is_sorted() && times.len() == 4);
    assert!(user.ok(&["slots", "history", "pool"]).contains("forced"));
}

#[test]
fn slot_of_a_command_is_not_for_others_to_give_back() {
    let user = user("others", 1);
    let (_run, _) = start(&user, "a", &[], "echo $$; exec sleep 1000");
    user.fails(&["slots", "release", "pool", "a"], 1, &["by a command that it runs", "--force"]);
    user.fails(&["slots", "release", "pool", "a", "--ticket", "other"], 73, &["not held by this ticket"]);
    user.fails(&["slots", "delete", "pool"], 1, &["in use"]);
    assert_eq!(holders(&user), ["a"]);
}

#[test]
fn pool_that_nobody_uses_can_be_deleted() {
    let user = user("deleted", 1);
    user.ok(&["slots", "run", "pool", "--", "true"]);
    user.ok(&["slots", "delete", "pool"]);
    assert_eq!(user.json(&["slots", "list"]), Value::Array(Vec::new()));
    user.ok(&["slots", "create", "pool", "--max", "7"]);
    assert_eq!(pool(&user)["max"], 7);
}

#[test]
fn what_a_plain_script_wrote_counts() {
    let user = user("script", 2);
    user.ok(&["zk", "create", "/menagerie/slots/pool/lock1", "web-17"]);
    let shown = pool(&user);
    assert_eq!(
        (names(&shown["holders"]), &shown["holders"][0]["alive"]),
        (vec!["web-17".to_owned()], &Value::Null)
    );
    user.ok(&["slots", "acquire", "pool", "--holder", "b"]);
    user.fails(&["slots", "acquire", "pool", "--holder", "c", "--wait", "0"], 75, &[]);
    user.ok(&["slots", "release", "pool", "web-17", "--force"]);
    user.ok(&["slots", "acquire", "pool", "--holder", "c", "--wait", "0"]);
}

#[test]
fn show_can_be_watched() {
    let user = user("watched", 1);
    let watch = user.spawn(&["slots", "show", "pool", "--watch", "-o", "json"]);
    let used = |line: &str| serde_json::from_str::<Value>(line).ok()?["used"].as_u64();
    watch.wait_for_line("the pool, empty", |line| (used(line) == Some(0)).then_some(()));
    user.ok(&["slots", "acquire", "pool"]);
    watch.wait_for_line("the pool, full", |line| (used(line) == Some(1)).then_some(()));
}

#[test]
fn who_waits_says_where_it_stands() {
    let user = user("standing", 1);
    user.ok(&["slots", "acquire", "pool", "--holder", "host7"]);
    let first = queue(&user, "b", &[], "true");
    wait_for_waiter(&user, "b");
    let second = queue(&user, "c", &["--priority", "0"], "true");
    wait_for_waiter(&user, "c");
    let third = queue(&user, "d", &["--priority", "5"], "true");
    wait_for_waiter(&user, "d");
    assert_eq!(waiters(&user), ["d", "b", "c"]);
    eventually("they say it", || {
        let said = |process: &menagerie_testkit::Process, words: &str| process.stderr().contains(words);
        (said(&first, "first in the queue; held by host7")
            && said(&second, "1 ahead")
            && said(&third, "first in"))
        .then_some(())
    });
}

#[test]
fn watching_ends_with_whoever_reads_it() {
    let user = user("unread", 1);
    let mut watch = user.command(&["slots", "show", "pool", "--watch"]);
    let mut watch = watch.stdout(Stdio::piped()).spawn().expect("it can be started");
    let mut line = String::new();
    let mut out = BufReader::new(watch.stdout.take().expect("it has a stdout"));
    out.read_line(&mut line).expect("it shows the pool");
    drop(out);
    // Nothing changes in the pool, so nothing is written.
    eventually("it ends", || watch.try_wait().expect("it can be waited for"));
}

#[test]
fn host_gives_back_by_the_name_it_took_by() {
    let user = user("called", 1).with("MENAGERIE_HOST", "web-17");
    user.ok(&["slots", "acquire", "pool"]);
    assert_eq!(holders(&user), ["web-17"]);
    user.ok(&["slots", "release", "pool"]);
    assert_eq!(holders(&user), [""; 0]);
    assert!(user.run(&["slots", "rearm", "pool"]).stderr.contains("web-17 was armed"));
}
