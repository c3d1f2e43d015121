//! Operators' commands and their output.

use menagerie_testkit::{Process, eventually};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::Fleet;
use crate::cli::User;

#[test]
fn unknown_queue_is_an_error_with_a_tip() {
    let fleet = Fleet::new("unknown");
    let help = "menagerie queue create mail --partitions N";
    for verb in [
        &["put", "mail", "x"][..],
        &["show", "mail"],
        &["peek", "mail"],
        &["failed", "mail"],
        &["purge", "mail"],
    ] {
        fleet.user.fails(&[&["queue"], verb].concat(), 2, &["there is no queue mail", help]);
    }
    fleet.user.fails(&["queue", "put", "mail"], 2, &["nothing to put", "--file"]);
    fleet.user.fails(&["queue", "create", "mail", "--partitions", "0"], 2, &["1 to 200"]);
    fleet.user.fails(&["queue", "create", "a/b", "--partitions", "1"], 2, &["must not contain '/'"]);
    fleet.user.fails(&["queue", "create", "a.failed", "--partitions", "1"], 2, &["given up", "another name"]);
    fleet.user.fails(&["queue", "put", "mail", "x", "--ttl", "0s"], 2, &["--ttl", "never handled"]);
    fleet.user.fails(&["queue", "put", "mail", "x", "--jsonl"], 2, &["--jsonl", "cannot be used with"]);
    fleet.user.fails(&["queue", "put", "mail", "x", "--whole"], 2, &["--whole", "cannot be used with"]);
    fleet.user.fails(&["queue", "put", "mail", "x", "--dedup", ""], 2, &["1 to 251 bytes"]);
    fleet.user.fails(&["worker", "mail", "spam", "mail", "--", "true"], 2, &["queue mail is named twice"]);
    let nothing_to_do = &["nothing is said about what to do", "--python"];
    fleet.user.fails(&["worker", "mail", "--grace", "500ms"], 2, nothing_to_do);
    fleet.user.fails(&["worker", "mail", "--python", "tasks"], 2, &["MODULE:FUNCTION"]);
    let startup = ["worker", "mail", "--python", "tasks:handle", "--on-startup", "exit 3"];
    fleet.user.fails(&startup, 2, &["--on-startup", "MODULE:FUNCTION"]);
    fleet.user.fails(&["worker", "mail", "--batch", "2", "--", "true"], 2, &["--serve"]);
    for flag in ["--after-fork", "--interpreter"] {
        fleet.user.fails(&["worker", "mail", flag, "x:y", "--", "true"], 2, &[flag, "without --python"]);
    }
    fleet.user.fails(&["worker", "mail", "--", "no-such-program"], 127, &["cannot run no-such-program"]);
    fleet.user.fails(&["worker", "mail", "--", "/"], 126, &["cannot run /", "can be executed"]);
    fleet.user.fails(
        &["worker", "mail.failed", "--", "true"],
        2,
        &["mail.failed cannot be the name of a queue"],
    );
    fleet.user.fails(&["queue", "resume", "nosuch"], 2, &["there is no queue nosuch"]);
    fleet.user.fails(&["queue", "resume", "--worker", "nosuch"], 2, &["there is no worker nosuch"]);
    fleet.user.fails(&["worker", "mail", "--commit", "never", "--", "true"], 2, &["each"]);
    assert_eq!(fleet.user.ok(&["queue", "list"]).lines().count(), 1);
}

#[test]
fn without_a_journal_nothing_is_made() {
    let user = User::new("queues-homeless");
    user.fails(
        &["queue", "create", "mail", "--partitions", "1"],
        69,
        &["no journal is registered", "menagerie up"],
    );
}

