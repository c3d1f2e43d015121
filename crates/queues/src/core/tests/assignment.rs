use std::collections::{BTreeMap, BTreeSet};

use menagerie_znodes::Name;
use menagerie_znodes::queues::QueueName;
use proptest::collection::{btree_map, btree_set};
use proptest::prelude::*;

use crate::core::assignment::{Facts, Owners, assign};

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

fn queue(text: &str) -> QueueName {
    text.parse().unwrap()
}

/// Workers that serve everything, and one queue whose partitions lie in journals of `per_journal` partitions.
fn facts(workers: usize, partitions: u16, per_journal: u16) -> Facts {
    let mail = queue("mail");
    Facts {
        partitions: (1..=partitions)
            .map(|number| (mail.partition(number), format!("journal-{}", (number - 1) / per_journal)))
            .collect(),
        workers: (0..workers).map(|worker| (name(&format!("w{worker:02}")), None)).collect(),
    }
}

fn loads(facts: &Facts, owners: &Owners) -> BTreeMap<Name, usize> {
    let mut loads: BTreeMap<_, _> = facts.workers.keys().map(|worker| (worker.clone(), 0)).collect();
    for worker in owners.values() {
        *loads.get_mut(worker).expect("only workers that are there get something") += 1;
    }
    loads
}

fn spread(facts: &Facts, owners: &Owners) -> usize {
    let loads = loads(facts, owners);
    loads.values().max().unwrap_or(&0) - loads.values().min().unwrap_or(&0)
}

fn moved(before: &Owners, after: &Owners) -> usize {
    before.iter().filter(|(partition, worker)| after.get(*partition) != Some(worker)).count()
}

#[test]
fn as_many_partitions_as_workers_are_one_to_one() {
    let facts = facts(5, 5, 5);
    assert!(loads(&facts, &assign(&facts, &Owners::new())).values().all(|count| *count == 1));
}

/// qdo divided as integers: the remainder had no worker, and with more workers than partitions nothing had one.
#[test]
fn nothing_is_left_over() {
    for (workers, partitions) in [(3, 10), (7, 3), (1, 4)] {
        let facts = facts(workers, partitions, 100);
        let owners = assign(&facts, &Owners::new());
        assert_eq!((owners.len(), spread(&facts, &owners) <= 1), (usize::from(partitions), true));
    }
}

#[test]
fn the_tenth_worker_gets_its_share_and_nothing_else_moves() {
    let nine = facts(9, 40, 100);
    let before = assign(&nine, &Owners::new());
    let ten = facts(10, 40, 100);
    let after = assign(&ten, &before);
    assert_eq!((moved(&before, &after), spread(&ten, &after)), (4, 0));
    assert!(after.values().filter(|worker| worker.as_str() == "w09").count() == 4);
}

#[test]
fn only_what_a_leaver_had_moves() {
    let ten = facts(10, 40, 100);
    let before = assign(&ten, &Owners::new());
    let nine = facts(9, 40, 100);
    let after = assign(&nine, &before);
    assert_eq!((moved(&before, &after), spread(&nine, &after)), (4, 1));
}

/// Seed 000: with 6 hosts and 3 workers, each is connected to just 2.
#[test]
fn six_journals_make_two_for_each_of_three_workers() {
    let facts = facts(3, 24, 4);
    let owners = assign(&facts, &Owners::new());
    for worker in facts.workers.keys() {
        let journals: BTreeSet<_> = owners
            .iter()
            .filter(|(_, owner)| *owner == worker)
            .map(|(partition, _)| &facts.partitions[partition])
            .collect();
        assert_eq!(journals.len(), 2, "{worker}");
    }
}

#[test]
fn a_worker_that_serves_few_queues_gets_its_share_by_way_of_others() {
    // All start on w0, which serves everything; w1 serves a and b, w2 only b.
    let (a, b) = (queue("a"), queue("b"));
    let partitions: Vec<_> = (1..=4).map(|n| a.partition(n)).chain((1..=2).map(|n| b.partition(n))).collect();
    let facts = Facts {
        partitions: partitions.iter().map(|partition| (partition.clone(), "j".to_owned())).collect(),
        workers: [
            (name("w0"), None),
            (name("w1"), Some(BTreeSet::from([a, b.clone()]))),
            (name("w2"), Some(BTreeSet::from([b]))),
        ]
        .into(),
    };
    let before = partitions.into_iter().map(|partition| (partition, name("w0"))).collect();
    let after = assign(&facts, &before);
    assert!(loads(&facts, &after).values().all(|count| *count == 2), "{after:?}");
}

