use std::time::{Duration, Instant};

use menagerie_journal::{MessageId, Ticks};
use menagerie_znodes::queues::{PartitionName, QueueName};
use proptest::prelude::*;

use crate::core::turn::{Lane, Policy, Ready, Turn};

fn id(ticks: u64) -> MessageId {
    MessageId(Ticks(ticks))
}

fn now(ticks: Option<u64>) -> Ready {
    ticks.map_or(Ready::No, |ticks| Ready::Now(id(ticks)))
}

fn queues(names: &[&str]) -> Vec<QueueName> {
    names.iter().map(|name| name.parse().unwrap()).collect()
}

fn partition(name: &str) -> PartitionName {
    name.parse().unwrap()
}

/// Takes until nothing is ready; every partition has a backlog, and goes on at once.
fn taken(turn: &mut Turn, heads: &mut [(&str, Vec<u64>)], most: usize) -> Vec<String> {
    let mut taken = Vec::new();
    for (name, backlog) in heads.iter() {
        turn.update(&partition(name), now(backlog.first().copied()));
    }
    while taken.len() < most {
        let Some(next) = turn.take() else { break };
        taken.push(next.to_string());
        turn.ended(&next);
        let (_, backlog) = heads.iter_mut().find(|(name, _)| partition(name) == next).unwrap();
        backlog.remove(0);
        turn.update(&next, now(backlog.first().copied()));
    }
    taken
}

#[test]
fn queues_come_in_turn_in_the_order_given_and_oldest_messages_first_within_one() {
    let mut turn = Turn::new(&queues(&["urgent", "mail"]), Policy::InTurn, 1);
    let mut backlog =
        [("mail-1", vec![1, 2]), ("urgent-1", vec![20, 21]), ("urgent-2", vec![10, 30]), ("mail-2", vec![3])];
    let order = taken(&mut turn, &mut backlog, usize::MAX);
    assert_eq!(order, ["urgent-2", "mail-1", "urgent-1", "mail-1", "urgent-1", "mail-2", "urgent-2"]);
}

#[test]
fn strictly_a_queue_is_drained_before_the_next_one() {
    let mut turn = Turn::new(&queues(&["urgent", "mail"]), Policy::Strict, 1);
    let mut backlog = [("mail-1", vec![1, 2]), ("urgent-1", vec![20, 21])];
    let order = taken(&mut turn, &mut backlog, 3);
    assert_eq!(order, ["urgent-1", "urgent-1", "mail-1"]);
    turn.update(&partition("urgent-1"), now(Some(22)));
    assert_eq!(turn.take(), Some(partition("urgent-1")));
}

#[test]
fn a_queue_that_has_nothing_is_passed_over_and_keeps_its_place() {
    let mut turn = Turn::new(&queues(&["a", "b", "c"]), Policy::InTurn, 1);
    let mut backlog = [("a-1", vec![1, 2]), ("c-1", vec![1, 2])];
    assert_eq!(taken(&mut turn, &mut backlog, 3), ["a-1", "c-1", "a-1"]);
    turn.update(&partition("b-1"), now(Some(9)));
    assert_eq!(turn.take(), Some(partition("b-1")));
}

#[test]
fn one_message_of_a_partition_runs_at_a_time_and_no_more_than_allowed_in_all() {
    let mut turn = Turn::new(&queues(&["mail"]), Policy::InTurn, 2);
    for name in ["mail-1", "mail-2", "mail-3"] {
        turn.update(&partition(name), now(Some(5)));
    }
    let first = turn.take().unwrap();
    // Said to be ready although it runs: that changes nothing.
    turn.update(&first, now(Some(1)));
    let second = turn.take().unwrap();
    assert_ne!(first, second);
    assert_eq!((turn.take(), turn.running()), (None, 2));
    turn.ended(&first);
    turn.update(&first, now(Some(1)));
    assert_eq!(turn.take(), Some(first));
}

