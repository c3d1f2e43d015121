//! Messages that are put periodically, by whichever process is elected.

use menagerie_testkit::eventually;
use serde_json::Value;

use super::Fleet;
use crate::cli::User;

/// The only schedule, as `schedule list` shows it.
fn schedule(user: &User) -> Value {
    user.json(&["queue", "schedule", "list"])[0].clone()
}

/// Seconds from when it was added to the last time that was put: as many as there must be messages.
fn times(schedule: &Value) -> Option<u64> {
    let put = schedule["last_put_ms"].as_u64()?;
    Some(put / 1000 - schedule["settings"]["added_ms"].as_u64().expect("it is a number") / 1000)
}

/// Waits until this many seconds more were put.
fn wait_for_more(fleet: &Fleet, more: u64) -> u64 {
    let before = times(&schedule(&fleet.user)).unwrap_or(0);
    eventually("times are put", || times(&schedule(&fleet.user)).filter(|now| *now >= before + more))
}

#[test]
fn each_time_is_put_once_though_the_elected_process_is_killed() {
    let mut fleet = Fleet::hasty("schedule-kill", "mail", 2, "2s");
    // Nobody handles mail, so everything that was put is still there.
    fleet.create("other", 1);
    let add = ["queue", "schedule", "add", "beat", "--queue", "mail", "--cron", "* * * * * *", "tick"];
    fleet.user.ok(&add);
    let mut elected = fleet.worker("other", &[]);
    wait_for_more(&fleet, 1);
    for _ in 0..2 {
        let next = fleet.worker("other", &[]);
        wait_for_more(&fleet, 1);
        elected.kill();
        elected = next;
        wait_for_more(&fleet, 3);
    }
    fleet.crash_journal();
    wait_for_more(&fleet, 2);
    // A server over HTTP does it as well.
    let server = fleet.user.spawn(&["queue", "serve", "--listen", "127.0.0.1:0"]);
    server.wait_until_listening("queue");
    elected.kill();
    wait_for_more(&fleet, 3);
    drop(server);
    let beat = schedule(&fleet.user);
    assert_eq!(fleet.show("mail")["messages"].as_u64(), times(&beat), "{beat}");
    assert_eq!(beat["missed"], 0, "{beat}");
}

#[test]
fn schedules_are_added_listed_run_and_removed() {
    let fleet = Fleet::with_queue("schedules", "mail", 2);
    let user = &fleet.user;
    assert!(user.ok(&["queue", "schedule", "list"]).contains("no schedules yet"));
    let add = |name: &str, cron: &str, more: &[&str]| {
        let usual = ["queue", "schedule", "add", name, "--queue", "mail", "--cron", cron];
        user.run(&[&usual, more].concat())
    };
    let added =
        add("nightly", "0 3 * * *", &["--tz", "Europe/Berlin", "--key", "a", "--ttl", "1h", "report"]);
    assert_eq!(added.code, Some(0), "{}", added.stderr);
    assert!(
        added.stderr.contains("schedule nightly is added; next: ") && added.stderr.contains("03:00:00 CE")
    );
    assert!(add("nightly", "0 4 * * *", &[]).stderr.contains("exists already, with other settings"));
    for (cron, more, code, why) in [
        ("0 0 30 2 *", &[][..], 2, "never fires"),
        ("61 * * * *", &[], 2, "is no cron line"),
        ("@daily", &["--tz", "Mars/Olympus"], 2, "no time zone"),
        ("@daily", &["--partition", "3"], 2, "mail-3 does not exist"),
        ("@daily", &["--queue", "nowhere"], 2, "cannot be used multiple times"),
    ] {
        let refused = add("bad", cron, more);
        assert_eq!((refused.code, refused.stderr.contains(why)), (Some(code), true), "{}", refused.stderr);
    }
    let nowhere = ["queue", "schedule", "add", "x", "--queue", "nowhere", "--cron", "@daily"];
    assert!(user.run(&nowhere).stderr.contains("there is no queue nowhere"));
    let listed = user.run(&["queue", "schedule", "list"]);
    assert!(
        listed.text().contains("0 3 * * *") && listed.stderr.contains("nobody puts them"),
        "{}",
        listed.text()
    );
    let nightly = schedule(user);
    assert_eq!((&nightly["last_put_ms"], &nightly["missed"]), (&Value::Null, &0.into()));
    assert_eq!(nightly["settings"]["body"]["text"], "report");
    user.ok(&["queue", "schedule", "run-now", "nightly"]);
    let peeked = user.ok(&["queue", "peek", "mail"]);
    assert!(peeked.contains("report"), "{peeked}");
    user.ok(&["queue", "schedule", "remove", "nightly"]);
    let gone = user.run(&["queue", "schedule", "run-now", "nightly"]);
    assert_eq!((gone.code, gone.stderr.contains("there is no schedule nightly")), (Some(2), true));
}