#[test]
fn an_unserved_queue_has_no_owner() {
    let mut facts = facts(2, 3, 3);
    for serves in facts.workers.values_mut() {
        *serves = Some(BTreeSet::from([queue("other")]));
    }
    assert_eq!(assign(&facts, &Owners::new()), Owners::new());
    assert_eq!(assign(&Facts::default(), &Owners::new()), Owners::new());
}

#[test]
fn ten_thousand_partitions_are_assigned_in_no_time_worth_mentioning() {
    let partitions = (0..1_000)
        .flat_map(|q| (1..=10).map(move |n| (queue(&format!("q{q}")).partition(n), "j".to_owned())));
    let partitions: BTreeMap<_, _> = partitions.collect();
    let workers = |count: usize| (0..count).map(|worker| (name(&format!("w{worker}")), None)).collect();
    let fifty = Facts { partitions: partitions.clone(), workers: workers(50) };
    let before = assign(&fifty, &Owners::new());
    let more = Facts { partitions, workers: workers(60) };
    let after = assign(&more, &before);
    assert_eq!(spread(&more, &after), 1);
    assert!(moved(&before, &after) <= 10_000 / 60 * 10 + 10);
}

fn any_facts() -> impl Strategy<Value = Facts> {
    let queues = || (0..4_u8).prop_map(|number| queue(&format!("q{number}")));
    let partition = (queues(), 1..6_u16).prop_map(|(queue, number)| queue.partition(number));
    let journal = (0..3_u8).prop_map(|number| format!("journal-{number}"));
    let worker = (0..8_u8).prop_map(|number| name(&format!("w{number}")));
    let serves = prop_oneof![Just(None), btree_set(queues(), 0..4).prop_map(Some)];
    (btree_map(partition, journal, 0..20), btree_map(worker, serves, 0..8))
        .prop_map(|(partitions, workers)| Facts { partitions, workers })
}

fn serves(facts: &Facts, worker: &Name, queue: &QueueName) -> bool {
    facts.workers[worker].as_ref().is_none_or(|queues| queues.contains(queue))
}

proptest! {
    #[test]
    fn everything_served_is_assigned_to_somebody_who_serves_it(before in any_facts(), facts in any_facts()) {
        let owners = assign(&facts, &assign(&before, &Owners::new()));
        for partition in facts.partitions.keys() {
            let served = facts.workers.keys().any(|worker| serves(&facts, worker, partition.queue()));
            prop_assert_eq!(owners.contains_key(partition), served);
        }
        for (partition, worker) in &owners {
            prop_assert!(serves(&facts, worker, partition.queue()) && facts.partitions.contains_key(partition));
        }
    }

    #[test]
    fn no_worker_has_two_more_than_one_that_could_take_one(before in any_facts(), facts in any_facts()) {
        let owners = assign(&facts, &assign(&before, &Owners::new()));
        let loads = loads(&facts, &owners);
        for (partition, worker) in &owners {
            for other in facts.workers.keys().filter(|other| serves(&facts, other, partition.queue())) {
                prop_assert!(loads[worker] <= loads[other] + 1, "{} of {} could go to {}", partition, worker, other);
            }
        }
    }

    #[test]
    fn nothing_moves_when_nothing_has_changed(before in any_facts(), facts in any_facts()) {
        let owners = assign(&facts, &assign(&before, &Owners::new()));
        prop_assert_eq!(assign(&facts, &owners), owners);
    }

    #[test]
    fn workers_alike_move_no_more_than_balance_asks(workers in 1..8_usize, left in 0..8_usize, partitions in 1..40_u16) {
        let before = assign(&facts(workers, partitions, 100), &Owners::new());
        let mut after = facts(left + 1, partitions, 100);
        // Workers that join are new, and those that leave were there before: w00 always stays.
        after.workers.insert(name("w00"), None);
        let owners = assign(&after, &before);
        let stayed = loads(&after, &before.iter().filter(|(_, worker)| after.workers.contains_key(*worker))
            .map(|(partition, worker)| (partition.clone(), worker.clone())).collect());
        let (share, more) = (usize::from(partitions) / after.workers.len(), usize::from(partitions) % after.workers.len());
        // As many workers as there is a remainder may keep one above the share.
        let mut kept: Vec<_> = stayed.values().copied().collect();
        kept.sort_unstable_by(|a, b| b.cmp(a));
        let kept: usize = kept.iter().enumerate().map(|(rank, count)| (*count).min(share + usize::from(rank < more))).sum();
        prop_assert_eq!(moved(&before, &owners), usize::from(partitions) - kept);
    }
}