#[test]
fn queue_is_made_once_and_deleted_only_on_purpose() {
    let fleet = Fleet::new("life");
    let user = &fleet.user;
    for created in [true, false] {
        let told = user.json(&["queue", "create", "mail-out-2", "--partitions", "3"]);
        let expected = json!({"queue": "mail-out-2", "partitions": 3, "journal": "main", "created": created});
        assert_eq!(told, expected);
    }
    user.fails(
        &["queue", "create", "mail-out-2", "--partitions", "4"],
        1,
        &["exists already, with 3 partitions"],
    );
    user.ok(&["queue", "put", "mail-out-2", "a", "b", "c", "d", "--partition", "2"]);
    let list = user.json(&["queue", "list"]);
    assert_eq!((&list[0]["queue"], &list[0]["lag"]), (&"mail-out-2".into(), &4.into()));
    let peeked = user.ok(&["queue", "peek", "mail-out-2", "-n", "2", "-o", "json"]);
    let peeked: Vec<Value> = peeked.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!([&peeked[0]["body"], &peeked[1]["body"]], ["a", "b"]);
    user.fails(&["queue", "delete", "mail-out-2"], 1, &["4 messages waiting", "--force"]);
    let first = peeked[0]["id"].as_str().unwrap();
    let skip = ["queue", "skip", "mail-out-2", "--through", first, "--partition"];
    user.fails(&[&skip[..], &["9"]].concat(), 2, &["partitions 1 to 3"]);
    user.fails(&[&skip[..], &["1"]].concat(), 1, &["there is no message", "mail-out-2-1"]);
    let ahead = ["queue", "skip", "mail-out-2", "--through", "4102444800.0", "--partition", "2"];
    user.fails(&ahead, 1, &["later than now"]);
    let skipped = user.json(&[&skip[..], &["2"]].concat());
    assert_eq!(
        skipped,
        json!({"partition": "mail-out-2-2", "through": first, "position": peeked[0]["position"]})
    );
    let purged = user.json(&["queue", "purge", "mail-out-2"]);
    assert_eq!(purged, json!({"queue": "mail-out-2", "forgotten": 3}));
    assert_eq!(fleet.lag("mail-out-2"), 0);
    let deleted = user.json(&["queue", "delete", "mail-out-2"]);
    assert_eq!(deleted, json!({"queue": "mail-out-2", "deleted": true}));
    user.fails(&["queue", "show", "mail-out-2"], 2, &["there is no queue"]);
}

#[test]
fn a_journal_that_is_away_hides_no_other_queue_and_its_own_can_be_deleted() {
    let fleet = Fleet::with_queue("away", "mail", 2);
    let user = &fleet.user;
    user.ok(&["queue", "put", "mail", "a"]);
    let folder = user.folder().join("other");
    let mut other = super::journal(user, &["--name", "other", "--data", folder.to_str().unwrap()]);
    user.ok(&["queue", "create", "bulk", "--partitions", "2", "--journal", "other"]);
    other.kill();
    let away = || user.run(&["queue", "list", "-o", "json"]);
    let done = eventually("it is noticed", || Some(away()).filter(|done| done.code == Some(69)));
    let list: Value = serde_json::from_str(&done.text()).unwrap();
    assert_eq!((&list[0]["queue"], &list[0]["lag"]), (&"bulk".into(), &Value::Null));
    assert_eq!((&list[0]["state"], &list[1]["lag"]), (&"journal away".into(), &1.into()));
    // Nothing of it is gone: it can be deleted when the journal is back, or without it.
    user.fails(&["queue", "delete", "bulk", "--force"], 69, &["bulk"]);
    let cursors = user.ok(&["zk", "ls", "/menagerie/queues"]);
    assert!(cursors.contains("bulk-1") && cursors.contains("bulk-2"), "{cursors}");
    user.ok(&["queue", "delete", "bulk", "--force", "--without-journal"]);
    assert_eq!(user.json(&["queue", "list"]).as_array().map(Vec::len), Some(1));
}

