//! Claims, losses, releases; stopping.

use std::time::Duration;

use menagerie_journal::JournalError;
use menagerie_znodes::queues::Order;

use super::super::id;
use super::script::{Script, fresh, partition, vanished};
use crate::core::lane::{Holder, Ownership};
use crate::core::ledger::{Ack, Recorded};
use crate::core::machine::{Ended, Fact, Noted};
use crate::core::options::Options;
use crate::core::tally::StoredAttempts;
use crate::task::Outcome;

fn at_most_once(options: &mut Options) {
    options.ack = Ack::Before;
}

fn four(options: &mut Options) {
    options.concurrency = 4;
}

/// A worker that has read messages 1 to 9.
fn reading(order: Order, adjust: impl FnOnce(&mut Options)) -> Script {
    let mut script = Script::new(order, None, adjust).owning(fresh());
    script.read_numbers(1..=9);
    script
}

#[test]
fn at_most_once_a_message_is_recorded_and_then_begins_one_at_a_time_in_any_order() {
    for order in [Order::Partition, Order::Key, Order::None] {
        let mut script = Script::new(order, None, |options| {
            at_most_once(options);
            four(options);
        });
        script = script.owning(fresh());
        let effects = script.read_numbers(1..=3);
        assert!(effects.contains(&"record 1 first".to_owned()), "{effects:?}");
        assert!(script.running().is_empty());
        assert_eq!(script.confirmed(), ["run 1"], "{order:?}");
        assert_eq!(script.fail(1), ["note 1 attempt 1, given up"], "it has one attempt");
        assert_eq!(script.noted(1, Noted::Stored), ["record 2 first"]);
        assert_eq!(script.confirmed(), ["run 2"]);
        assert_eq!(script.ran(2, Ok(vec![])), ["record 3 first"], "stopped: it may have been handled");
    }
}

#[test]
fn at_most_once_what_is_recorded_is_finished_even_while_stopping_or_closing() {
    for fact in [Fact::Finish, Fact::Assigned { epoch: 2, partitions: Default::default() }] {
        let mut script = reading(Order::Partition, at_most_once);
        assert!(script.step(fact).is_empty(), "the record is in flight");
        assert_eq!(script.confirmed(), ["run 1"]);
        assert_eq!(script.done(1), ["release at 1"]);
    }
}

#[test]
fn at_most_once_a_message_whose_record_failed_does_not_begin() {
    for recorded in [Recorded::Refused, Recorded::Unknown] {
        let mut script = reading(Order::Partition, at_most_once);
        let effects = script.recorded(recorded);
        assert_eq!(effects, ["cancel read", "give up notes", "drop", "claim"]);
        // Its turn is over: another partition's message, or its own again, can begin.
        script.claimed(fresh());
        let effects = script.read_numbers(1..=2);
        assert!(effects.contains(&"record 1 first".to_owned()), "{effects:?}");
    }
}

#[test]
fn a_lost_partition_is_dropped_once_nothing_runs_and_claimed_again() {
    let mut script = reading(Order::None, four);
    let owned = script.owned();
    let effects = script.step(Fact::Lost(owned));
    assert_eq!(effects, ["stop 1", "stop 2", "stop 3", "stop 4", "cancel read", "give up notes"]);
    for number in 1..=3 {
        assert!(script.done(number).is_empty(), "no records any more");
    }
    assert_eq!(script.ran(4, Ok(vec![])), ["drop", "claim"]);
}

#[test]
fn a_lost_partition_that_is_ours_again_is_not_as_careful_and_remembers_what_began() {
    let mut script = reading(Order::Partition, |_| {});
    script.fail(1);
    script.noted(1, Noted::Stored);
    script.pass(Duration::from_secs(1));
    let owned = script.owned();
    script.step(Fact::Lost(owned.clone()));
    script.ran(1, Ok(vec![Outcome::Stopped]));
    let ours = Holder { fence: owned.fence.to_string(), window: 2, crashes: 0, released: false };
    let effects = script.claimed(Ownership { predecessor: Some(ours), ..fresh() });
    assert_eq!(effects, ["read after 0"]);
    let effects = script.read_numbers(1..=9);
    assert!(effects.contains(&"run 1 (attempt 2)".to_owned()), "no attempt is added: {effects:?}");
    assert_eq!(script.done(1), ["record 1", "run 2"], "without waiting for the record");
}

#[test]
fn a_lost_partition_that_another_one_had_since_is_taken_over_as_any_other() {
    let mut script = reading(Order::Partition, |_| {});
    let owned = script.owned();
    script.step(Fact::Lost(owned));
    script.ran(1, Ok(vec![]));
    script.claimed(Ownership { predecessor: vanished(2, 0), ..fresh() });
    let effects = script.read_numbers(1..=9);
    assert!(effects.contains(&"count 2, run 1 (attempt 2)".to_owned()), "{effects:?}");
}

