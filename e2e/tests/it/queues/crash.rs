//! kill -9 of everything that can be killed, under load: nothing is lost, order is kept, and nothing is repeated
//! without a kill.

use std::fs;

use menagerie_testkit::{Ensemble, Process, eventually};
use rustix::process::Signal;

use super::{Fleet, assert_all, assert_once, assert_order, assert_owners, journal, ready};
use crate::cli::User;
use crate::slots::wait_until_gone;

const MESSAGES: u32 = 200;

/// Waits until some messages were handled, so that the next kill hits in the middle.
fn some(fleet: &Fleet, many: usize) {
    eventually(&format!("{many} are handled"), || (fleet.handled().len() >= many).then_some(()));
}

fn finished(fleet: &Fleet) {
    fleet.wait_until_drained("mail");
    let handled = fleet.handled();
    assert_all(&handled, 0..MESSAGES);
    assert_order(&handled);
    assert_owners(&handled);
    assert_eq!(fleet.file("violations"), "");
}

#[test]
fn killed_worker_takes_its_task_along_and_the_next_owner_goes_on() {
    let fleet = Fleet::hasty("kill-worker", "mail", 1, "2s");
    let task = r#"read -r body; echo $$ > "pid-$MENAGERIE_ATTEMPT"; [ "$MENAGERIE_ATTEMPT" -gt 1 ] || sleep 600; echo "$body" >> done"#;
    fleet.user.ok(&["queue", "put", "mail", "a"]);
    let mut first = fleet.starting("mail", &[], &["sh", "-c", task]);
    ready(&first);
    let pid: u32 = fleet.wait_for_file("pid-1").trim().parse().expect("a number");
    first.kill();
    wait_until_gone(pid);
    let _second = fleet.starting("mail", &[], &["sh", "-c", task]);
    fleet.wait_until_drained("mail");
    assert_eq!(fleet.file("done"), "a\n");
}

#[test]
fn killed_workers_under_load_lose_nothing() {
    let fleet = Fleet::hasty("kill-workers", "mail", 4, "2s");
    fleet.put("mail", 0..MESSAGES);
    let mut workers: Vec<Process> = (0..3).map(|_| fleet.worker("mail", &[])).collect();
    for victim in &mut workers {
        let before = fleet.handled().len();
        some(&fleet, (before + 10).min(MESSAGES as usize));
        victim.kill();
        *victim = fleet.worker("mail", &[]);
    }
    finished(&fleet);
    let repeats = fleet.handled().len() - MESSAGES as usize;
    // Each killed worker had at most four partitions, and in each at most two messages that were not committed.
    assert!(repeats <= 3 * 4 * 2, "{repeats} were repeated");
}

#[test]
fn killed_tasks_are_tried_again() {
    let fleet = Fleet::with_queue("kill-task", "mail", 2);
    fleet.put("mail", 0..MESSAGES);
    // Every tenth ends by a signal at its first attempt.
    let task = r#"read -r body; [ "$MENAGERIE_ATTEMPT-${body#${body%?}}" != 1-7 ] || kill -9 $$; echo "$body" | sh work.sh"#;
    let _worker = fleet.starting("mail", &["--concurrency", "2"], &["sh", "-c", task]);
    finished(&fleet);
    let handled = fleet.handled();
    assert_once(&handled);
    assert!(handled.iter().all(|one| (one.body % 10 == 7) == (one.attempt == 2)), "{handled:?}");
}

#[test]
fn killed_journal_is_waited_for() {
    let mut fleet = Fleet::with_queue("kill-journal", "mail", 4);
    fleet.put("mail", 0..MESSAGES);
    let workers = [fleet.worker("mail", &[]), fleet.worker("mail", &[])];
    for _ in 0..3 {
        let before = fleet.handled().len();
        some(&fleet, (before + 10).min(MESSAGES as usize));
        fleet.crash_journal();
    }
    finished(&fleet);
    assert_once(&fleet.handled());
    let here = fleet.user.json(&["queue", "workers"]);
    assert_eq!(here.as_array().map(Vec::len), Some(workers.len()), "nobody has left: {here}");
}

