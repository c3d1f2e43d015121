//! Limits of tasks, and what happens to tasks that exceed them.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;

use menagerie_testkit::{Ensemble, eventually, four_letter_word};

use super::{Fleet, ready};
use crate::cli::User;

fn one_failed(fleet: &Fleet) -> serde_json::Value {
    eventually("it is given up", || {
        let failed = fleet.user.json(&["queue", "failed", "mail"]);
        failed.as_array().filter(|all| all.len() == 1).map(|all| all[0].clone())
    })
}

#[test]
fn runner_that_prints_what_is_no_reply_costs_nothing_but_one_that_never_replies_fails_its_message() {
    let fleet = Fleet::with_queue("garbage", "mail", 1);
    fleet.user.ok(&["queue", "put", "mail", "bad", "good"]);
    let program = r#"while read -r line; do
  echo "a forgotten print"
  id=${line#*\"id\":\"}; id=${id%%\"*}
  case "$line" in *bad*) echo "Traceback: this is no reply";; *) echo "{\"id\":\"$id\",\"ok\":true}";; esac
done"#;
    fleet.user.write("fed.sh", program);
    let limits = ["--serve", "--attempts", "2", "--time-limit", "2s"];
    let _worker = fleet.starting("mail", &limits, &["sh", "fed.sh"]);
    fleet.wait_until_drained("mail");
    let failed = one_failed(&fleet);
    assert_eq!((&failed["body"], &failed["attempts"]), (&"bad".into(), &2.into()));
    assert!(failed["error"].as_str().is_some_and(|error| error.contains("flush its output?")), "{failed}");
    assert!(failed["output"].as_str().is_some_and(|output| output.contains("Traceback")), "{failed}");
}

#[test]
fn one_program_gets_the_messages_of_all_partitions_at_a_time_with_async() {
    let fleet = Fleet::with_queue("async", "mail", 4);
    for partition in 1..=4 {
        fleet.user.ok(&["queue", "put", "mail", "x", "--partition", &partition.to_string()]);
    }
    // It replies to nothing before it has all four, and to the last one first.
    let program = r#"
import json, sys
have = [json.loads(sys.stdin.readline()) for _ in range(4)]
for message in reversed(have):
    print(json.dumps({"id": message["id"], "ok": True}), flush=True)
sys.stdin.read()
"#;
    fleet.user.write("fed.py", program);
    let limits = ["--serve", "--async", "--concurrency", "4"];
    let _worker = fleet.starting("mail", &limits, &["python3", "fed.py"]);
    fleet.wait_until_drained("mail");
    fleet.user.fails(&["worker", "mail", "--async", "--", "true"], 2, &["--async", "--serve"]);
    let recorded_first = ["worker", "mail", "--serve", "--async", "--ack", "before", "--", "true"];
    fleet.user.fails(&recorded_first, 2, &["--ack before", "lost together with their program"]);
}

#[test]
fn time_limit_ends_a_task_and_all_that_it_started() {
    let fleet = Fleet::with_queue("time-limit", "mail", 1);
    fleet.user.ok(&["queue", "put", "mail", "x"]);
    let task = "sleep 600 & echo $! > child; wait";
    let _worker = fleet.starting("mail", &["--time-limit", "5s", "--attempts", "1"], &["sh", "-c", task]);
    let failed = one_failed(&fleet);
    assert!(failed["error"].as_str().is_some_and(|error| error.contains("time limit")), "{failed}");
    crate::slots::wait_until_gone(fleet.wait_for_file("child").trim().parse().expect("a number"));
}

#[test]
fn time_limit_of_the_queue_holds_unless_the_worker_has_one() {
    let fleet = Fleet::new("queue-limit");
    let user = &fleet.user;
    user.ok(&["queue", "create", "mail", "--partitions", "1", "--attempts", "1", "--time-limit", "1s"]);
    user.ok(&["queue", "put", "mail", "x"]);
    let task = ["sh", "-c", "sleep 3; echo done >> runs"];
    let mut worker = fleet.starting("mail", &[], &task);
    let failed = one_failed(&fleet);
    assert!(failed["error"].as_str().is_some_and(|error| error.contains("time limit of 1s")), "{failed}");
    assert_eq!(failed["attempts"], 1);
    worker.stop();
    user.ok(&["queue", "retry", "mail", "--all"]);
    let _worker = fleet.starting("mail", &["--time-limit", "60s"], &task);
    fleet.wait_until_drained("mail");
    assert_eq!(fleet.file("runs"), "done\n");
}