#[test]
fn a_claim_that_comes_too_late_is_released_with_what_it_found() {
    let mut script = Script::new(Order::Partition, None, |_| {});
    assert_eq!(script.assign(true), ["claim"]);
    assert_eq!(script.assign(false), ["cancel claim"]);
    let attempts = StoredAttempts { begun: id(7), ..StoredAttempts::default() };
    let found = Ownership { cursor: id(3), attempts, predecessor: vanished(5, 2), ..fresh() };
    let effects = script.claimed(found);
    assert_eq!(effects, ["release at 3, begun through 7, 5 suspect after 2 crashes"]);
    assert_eq!(script.assign(true), ["claim"]);
}

#[test]
fn a_partition_that_is_no_longer_ours_begins_nothing_and_is_released_with_what_began() {
    let mut script = reading(Order::None, four);
    assert!(script.assign(false).is_empty());
    assert_eq!(script.done(1), ["record 1"]);
    assert_eq!(script.fail(2), ["note 2 attempt 1"]);
    assert!(script.ran(3, Ok(vec![Outcome::Stopped])).is_empty());
    script.confirmed();
    assert_eq!(script.done(4), ["record 1, done through 4 but 2 3"]);
    script.confirmed();
    assert_eq!(script.noted(2, Noted::Stored), ["release at 1, 2 begun 1, 3 begun 0"]);
    // Behind our own ticket, until the release has ended.
    assert_eq!(script.assign(true), ["claim"]);
    assert!(script.step(Fact::Released(partition())).is_empty());
}

#[test]
fn a_partition_that_is_ours_again_before_its_release_goes_on() {
    let mut script = reading(Order::Partition, |_| {});
    script.assign(false);
    script.assign(true);
    assert_eq!(script.done(1), ["record 1", "run 2"]);
}

#[test]
fn abort_stops_all_runs_and_ends_when_they_have() {
    let mut script = reading(Order::None, four);
    assert_eq!(script.step(Fact::Abort), ["stop 1", "stop 2", "stop 3", "stop 4"]);
    for number in 1..=3 {
        assert!(script.ran(number, Ok(vec![])).is_empty());
    }
    let effects = script.ran(4, Ok(vec![]));
    assert_eq!(effects, ["release at 0, 1 begun 0, 2 begun 0, 3 begun 0, 4 begun 0"]);
    assert_eq!(script.machine.finished(), None);
    assert!(script.step(Fact::Released(partition())).is_empty());
    assert_eq!(script.machine.finished(), Some(Ended::AskedToStop));
}

#[test]
fn finish_lets_what_runs_end_and_records_it() {
    let mut script = reading(Order::Partition, |_| {});
    assert!(script.step(Fact::Finish).is_empty());
    assert_eq!(script.done(1), ["record 1"]);
    assert_eq!(script.confirmed(), ["release at 1"]);
}

#[test]
fn a_task_that_may_not_begin_because_of_a_newer_owner_loses_the_partition() {
    let mut script = reading(Order::Partition, |_| {});
    let effects = script.ran(1, Err(JournalError::Damaged("fenced".to_owned())));
    assert_eq!(effects[effects.len() - 4..], ["cancel read", "give up notes", "drop", "claim"]);
}

#[test]
fn a_failure_whose_note_may_be_stored_or_not_is_left_to_the_next_owner() {
    let mut script = reading(Order::Partition, |_| {});
    script.fail(1);
    script.step(Fact::Finish);
    assert_eq!(script.noted(1, Noted::Abandoned), ["release at 0, 2 suspect after 0 crashes"]);
}

#[test]
fn what_an_earlier_ownership_still_says_is_ignored() {
    let mut script = reading(Order::Partition, |_| {});
    let old = script.owned();
    script.step(Fact::Lost(old.clone()));
    script.ran(1, Ok(vec![]));
    script.claimed(fresh());
    script.read_numbers(1..=9);
    for fact in [
        Fact::Lost(old.clone()),
        Fact::Recorded(old.clone(), Recorded::Refused),
        Fact::Noted(old.clone(), id(1), Noted::Stored),
        Fact::Lapsed(0),
    ] {
        assert!(script.step(fact).is_empty());
    }
    assert_eq!(script.done(1), ["record 1", "run 2"]);
}

#[test]
fn what_a_journal_did_not_take_is_reported_again() {
    let mut script = Script::new(Order::Partition, None, |_| {}).owning(fresh());
    script.read_numbers(1..=1);
    let report = |script: &mut Script, known: Vec<_>| {
        script.step(Fact::ReportDue { all: false });
        assert!(!script.machine.has_unreported(), "one at a time");
        script.step(Fact::Reported { known, lost: Vec::new(), lags: Vec::new() });
        script.machine.has_unreported()
    };
    assert!(report(&mut script, Vec::new()));
    assert!(!report(&mut script, vec![(partition(), id(0))]));
}
