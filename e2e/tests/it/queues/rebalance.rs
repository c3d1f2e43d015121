//! Assignments when workers come and go.

use menagerie_testkit::{Process, eventually, eventually_within};
use serde_json::Value;

use super::{Fleet, LONG, assert_all, assert_once, assert_order, ready};

fn assignment(fleet: &Fleet) -> Option<Value> {
    let done = fleet.user.run(&["zk", "get", "/menagerie/queue-assignment"]);
    serde_json::from_str(&done.text()).ok()
}

#[test]
fn ten_workers_at_once_make_one_rebalance() {
    let fleet = Fleet::with_queue("ten", "mail", 20);
    // Long enough for ten processes to start on a busy machine.
    let workers: Vec<Process> =
        (0..10).map(|_| fleet.starting("mail", &["--settle", "10s"], &["true"])).collect();
    workers.iter().for_each(|worker| drop(ready(worker)));
    let assignment = eventually_within(LONG, "they are assigned", || assignment(&fleet));
    assert_eq!(assignment["epoch"], 1, "{assignment}");
    let shares: Vec<usize> = assignment["workers"]
        .as_object()
        .expect("it has workers")
        .values()
        .map(|partitions| partitions.as_array().map_or(0, Vec::len))
        .collect();
    assert_eq!(shares, [2; 10], "ten, and not nine");
    // The worker that made the assignment has logged it, in one line.
    let logged = || -> Vec<String> {
        let lines = workers.iter().map(Process::stderr);
        lines
            .flat_map(|said| said.lines().map(str::to_owned).collect::<Vec<_>>())
            .filter(|line| line.contains("joined"))
            .collect()
    };
    eventually("it is told", || (!logged().is_empty()).then_some(()));
    assert_eq!(logged().len(), 1, "{:?}", logged());
}

#[test]
fn workers_that_come_and_go_in_good_order_repeat_nothing() {
    let fleet = Fleet::with_queue("order", "mail", 6);
    let mut first = fleet.worker("mail", &[]);
    fleet.put("mail", 0..150);
    let second = fleet.worker("mail", &[]);
    eventually("the second has its half", || {
        let workers = fleet.user.json(&["queue", "workers"]);
        let halves = workers
            .as_array()?
            .iter()
            .filter(|one| one["partitions"].as_array().is_some_and(|all| all.len() == 3));
        (halves.count() == 2).then_some(())
    });
    first.signal(rustix::process::Signal::INT);
    assert_eq!(first.wait_for_end().status.code(), Some(0));
    fleet.put("mail", 150..200);
    fleet.wait_until_drained("mail");
    let handled = fleet.handled();
    assert_all(&handled, 0..200);
    assert_once(&handled);
    assert_order(&handled);
    drop(second);
}

#[test]
fn queue_that_is_made_later_is_handled() {
    let fleet = Fleet::new("later");
    let worker = fleet.worker("mail", &[]);
    eventually("it says so", || worker.stderr().contains("no such queue yet").then_some(()));
    fleet.create("mail", 2);
    fleet.put("mail", 0..4);
    fleet.wait_until_drained("mail");
}