#[test]
fn what_is_paused_backing_off_running_or_not_open_is_not_ready() {
    let now = Instant::now();
    let lane = Lane {
        head: Some(id(1)),
        running: false,
        open: true,
        recording: false,
        paused: false,
        not_before: None,
    };
    assert_eq!(lane.ready(now), Ready::Now(id(1)));
    let later = now + Duration::from_secs(1);
    assert_eq!(Lane { not_before: Some(later), ..lane }.ready(now), Ready::No);
    assert_eq!(Lane { not_before: Some(later), ..lane }.ready(later), Ready::Now(id(1)));
    assert_eq!(Lane { open: false, recording: true, ..lane }.ready(now), Ready::Soon(id(1)));
    for lane in [
        Lane { head: None, ..lane },
        Lane { running: true, ..lane },
        Lane { open: false, ..lane },
        Lane { paused: true, ..lane },
        Lane { paused: true, recording: true, open: false, ..lane },
    ] {
        assert_eq!(lane.ready(now), Ready::No, "{lane:?}");
    }
}

#[test]
fn only_who_is_strict_waits_for_a_queue_whose_record_is_on_its_way() {
    for (policy, taken) in [(Policy::InTurn, Some(partition("mail-1"))), (Policy::Strict, None)] {
        let mut turn = Turn::new(&queues(&["urgent", "mail"]), policy, 1);
        turn.update(&partition("urgent-1"), Ready::Soon(id(2)));
        turn.update(&partition("mail-1"), now(Some(1)));
        assert_eq!(turn.take(), taken);
        turn.update(&partition("urgent-1"), now(Some(2)));
        assert_eq!(turn.take(), taken.is_none().then(|| partition("urgent-1")));
    }
}

#[test]
fn queues_wait_until_those_before_them_were_looked_into() {
    for policy in [Policy::InTurn, Policy::Strict] {
        let mut turn = Turn::new(&queues(&["urgent", "mail", "bulk"]), policy, 3);
        for name in ["bulk-1", "mail-1", "urgent-1", "urgent-2"] {
            turn.expect(&partition(name));
        }
        for name in ["bulk-1", "urgent-2"] {
            turn.looked(&partition(name));
            turn.update(&partition(name), now(Some(5)));
        }
        assert_eq!(turn.take(), None, "the other partition of the queue may have an older one");
        turn.looked(&partition("urgent-1"));
        turn.update(&partition("urgent-1"), now(Some(1)));
        assert_eq!([turn.take(), turn.take()], [Some(partition("urgent-1")), Some(partition("urgent-2"))]);
        assert_eq!(turn.take(), None, "nobody has looked into mail-1");
        turn.expect_no_more();
        assert_eq!((turn.take(), turn.expects()), (Some(partition("bulk-1")), false));
    }
}

proptest! {
    /// However messages are spread, no queue that has one waits longer than for one message of each other queue.
    #[test]
    fn nobody_starves(backlog in prop::collection::vec((0_usize..4, 1_u16..4, 1_u64..100), 1..60)) {
        let names = ["a", "b", "c", "d"];
        let mut turn = Turn::new(&queues(&names), Policy::InTurn, 1);
        let mut waiting: std::collections::BTreeMap<PartitionName, Vec<u64>> = Default::default();
        for (queue, number, ticks) in backlog {
            waiting.entry(partition(&format!("{}-{number}", names[queue]))).or_default().push(ticks);
        }
        for (partition, backlog) in &mut waiting {
            backlog.sort_unstable();
            turn.update(partition, now(Some(backlog[0])));
        }
        let mut since = [0; 4];
        while let Some(next) = turn.take() {
            let queue = names.iter().position(|name| *name == next.queue().name()).unwrap();
            since[queue] = 0;
            let backlog = waiting.get_mut(&next).unwrap();
            let oldest = backlog.remove(0);
            for (other, backlog) in &waiting {
                prop_assert!(other == &next || other.queue() != next.queue() || backlog.first().is_none_or(|head| *head >= oldest));
            }
            for (place, name) in names.iter().enumerate() {
                let waits = waiting.iter().any(|(other, backlog)| other.queue().name() == *name && !backlog.is_empty());
                since[place] = if waits && place != queue { since[place] + 1 } else { 0 };
                prop_assert!(since[place] < names.len(), "{name} starves");
            }
            turn.ended(&next);
            let head = waiting[&next].first().copied();
            turn.update(&next, now(head));
        }
        prop_assert!(waiting.values().all(Vec::is_empty));
    }
}
