//! What a queue says about its messages, and how that is changed.

use menagerie_testkit::eventually;
use serde_json::json;

use super::Fleet;

#[test]
fn handling_is_set_shown_and_changed() {
    let fleet = Fleet::new("handling");
    let user = &fleet.user;
    let create = ["queue", "create", "mail", "--partitions", "1"];
    let own = ["--order", "key", "--attempts", "3", "--backoff", "100ms", "--time-limit", "5m"];
    user.ok(&[&create[..], &own].concat());
    let handling = |of: &str| user.json(&["queue", "show", of])["handling"].clone();
    assert_eq!(
        handling("mail"),
        json!({ "order": "key", "attempts": 3, "backoff_ms": 100, "time_limit_ms": 300_000 })
    );
    let shown = user.ok(&["queue", "show", "mail"]);
    assert!(
        shown.contains("in the order of their key; a failed one blocks those behind it; attempts 3,"),
        "{shown}"
    );
    // What is not said is no conflict; what is said differently is one.
    user.ok(&create);
    user.ok(&[&create[..], &own].concat());
    user.fails(&[&create[..], &["--attempts", "4"]].concat(), 1, &["exists already", "queue alter mail"]);
    let altered = user.json(&["queue", "alter", "mail", "--attempts", "default", "--retry", "later"]);
    assert_eq!(altered["handling"]["retry"], "later");
    assert_eq!(
        handling("mail"),
        json!({ "order": "key", "retry": "later", "backoff_ms": 100, "time_limit_ms": 300_000 })
    );
    user.ok(&["queue", "put", "mail", "a", "b"]);
    let order = ["queue", "alter", "mail", "--order", "none"];
    user.fails(&order, 1, &["not handled yet (2)", "queue purge mail"]);
    user.ok(&["queue", "alter", "mail", "--order", "key", "--keep", "3d"]);
    user.ok(&["queue", "purge", "mail"]);
    let urgent = ["queue", "put", "mail", "x", "--priority", "-7"];
    user.fails(
        &urgent,
        2,
        &["the queue keeps its messages in order", "--order none", "leave --priority out"],
    );
    user.ok(&order);
    user.fails(&["queue", "put", "mail", "x", "--priority", "101"], 2, &["-100 to 100"]);
    user.ok(&urgent);
    user.ok(&["queue", "purge", "mail"]);
    user.fails(&["queue", "alter", "mail"], 2, &["nothing is said", "--partitions"]);
    for (flag, value) in
        [("--attempts", "0"), ("--order", "alphabet"), ("--time-limit", "0"), ("--retry", "never")]
    {
        user.fails(&["queue", "alter", "mail", flag, value], 2, &[flag]);
    }
    user.fails(
        &["worker", "mail", "--concurrency", "0", "--", "true"],
        2,
        &["at least one message at a time"],
    );
}

#[test]
fn partitions_are_added_and_never_taken_away() {
    let fleet = Fleet::with_queue("partitions", "mail", 2);
    let user = &fleet.user;
    let alter = |more: &[&str]| user.run(&[&["queue", "alter", "mail"], more].concat());
    let fewer = alter(&["--partitions", "1"]);
    assert_eq!(fewer.code, Some(1));
    assert!(
        fewer.stderr.contains("cannot be taken away") && fewer.stderr.contains("help:"),
        "{}",
        fewer.stderr
    );
    let more = alter(&["--partitions", "3"]);
    assert_eq!(more.code, Some(0), "{}", more.stderr);
    assert!(more.stderr.contains("most keys of queue mail go to another partition"), "{}", more.stderr);
    assert_eq!(fleet.show("mail")["partitions"].as_array().map(Vec::len), Some(3));
    assert_eq!(alter(&["--drain", "--keep", "3d"]).code, Some(2), "it means nothing without --partitions");

    user.ok(&["queue", "put", "mail", "1"]);
    let late = alter(&["--partitions", "4", "--drain", "--timeout", "1s"]);
    assert_eq!(late.code, Some(1));
    assert!(late.stderr.contains("1 unhandled message after 1s; nothing was changed"), "{}", late.stderr);
    let mut waiting = user.spawn(&["queue", "alter", "mail", "--partitions", "4", "--drain"]);
    let worker = fleet.worker("mail", &[]);
    let end = waiting.wait_for_end();
    assert_eq!(end.status.code(), Some(0), "{}", waiting.stderr());
    assert_eq!(fleet.handled().len(), 1, "it waited");
    eventually("the worker has the new one, too", || {
        let show = fleet.show("mail");
        let owned = show["partitions"].as_array()?.iter().filter(|at| !at["owner"].is_null()).count();
        (owned == 4).then_some(())
    });
    drop(worker);
}