#[test]
fn lines_and_objects_are_put_as_they_say() {
    let fleet = Fleet::with_queue("put", "mail", 4);
    let user = &fleet.user;
    let objects = concat!(
        r#"{"body":"to three","partition":3}"#,
        "\n\n",
        r#"{"body":{"n":1},"key":"k"}"#,
        "\n",
        r#"{"body_base64":"/w==","partition":1,"dedup":"once"}"#,
        "\n",
        r#"{"body_base64":"/w==","partition":1,"dedup":"once"}"#,
        "\n",
        r#"{"body":"later","delay":"1h"}"#,
        "\n",
    );
    let done =
        user.run_with(&["queue", "put", "mail", "--file", "-", "--jsonl", "-o", "json"], objects.as_bytes());
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let put: Vec<Value> = done.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(put.len(), 5);
    assert_eq!((&put[3]["duplicate"], &put[4]["delayed"]), (&true.into(), &true.into()));
    assert_eq!((&put[0]["partition"], &put[2]["partition"]), (&"mail-3".into(), &"mail-1".into()));
    assert!(done.stderr.contains("4 messages (1 more were there already) put"), "{}", done.stderr);
    let third = user.ok(&["queue", "peek", "mail", "-p", "3"]);
    assert!(third.contains("to three"), "{third}");
    let first = user.ok(&["queue", "peek", "mail", "-p", "1", "-o", "json"]);
    assert_eq!(first.matches(r#""body_base64":"/w==""#).count(), 1, "{first}");
    let view = fleet.show("mail");
    assert_eq!((&view["lag"], &view["delayed"]), (&3.into(), &1.into()));
    assert!(user.ok(&["queue", "show", "mail"]).contains(", 1 delayed"));
    let done =
        user.run_with(&["queue", "put", "mail", "--file", "-", "--jsonl"], b"{\"body\":1}\nnonsense\n");
    assert_eq!(done.code, Some(2));
    assert!(done.stderr.contains("line 2 of - is no message"), "{}", done.stderr);
    assert!(done.stderr.contains("1 message put into queue mail before this"), "{}", done.stderr);
    assert_eq!(fleet.lag("mail"), 4);
    // The same for a valid line that cannot be put.
    for (refused, why) in
        [(r#"{"body":"x","partition":99}"#.to_owned(), "mail-99 does not exist"), (large(), "maximum")]
    {
        let before = fleet.lag("mail");
        let lines = format!("{{\"body\":1}}\n\n{{\"body\":2}}\n{refused}\n{{\"body\":3}}\n");
        let done = user.run_with(&["queue", "put", "mail", "--file", "-", "--jsonl"], lines.as_bytes());
        assert_ne!(done.code, Some(0));
        assert!(done.stderr.contains("cannot put line 4 of - into queue mail"), "{}", done.stderr);
        assert!(done.stderr.contains(why), "{}", done.stderr);
        assert!(done.stderr.contains("2 messages put into queue mail before this"), "{}", done.stderr);
        assert_eq!(fleet.lag("mail"), before + 2);
    }
    // Messages put at once may have the same position in different partitions, but not the same id.
    let both = b"{\"body\":\"one\",\"partition\":1}\n{\"body\":\"two\",\"partition\":2}\n";
    let done = user.run_with(&["queue", "put", "mail", "--file", "-", "--jsonl", "-o", "json"], both);
    let put: Vec<Value> = done.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_ne!(put[0]["id"], put[1]["id"]);
    assert_eq!(user.ok(&["queue", "get", "mail", put[1]["id"].as_str().unwrap()]), "two");
    assert_eq!(put[0]["position"], put[1]["position"]);
    let position = put[0]["position"].as_str().unwrap();
    user.fails(&["queue", "get", "mail", position], 1, &["mail-1, mail-2", "--partition"]);
    assert_eq!(user.ok(&["queue", "get", "mail", position, "-p", "2"]), "two");
    assert_eq!(user.ok(&["queue", "get", "mail", position, "-o", "json"]).lines().count(), 2);
    user.fails(&["queue", "get", "mail", "17"], 1, &["there is no message 17.0000000"]);
    user.fails(&["queue", "get", "mail", "order-17"], 2, &["UUID of version 1", "seconds"]);
    let long = "k".repeat(1025);
    user.fails(&["queue", "put", "mail", "x", "--key", &long], 2, &["at most 1024 bytes"]);
}

#[test]
fn one_queue_that_cannot_be_looked_at_hides_no_other() {
    let fleet = Fleet::with_queue("unreadable", "bad", 1);
    let user = &fleet.user;
    fleet.create("good", 1);
    fleet.put("good", 0..3);
    user.ok(&["zk", "set", "/menagerie/queues/bad-1", "soon"]);
    let done = user.run(&["queue", "list", "-o", "json"]);
    assert_eq!(done.code, Some(1), "{}", done.stderr);
    let list: Value = serde_json::from_str(&done.text()).unwrap();
    assert_eq!((&list[0]["state"], &list[1]["lag"]), (&"unreadable".into(), &3.into()), "{list}");
    assert!(list[0]["reason"].as_str().is_some_and(|why| why.contains("/queues/bad-1")), "{list}");
    // A wrong token.
    let token = user.write("wrong-token", "guessed\n");
    user.ok(&["zk", "set", "/menagerie/queues/bad-1", "0.0"]);
    let done = user.run(&["queue", "list", "--journal-token-file", &token]);
    assert_eq!(done.code, Some(1), "{}", done.stderr);
    assert_eq!(done.text().matches("refused by its journal").count(), 2, "{}", done.text());
}

#[test]
fn a_cursor_in_the_future_is_not_adopted_and_is_told_of() {
    let fleet = Fleet::new("future");
    let user = &fleet.user;
    user.ok(&["zk", "create", "-p", "/menagerie/queues/mail-2", "4102444800.0"]);
    let create = ["queue", "create", "mail", "--partitions", "2"];
    user.fails(&create, 1, &["the cursor of mail-2", "in the future", "menagerie zk rm"]);
    user.fails(&["queue", "show", "mail"], 2, &["there is no queue"]);
    user.ok(&["zk", "set", "/menagerie/queues/mail-2", "1.5"]);
    user.ok(&create);
    assert!(user.ok(&["check", "lag", "mail"]).contains("OK"));
    // Somebody writes the cursor by hand.
    user.ok(&["zk", "set", "/menagerie/queues/mail-2", "4102444800.0"]);
    user.ok(&["queue", "put", "mail", "-p", "2", "x"]);
    let done = user.run(&["check", "lag", "mail"]);
    assert_eq!(done.code, Some(2), "{}", done.text());
    assert!(done.text().contains("the cursor of mail-2 is"), "{}", done.text());
    assert!(user.ok(&["queue", "show", "mail"]).contains("ahead of the clock"));
}

/// A line with a message that is too large for a journal.
fn large() -> String {
    format!(r#"{{"body":"{}"}}"#, "x".repeat((16 << 20) + 1))
}

#[test]
fn a_duplicate_is_shown_where_the_first_one_is() {
    let fleet = Fleet::with_queue("duplicate", "mail", 4);
    let put = |body: &str| fleet.user.json(&["queue", "put", "mail", body, "--dedup", "once"]);
    let first = put("one");
    for body in ["one", "one", "another", "one", "one"] {
        let again = put(body);
        assert_eq!(again["duplicate"], true);
        assert_eq!((&again["id"], &again["partition"]), (&first["id"], &first["partition"]));
    }
}

#[test]
fn pauses_hold_queues_and_workers_and_move_nothing() {
    let fleet = Fleet::with_queue("pause", "mail", 2);
    let user = &fleet.user;
    let worker = fleet.starting("mail", &[], &["sh", "work.sh"]);
    let name = super::ready(&worker);
    let paused = user.json(&["queue", "pause", "--worker", &name, "--reason", "its disk is slow"]);
    assert_eq!((&paused["worker"], &paused["paused"]), (&json!(name), &json!(true)));
    // Until then it would start the next message.
    eventually("it says that it is paused", || {
        (user.json(&["queue", "workers"])[0]["paused"] == true).then_some(())
    });
    user.ok(&["queue", "pause", "mail", "--reason", "upgrade"]);
    fleet.put("mail", 0..4);
    assert!(user.ok(&["queue", "show", "mail"]).contains("upgrade"));
    user.ok(&["queue", "pause", "mail"]);
    assert!(user.ok(&["queue", "show", "mail"]).contains("upgrade"), "there is nothing new to say");
    user.ok(&["queue", "pause", "mail", "--reason", "rollback"]);
    assert!(user.ok(&["queue", "show", "mail"]).contains("rollback"));
    let resumed = user.json(&["queue", "resume", "mail"]);
    assert_eq!(resumed, json!({"queue": "mail", "resumed": true}));
    eventually("it has all partitions", || (fleet.show("mail")["state"] == "workers paused").then_some(()));
    let shown = user.ok(&["queue", "show", "mail"]);
    assert!(shown.contains(&format!("worker {name} is paused by ")), "{shown}");
    assert!(shown.contains(": its disk is slow; `menagerie queue resume"), "{shown}");
    assert!(shown.contains(&format!("{name} (paused)")), "{shown}");
    let checked = user.run(&["check", "workers", "mail"]);
    assert!(checked.code == Some(2) && checked.text().contains("1 paused"), "{}", checked.text());
    assert_eq!(fleet.lag("mail"), 4);
    user.ok(&["queue", "resume", "--worker", &name]);
    fleet.wait_until_drained("mail");
    super::assert_once(&fleet.handled());
}

#[test]
fn failed_messages_are_shown_and_come_back() {
    let fleet = Fleet::with_queue("failed", "mail", 1);
    let user = &fleet.user;
    let task =
        "read -r body; echo \"cannot send $body\" >&2; [ -e mended ] || exit 65; echo \"$body\" >> sent";
    let mut worker = fleet.starting("mail", &[], &["sh", "-c", task]);
    super::ready(&worker);
    user.ok(&["queue", "put", "mail", "a", "b"]);
    let failed = eventually("both have failed", || {
        let failed = user.json(&["queue", "failed", "mail"]);
        failed.as_array().filter(|all| all.len() == 2).cloned()
    });
    assert_eq!((&failed[0]["origin"], &failed[0]["attempts"]), (&"mail-1".into(), &1.into()));
    assert!(failed[0]["output"].as_str().unwrap().contains("cannot send a"), "{failed:?}");
    let table = user.ok(&["queue", "failed", "mail"]);
    assert!(table.contains("OUTPUT") && table.contains("cannot send b"), "{table}");
    let peeked = user.ok(&["queue", "peek", "mail.failed", "-o", "json"]);
    assert_eq!(peeked.lines().count(), 2, "{peeked}");
    let id = failed[0]["id"].as_str().unwrap();
    assert_eq!(user.ok(&["queue", "get", "mail.failed", id]), "a");
    let shown = fleet.show("mail.failed");
    assert_eq!((&shown["failed"], &shown["lag"]), (&2.into(), &0.into()));
    user.fails(&["queue", "put", "mail.failed", "x"], 2, &["`menagerie queue failed mail`"]);
    user.fails(&["queue", "retry", "mail"], 2, &["required"]);
    user.fails(&["queue", "retry", "mail", "12345"], 2, &["UUID of version 1"]);
    let unknown = "3f9c1b52-7a64-11f0-8d96-bb488460f550";
    user.fails(&["queue", "retry", "mail", unknown], 1, &["there is no message", "queue failed mail"]);
    user.write("mended", "");
    let retried = user.json(&["queue", "retry", "mail", failed[1]["id"].as_str().unwrap()]);
    assert_eq!(retried, json!({"queue": "mail", "retried": 1}));
    assert_eq!(fleet.wait_for_file("sent"), "b\n");
    let forgotten = user.json(&["queue", "forget", "mail", "--all"]);
    assert_eq!(forgotten, json!({"queue": "mail", "forgotten": 1}));
    assert_eq!(user.json(&["queue", "failed", "mail"]).as_array().map(Vec::len), Some(0));
    worker.signal(Signal::INT);
    assert_eq!(worker.wait_for_end().status.code(), Some(0));
}

#[test]
fn checks_tell_lag_and_workers() {
    let fleet = Fleet::with_queue("check", "mail", 2);
    let user = &fleet.user;
    fleet.put("mail", 0..3);
    let check = |args: &[&str]| {
        let done = user.run(&[&["check"], args].concat());
        (done.code, done.text())
    };
    let (code, text) = check(&["lag", "mail", "--waiting-critical", "2"]);
    assert!(code == Some(2) && text.starts_with("LAG CRITICAL - ") && text.contains("3 waiting"), "{text}");
    let (code, text) = check(&["lag", "--queue", "mail", "-w", "1h"]);
    assert!(code == Some(0) && text.contains("without a worker"), "{text}");
    let (code, text) = check(&["workers", "mail"]);
    assert!(code == Some(2) && text.contains("nobody serves queue mail"), "{text}");
    let _worker = fleet.worker("mail", &[]);
    fleet.wait_until_drained("mail");
    eventually("all is well", || {
        let (lag, workers) = (check(&["lag", "mail", "-c", "1h"]), check(&["workers", "mail"]));
        (lag.0 == Some(0) && workers.0 == Some(0)).then_some(())
    });
    let (code, text) = check(&["workers", "nothing"]);
    assert!(code == Some(3) && text.contains("UNKNOWN"), "{text}");
}

#[test]
fn large_messages_are_all_shown() {
    let fleet = Fleet::with_queue("large", "mail", 1);
    let user = &fleet.user;
    let file = user.write("large", &"x".repeat(5 << 20));
    for _ in 0..4 {
        user.ok(&["queue", "put", "mail", "--file", &file, "--whole"]);
    }
    for verb in ["peek", "tail"] {
        assert_eq!(user.ok(&["queue", verb, "mail"]).lines().count(), 4, "{verb}");
        assert_eq!(user.ok(&["queue", verb, "mail", "-n", "3"]).lines().count(), 3, "{verb}");
    }
}

#[test]
fn what_a_task_prints_does_not_look_like_our_log() {
    let fleet = Fleet::with_queue("forged", "mail", 1);
    let user = &fleet.user;
    let task = "printf 'no\\nWARN forged\\033[1m\\n'; exit 65";
    let mut worker = user.command(&["worker", "mail", "--settle", "200ms", "--", "sh", "-c", task]);
    let log = std::fs::File::create(user.folder().join("log")).unwrap();
    let mut worker = worker.stdout(std::process::Stdio::null()).stderr(log).spawn().unwrap();
    user.ok(&["queue", "put", "mail", "a"]);
    eventually("it is given up", || fleet.file("log").contains("message given up").then_some(()));
    worker.kill().unwrap();
    worker.wait().unwrap();
    let log = fleet.file("log");
    let given_up = log.lines().find(|line| line.contains("message given up")).unwrap();
    assert!(given_up.contains("forged") && !log.contains('\u{1b}'), "{log}");
    assert!(!log.lines().any(|line| line.starts_with("WARN forged")), "{log}");
}

#[test]
fn tail_follows_all_partitions() {
    let fleet = Fleet::with_queue("tail", "mail", 3);
    fleet.put("mail", 0..5);
    let tail = fleet.user.spawn(&["queue", "tail", "mail", "-f", "-n", "2"]);
    let number = |line: &str| line.rsplit_once("  ")?.1.parse::<u32>().ok();
    for _ in 0..2 {
        tail.wait_for_line("the newest", number);
    }
    fleet.put("mail", 100..103);
    let mut came: Vec<u32> = (0..3).map(|_| tail.wait_for_line("what came", number)).collect();
    // From three partitions, in any order.
    came.sort_unstable();
    assert_eq!(came, [100, 101, 102]);
}

#[test]
fn following_ends_with_whoever_reads_it() {
    let fleet = Fleet::with_queue("unread-tail", "mail", 1);
    fleet.user.ok(&["queue", "put", "mail", "a"]);
    // Nothing more arrives, so nothing more is written.
    let script = r#""$@" | head -1"#;
    let tail = ["queue", "tail", "mail", "-f"];
    let mut tail = Process::spawn(&mut fleet.user.command_under(&["sh", "-c", script, "sh"], &tail));
    tail.wait_for_line("what is there", |line| line.ends_with("  a").then_some(()));
    assert_eq!(tail.wait_for_end().status.code(), Some(0));
}