#[test]
fn help_of_a_worker_names_the_fields_of_both_lines() {
    let help = User::nowhere().ok(&["worker", "--help"]);
    for field in
        ["id", "queue", "partition", "attempt", "fence", "body", "body_base64", "ok", "error", "retry"]
    {
        assert!(help.contains(&format!("\"{field}\"")), "{field}: {help}");
    }
}

#[test]
fn task_that_takes_longer_than_a_session_is_left_alone() {
    let fleet = Fleet::hasty("long", "mail", 1, "4s");
    fleet.user.ok(&["queue", "put", "mail", "x"]);
    // With a grace as long as the session: it must not be stopped while the lease is renewed.
    let task = "echo begun >> runs; sleep 9; echo done >> runs";
    let _worker = fleet.starting("mail", &["--time-limit", "60s"], &["sh", "-c", task]);
    fleet.wait_until_drained("mail");
    assert_eq!(fleet.file("runs"), "begun\ndone\n");
}

#[test]
fn startup_command_runs_once_before_the_first_message_or_nothing_does() {
    let servers = Ensemble::Keeper.start_own();
    let fleet = Fleet::of(User::at(servers.connect_string()));
    fleet.create("mail", 1);
    fleet.put("mail", 0..3);
    let sessions = || {
        let told = four_letter_word(servers.addresses()[0], "mntr");
        told.lines().find_map(|line| line.strip_prefix("zk_global_sessions\t")?.parse::<u32>().ok())
    };
    let before = sessions();
    assert_eq!(before, Some(1), "the journal's own");
    let done = fleet.user.run(&["worker", "mail", "--on-startup", "exit 3", "--", "true"]);
    assert_eq!(done.code, Some(1), "{}", done.stderr);
    assert!(done.stderr.contains("--on-startup failed: it exited with code 3"), "{}", done.stderr);
    assert_eq!(fleet.lag("mail"), 3);
    assert_eq!(sessions(), before, "who could not start has taken leave");
    let _worker = fleet.worker("mail", &["--on-startup", "echo ready >> started"]);
    fleet.wait_until_drained("mail");
    assert_eq!(fleet.file("started"), "ready\n");
}

#[test]
fn worker_stops_at_a_failure_if_it_is_to() {
    let fleet = Fleet::with_queue("stop", "mail", 1);
    fleet.user.ok(&["queue", "put", "mail", "x", "y"]);
    let mut worker = fleet.starting("mail", &["--on-failure", "stop", "--attempts", "2"], &["false"]);
    let end = worker.wait_for_end();
    assert_eq!(end.status.code(), Some(1), "{}", end.stderr);
    assert!(end.stderr.contains("a message failed: it exited with code 1"), "{}", end.stderr);
    assert_eq!(fleet.lag("mail"), 2, "the message stays");
}

#[test]
fn program_that_vanishes_is_waited_for() {
    let fleet = Fleet::with_queue("missing", "mail", 1);
    let program = fleet.user.write("program", "#!/bin/sh\necho done >> done\n");
    std::fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
    let options = ["--attempts", "100000", "--backoff-max", "200ms"];
    let worker = fleet.starting("mail", &options, &[&program]);
    ready(&worker);
    let away = fleet.user.folder().join("away");
    std::fs::rename(&program, &away).unwrap();
    fleet.user.ok(&["queue", "put", "mail", "x"]);
    eventually("it was missed", || worker.stderr().contains("cannot run").then_some(()));
    assert_eq!(fleet.lag("mail"), 1);
    std::fs::rename(&away, &program).unwrap();
    fleet.wait_until_drained("mail");
    assert_eq!(fleet.wait_for_file("done"), "done\n");
}

#[test]
fn memory_limit_and_other_users_are_kept_to() {
    let fleet = Fleet::with_queue("limits", "mail", 1);
    fleet.user.ok(&["queue", "put", "mail", "x"]);
    let _worker =
        fleet.starting("mail", &["--memory-limit", "256M"], &["sh", "-c", "sleep 0.2; ulimit -v >> memory"]);
    fleet.wait_until_drained("mail");
    assert_eq!(fleet.wait_for_file("memory"), "262144\n");
    fleet.user.fails(
        &["worker", "mail", "--user", "nobody-of-that-name", "--", "true"],
        2,
        &["there is no user"],
    );
}

#[test]
fn root_can_run_tasks_as_somebody_else() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let fleet = Fleet::with_queue("user", "mail", 1);
    fleet.user.ok(&["queue", "put", "mail", "x"]);
    let worker = fleet.starting("mail", &["--user", "nobody"], &["sh", "-c", "echo I am $(id -un)"]);
    ready(&worker);
    worker.wait_for_line("who it is", |line| (line == "I am nobody").then_some(()));
}
