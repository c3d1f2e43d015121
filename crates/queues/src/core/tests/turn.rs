use menagerie_znodes::queues::{PartitionName, QueueName};
use proptest::prelude::*;

use super::id;
use crate::core::turn::{Policy, Ready, Turn};

fn now(ticks: Option<u64>) -> Ready {
    ticks.map_or(Ready::No, |ticks| Ready::Now(id(ticks)))
}

fn queues(names: &[&str]) -> Vec<QueueName> {
    names.iter().map(|name| name.parse().unwrap()).collect()
}

fn partition(name: &str) -> PartitionName {
    name.parse().unwrap()
}

/// Takes until nothing is ready; every partition has a backlog, and is ready again at once.
fn taken(turn: &mut Turn, heads: &mut [(&str, Vec<u64>)], most: usize) -> Vec<String> {
    let mut taken = Vec::new();
    for (name, backlog) in heads.iter() {
        turn.update(&partition(name), now(backlog.first().copied()));
    }
    while taken.len() < most {
        let Some(next) = turn.take() else { break };
        taken.push(next.to_string());
        turn.finish();
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
fn an_empty_queue_is_skipped_and_keeps_its_rank() {
    let mut turn = Turn::new(&queues(&["a", "b", "c"]), Policy::InTurn, 1);
    let mut backlog = [("a-1", vec![1, 2]), ("c-1", vec![1, 2])];
    assert_eq!(taken(&mut turn, &mut backlog, 3), ["a-1", "c-1", "a-1"]);
    turn.update(&partition("b-1"), now(Some(9)));
    assert_eq!(turn.take(), Some(partition("b-1")));
}

#[test]
fn no_more_turns_than_allowed_and_a_partition_may_have_several() {
    let mut turn = Turn::new(&queues(&["mail"]), Policy::InTurn, 2);
    for name in ["mail-1", "mail-2", "mail-3"] {
        turn.update(&partition(name), now(Some(5)));
    }
    let first = turn.take().unwrap();
    // Where order allows it, it is ready again while its first message runs.
    turn.update(&first, now(Some(1)));
    assert_eq!(turn.take(), Some(first.clone()));
    assert_eq!((turn.take(), turn.running()), (None, 2));
    turn.finish();
    let second = turn.take().unwrap();
    assert_ne!(first, second, "it is not ready until somebody says so");
}

#[test]
fn only_the_strict_policy_waits_for_a_queue_whose_record_is_in_flight() {
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
fn queues_wait_for_the_first_reads_of_those_before_them() {
    for policy in [Policy::InTurn, Policy::Strict] {
        let mut turn = Turn::new(&queues(&["urgent", "mail", "bulk"]), policy, 3);
        for name in ["bulk-1", "mail-1", "urgent-1", "urgent-2"] {
            turn.await_first_read(&partition(name));
        }
        for name in ["bulk-1", "urgent-2"] {
            turn.mark_read(&partition(name));
            turn.update(&partition(name), now(Some(5)));
        }
        assert_eq!(turn.take(), None, "the other partition of the queue may have an older one");
        turn.mark_read(&partition("urgent-1"));
        turn.update(&partition("urgent-1"), now(Some(1)));
        assert_eq!([turn.take(), turn.take()], [Some(partition("urgent-1")), Some(partition("urgent-2"))]);
        assert_eq!(turn.take(), None, "mail-1 has not been read yet");
        turn.stop_awaiting_reads();
        assert_eq!((turn.take(), turn.awaits_first_reads()), (Some(partition("bulk-1")), false));
    }
}

proptest! {
    /// However messages are spread, a queue with messages waits for at most one message of each other queue.
    #[test]
    fn no_queue_starves(backlog in prop::collection::vec((0_usize..4, 1_u16..4, 1_u64..100), 1..60)) {
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
            turn.finish();
            let head = waiting[&next].first().copied();
            turn.update(&next, now(head));
        }
        prop_assert!(waiting.values().all(Vec::is_empty));
    }
}
