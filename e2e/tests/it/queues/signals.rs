//! Signals to a worker.

use menagerie_testkit::{Process, eventually};
use rustix::process::Signal;
use serde_json::Value;

use super::{Fleet, ready};
use crate::slots::wait_until_gone;

/// Writes its pid, waits until a file exists, then writes the message.
const SLOW: &str = r#"echo $$ > "pid-$MENAGERIE_PARTITION"; cp "pid-$MENAGERIE_PARTITION" pid; read -r body
while ! [ -e go ]; do sleep 0.05; done; echo "$body $MENAGERIE_ATTEMPT" >> done"#;

/// A worker at the first of two messages of one partition, and the pid of its task.
fn at_work(name: &str, options: &[&str]) -> (Fleet, Process, u32) {
    let fleet = Fleet::with_queue(name, "mail", 1);
    fleet.user.ok(&["queue", "put", "mail", "a", "b"]);
    let worker = fleet.starting("mail", options, &["sh", "-c", SLOW]);
    ready(&worker);
    let task = fleet.wait_for_file("pid").trim().parse().expect("a number");
    (fleet, worker, task)
}

fn ended_well(worker: &mut Process) {
    let end = worker.wait_for_end();
    assert_eq!(end.status.code(), Some(0), "{}", end.stderr);
}

#[test]
fn interrupt_finishes_what_runs_and_begins_nothing_else() {
    let (fleet, mut worker, _) = at_work("int", &[]);
    worker.signal(Signal::INT);
    eventually("it has heard", || worker.stderr().contains("worker stopping").then_some(()));
    fleet.user.write("go", "");
    ended_well(&mut worker);
    assert_eq!(fleet.file("done"), "a 1\n");
    assert_eq!(fleet.lag("mail"), 1, "the first is recorded, the second waits");
    assert!(fleet.user.json(&["queue", "workers"]).as_array().is_some_and(Vec::is_empty), "it has left");
}

#[test]
fn second_interrupt_stops_what_runs() {
    let (fleet, mut worker, task) = at_work("int-int", &[]);
    worker.signal(Signal::INT);
    eventually("it has heard", || worker.stderr().contains("worker stopping").then_some(()));
    worker.signal(Signal::INT);
    ended_well(&mut worker);
    wait_until_gone(task);
    assert_eq!((fleet.file("done").as_str(), fleet.lag("mail")), ("", 2));
}

#[test]
fn terminate_stops_what_runs_and_leaves_cleanly() {
    let (fleet, mut worker, task) = at_work("term", &[]);
    worker.signal(Signal::TERM);
    ended_well(&mut worker);
    wait_until_gone(task);
    assert_eq!((fleet.file("done").as_str(), fleet.lag("mail")), ("", 2));
    // It had no time-out to wait for; the stopped task knows that it runs again.
    fleet.user.write("go", "");
    let _next = fleet.starting("mail", &[], &["sh", "-c", SLOW]);
    fleet.wait_until_drained("mail");
    assert_eq!(fleet.file("done"), "a 2\nb 1\n");
}

#[test]
fn terminate_with_grace_lets_what_runs_finish() {
    let (fleet, mut worker, _) = at_work("term-grace", &["--term-grace", "60s"]);
    worker.signal(Signal::TERM);
    eventually("it has heard", || worker.stderr().contains("worker stopping").then_some(()));
    fleet.user.write("go", "");
    ended_well(&mut worker);
    assert_eq!((fleet.file("done").as_str(), fleet.lag("mail")), ("a 1\n", 1));
}

#[test]
fn hangup_reads_the_file_again_and_says_what_needs_a_restart() {
    let fleet = Fleet::with_queue("hup", "mail", 2);
    fleet.user.write("menagerie.toml", "[worker]\nconcurrency = 1\n");
    fleet.put("mail", 0..2);
    let worker = fleet.starting("mail", &[], &["sh", "-c", SLOW]);
    ready(&worker);
    fleet.wait_for_file("pid");
    let running = || {
        std::fs::read_dir(fleet.user.folder())
            .expect("it can be listed")
            .filter(|entry| {
                entry.as_ref().is_ok_and(|entry| entry.file_name().to_string_lossy().starts_with("pid-"))
            })
            .count()
    };
    assert_eq!(running(), 1);
    fleet.user.write(
        "menagerie.toml",
        "[worker]\nconcurrency = 2\nbatch = 7\n[zookeeper]\nsession_timeout = \"9s\"\n",
    );
    worker.signal(Signal::HUP);
    eventually("two run at once", || (running() == 2).then_some(()));
    let said = worker.stderr();
    assert!(said.contains("worker.batch") && said.contains("needs a restart"), "{said}");
    fleet.user.write("menagerie.toml", "[worker]\nconcurrency = 0\n");
    worker.signal(Signal::HUP);
    eventually("it complains and goes on", || worker.stderr().contains("nothing is changed").then_some(()));
    fleet.user.write("menagerie.toml", "");
    fleet.user.write("go", "");
    fleet.wait_until_drained("mail");
}

#[test]
fn a_worker_that_has_not_begun_hears_all_signals() {
    let fleet = Fleet::with_queue("usr-early", "mail", 1);
    let startup = ["--on-startup", "echo begun > begun; while ! [ -e go ]; do sleep 0.05; done"];
    let mut worker = fleet.starting("mail", &startup, &["true"]);
    fleet.wait_for_file("begun");
    worker.signal(Signal::USR2);
    worker.signal(Signal::HUP);
    eventually("it has heard", || worker.stderr().contains("configuration read again").then_some(()));
    worker.signal(Signal::INT);
    let end = worker.wait_for_end();
    assert_eq!((end.status.code(), end.stdout), (Some(0), Vec::new()), "{}", end.stderr);
}

#[test]
fn user_signals_open_the_log_anew_and_dump_the_state() {
    let fleet = Fleet::with_queue("usr", "mail", 1);
    let worker = fleet.worker("mail", &["--log-file", "worker.log"]);
    fleet.put("mail", 0..3);
    fleet.wait_until_drained("mail");
    let folder = fleet.user.folder();
    std::fs::rename(folder.join("worker.log"), folder.join("worker.log.1")).expect("it is there");
    worker.signal(Signal::USR1);
    eventually("the new file is written to", || {
        fleet.file("worker.log").contains("log file opened anew").then_some(())
    });
    worker.signal(Signal::USR2);
    let dump: Value = worker.wait_for_line("its state", |line| serde_json::from_str(line).ok());
    assert_eq!((&dump["stats"]["done"], &dump["partitions"][0]["partition"]), (&3.into(), &"mail-1".into()));
}

#[test]
fn status_lists_a_worker_and_shows_that_it_drains() {
    let (fleet, mut worker, _) = at_work("status", &["--term-grace", "1h"]);
    let state = |kind: &str| {
        let view = fleet.user.json(&["status"]);
        let components = view["components"].as_array().expect("it is a list");
        components.iter().find(|one| one["kind"] == kind).map(|one| one["state"].clone())
    };
    assert_eq!(state("worker"), Some("running".into()));
    assert_eq!(state("journal"), Some("running".into()));
    worker.signal(Signal::TERM);
    eventually("it drains", || (state("worker") == Some("paused".into())).then_some(()));
    fleet.user.write("go", "");
    ended_well(&mut worker);
    assert_eq!(state("worker"), None, "it has left");
}