#[test]
fn killed_servers_are_waited_for() {
    let mut servers = Ensemble::from_env().start_own();
    let path = servers.fresh_path("queues-kill-keeper");
    let user = User::at(servers.connect_string() + &path).with("MENAGERIE_SESSION_TIMEOUT", "10s");
    let fleet = Fleet::of(user);
    fleet.create("mail", 4);
    fleet.put("mail", 0..MESSAGES);
    let _workers = [fleet.worker("mail", &[]), fleet.worker("mail", &[])];
    for _ in 0..2 {
        let before = fleet.handled().len();
        some(&fleet, (before + 10).min(MESSAGES as usize));
        let killed = servers.kill_leader();
        if servers.addresses().len() > 1 {
            servers.restart(killed);
        }
    }
    finished(&fleet);
}

#[test]
fn frozen_worker_that_wakes_changes_nothing() {
    let fleet = Fleet::hasty("frozen", "mail", 1, "2s");
    let task = r#"read -r body; echo $$ > "pid-$MENAGERIE_ATTEMPT-$body"; [ "$MENAGERIE_ATTEMPT-$body" != 1-a ] || sleep 600
echo "$body $MENAGERIE_ATTEMPT" >> done"#;
    fleet.user.ok(&["queue", "put", "mail", "a", "b"]);
    let mut first = fleet.starting("mail", &[], &["sh", "-c", task]);
    ready(&first);
    let pid: u32 = fleet.wait_for_file("pid-1-a").trim().parse().expect("a number");
    first.pause();
    // Killed by its guard: the worker itself is stopped.
    wait_until_gone(pid);
    let _second = fleet.starting("mail", &[], &["sh", "-c", task]);
    fleet.wait_until_drained("mail");
    assert_eq!(fleet.file("done"), "a 2\nb 2\n");
    first.resume();
    eventually("it notices", || {
        let said = first.stderr();
        ["partition lost", "another's"].iter().any(|word| said.contains(word)).then_some(())
    });
    fleet.user.ok(&["queue", "put", "mail", "c"]);
    fleet.wait_until_drained("mail");
    assert_eq!(fleet.file("done"), "a 2\nb 2\nc 1\n");
    first.signal(Signal::INT);
    assert_eq!(first.wait_for_end().status.code(), Some(0));
}

#[test]
fn killed_runner_is_started_again() {
    let fleet = Fleet::hasty("kill-runner", "mail", 1, "2s");
    fleet.user.ok(&["queue", "put", "mail", "a", "b", "c"]);
    // Answers messages; dies at the second one that it ever sees.
    let program = r#"echo $$ >> runners
while read -r line; do
  id=${line#*\"id\":\"}; id=${id%%\"*}
  echo "$line" >> asked
  [ "$(wc -l < asked)" != 2 ] || kill -9 $$
  echo "{\"id\":\"$id\",\"ok\":true}"
done"#;
    fleet.user.write("fed.sh", program);
    let _worker = fleet.starting("mail", &["--serve"], &["sh", "fed.sh"]);
    fleet.wait_until_drained("mail");
    assert_eq!(fleet.file("runners").lines().count(), 2);
    assert_eq!(fleet.file("asked").lines().count(), 4, "the second was asked twice");
}

#[test]
fn full_journal_is_waited_for() {
    let user = User::new("queues-full").with("MENAGERIE_SESSION_TIMEOUT", "2s");
    let mut fleet = Fleet::of(user);
    fleet.create("mail", 1);
    fleet.journal.kill();
    fleet.journal = journal(&fleet.user, &["--quota", "1"]);
    let path = fleet.user.write("large", &"x".repeat(100_000));
    eventually("there is no room", || {
        let done = fleet.user.run(&["queue", "put", "mail", "--file", &path, "--whole"]);
        (done.code != Some(0) && done.stderr.contains("quota")).then_some(())
    });
    let _worker = fleet.starting("mail", &[], &["sh", "-c", "wc -c >> sizes"]);
    fleet.journal.kill();
    fleet.journal = journal(&fleet.user, &["--quota", "100000000"]);
    eventually("there is room again", || {
        let done = fleet.user.run(&["queue", "put", "mail", "--file", &path, "--whole"]);
        (done.code == Some(0)).then_some(())
    });
    fleet.wait_until_drained("mail");
    assert!(
        fs::read_to_string(fleet.user.folder().join("sizes")).expect("it was handled").contains("100000")
    );
}
