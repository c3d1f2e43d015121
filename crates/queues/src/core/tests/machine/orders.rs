//! What begins when, in each order.

use std::num::NonZeroU32;
use std::time::Duration;

use menagerie_journal::Ticks;
use menagerie_znodes::queues::{Order, Retry};

use super::super::message;
use super::script::{Script, fresh};
use crate::core::failure::OnFailure;
use crate::core::ledger::Ack;
use crate::core::machine::{Fact, Noted};
use crate::task::Outcome;

fn script(order: Order, retry: Option<Retry>, concurrency: usize, batch: usize) -> Script {
    let adjust = |options: &mut crate::core::options::Options| {
        (options.concurrency, options.batch) = (concurrency, batch);
        options.failure.backoff = Some(Duration::from_secs(1));
    };
    Script::new(order, retry, adjust).owning(fresh())
}

#[test]
fn in_order_of_the_partition_one_message_begins_however_high_the_concurrency() {
    for retry in [None, Some(Retry::Later)] {
        let mut script = script(Order::Partition, retry, 64, 1);
        script.read_numbers(1..=100);
        assert_eq!(script.running(), [[1]]);
        assert_eq!(script.done(1), ["record 1", "run 2"]);
        assert_eq!(script.done(2), Vec::<String>::new(), "one record in flight, and one due");
        assert_eq!(script.confirmed(), ["record 2", "run 3"]);
    }
}

#[test]
fn without_order_a_partition_has_as_many_running_as_the_worker_may_and_is_refilled() {
    let mut script = script(Order::None, None, 64, 1);
    script.read_numbers(1..=200);
    assert_eq!(script.running().len(), 64);
    for number in 1..=30 {
        let effects = script.done(number);
        assert!(effects.contains(&format!("run {}", number + 64)), "{effects:?}");
    }
    assert_eq!(script.running().len(), 64);
}

#[test]
fn what_is_done_beyond_an_unfinished_message_is_recorded_with_it() {
    let mut script = script(Order::None, None, 4, 1);
    script.read_numbers(1..=4);
    assert_eq!(script.done(3), ["record 0, done through 3 but 1 2"]);
    script.confirmed();
    assert_eq!(script.done(1), ["record 1, done through 3 but 2"]);
    script.confirmed();
    assert_eq!(script.done(2), ["record 3"]);
    script.confirmed();
    assert_eq!(script.done(4), ["record 4"]);
}

#[test]
fn of_a_key_at_most_one_message_runs_and_a_batch_has_at_most_one_of_each() {
    let mut script = script(Order::Key, None, 3, 3);
    let keys = ["a", "a", "b", "b", "c", "a", "d"];
    script.read(keys.iter().zip(1..).map(|(key, number)| message(number, Some(key), 0)));
    assert_eq!(script.running(), [vec![1, 3, 5], vec![7]]);
    let effects = script.ran(1, Ok(vec![Outcome::Done, Outcome::Stopped, Outcome::Done]));
    assert_eq!(effects, ["record 1, done through 5 but 2 3 4", "run 2"], "4 waits for 3, and 6 for 2");
}

#[test]
fn with_block_what_is_behind_a_failed_message_waits_and_with_later_it_goes_on() {
    let behind = [
        (Order::Partition, Retry::Block, vec![]),
        (Order::Partition, Retry::Later, vec!["run 2"]),
        (Order::Key, Retry::Block, vec![]),
        (Order::Key, Retry::Later, vec!["run 3"]),
        (Order::None, Retry::Block, vec![]),
        (Order::None, Retry::Later, vec!["run 2"]),
    ];
    for (order, retry, then) in behind {
        let mut script = script(order, Some(retry), 1, 1);
        script.read([(1, "a"), (2, "a"), (3, "b")].map(|(number, key)| message(number, Some(key), 0)));
        let noting = script.fail(1);
        assert_eq!(noting[0], "note 1 attempt 1", "{order:?} {retry:?}");
        let noted = script.noted(1, Noted::Stored);
        assert_eq!([&noting[1..], &noted[..]].concat(), then, "{order:?} {retry:?}");
        if then.is_empty() {
            assert_eq!(script.pass(Duration::from_secs(1)), ["run 1 (attempt 2)"], "{order:?} {retry:?}");
        }
    }
}

#[test]
fn in_order_what_is_behind_a_failed_message_in_its_batch_runs_again_and_side_by_side_it_counts() {
    for (order, then) in [(Order::Partition, "record 1"), (Order::None, "record 1, done through 3 but 2")] {
        let mut script = script(order, None, 1, 3);
        script.read_numbers(1..=3);
        let outcomes = vec![Outcome::Done, Outcome::retry("no"), Outcome::Done];
        let effects = script.ran(1, Ok(outcomes));
        assert_eq!(effects, ["note 2 attempt 1", then], "{order:?}");
    }
}

#[test]
fn without_order_the_highest_priority_begins_first() {
    let mut script = script(Order::None, None, 1, 1);
    script.read([(1, 0), (2, 9), (3, 5)].map(|(number, priority)| message(number, None, priority)));
    assert_eq!(script.running(), [[2]]);
    assert!(script.done(2).contains(&"run 3".to_owned()));
}

#[test]
fn an_expired_message_does_not_run_and_counts_as_done() {
    for ack in [Ack::After, Ack::Before] {
        let mut script = Script::new(Order::Partition, None, |options| options.ack = ack).owning(fresh());
        script.at = Duration::from_millis(100);
        let mut late = message(1, None, 0);
        late.expires = Some(Ticks(100));
        let effects = script.read([late]);
        assert!(effects.contains(&"record 1".to_owned()), "{effects:?}");
        assert_eq!((script.running().len(), script.endings.clone()), (0, vec!["1 expired".to_owned()]));
        assert_eq!(script.machine.view(script.now().instant).stats.expired, 1);
    }
}

#[test]
fn many_expired_messages_take_one_turn_and_one_record() {
    for (ack, then) in [(Ack::After, "run 100"), (Ack::Before, "record 100 first")] {
        let mut script = Script::new(Order::Partition, None, |options| options.ack = ack).owning(fresh());
        script.at = Duration::from_millis(100);
        let expired = (1..100).map(|number| message(number, None, 0)).map(|mut message| {
            message.expires = Some(Ticks(100));
            message
        });
        let mut effects = script.read(expired.chain([message(100, None, 0)]));
        effects.extend(script.confirmed());
        effects.retain(|effect| !effect.starts_with("read"));
        effects.sort_by_key(|effect| effect != "record 99");
        assert_eq!(effects, ["record 99", then]);
        assert_eq!(script.machine.view(script.now().instant).stats.expired, 99);
    }
}

#[test]
fn a_message_is_given_up_after_its_attempts_and_skipped_once_that_is_stored() {
    let attempts =
        |options: &mut crate::core::options::Options| options.failure.attempts = NonZeroU32::new(2);
    let mut script = Script::new(Order::Partition, None, attempts).owning(fresh());
    script.read_numbers(1..=2);
    script.fail(1);
    script.noted(1, Noted::Stored);
    assert_eq!(script.pass(Duration::from_secs(1)), ["run 1 (attempt 2)"]);
    assert_eq!(script.fail(1), ["note 1 attempt 2, given up"]);
    assert_eq!(script.noted(1, Noted::Stored), ["record 1", "run 2"]);
    assert_eq!(script.endings, ["1 failed", "1 given up"]);
}

#[test]
fn attempts_in_the_journal_are_dropped_only_after_the_record_of_their_message() {
    let mut script = script(Order::Partition, None, 1, 1);
    script.read_numbers(1..=3);
    script.fail(1);
    script.noted(1, Noted::Stored);
    script.pass(Duration::from_secs(1));
    script.done(1);
    assert_eq!(script.fail(2), ["note 2 attempt 1"], "the record of 1 is in flight");
    script.confirmed();
    script.noted(2, Noted::Stored);
    script.pass(Duration::from_secs(1));
    assert_eq!(script.fail(2), ["note 2 attempt 2, forget 1"]);
}

#[test]
fn a_worker_that_stops_at_a_failure_keeps_the_message() {
    let stop = |options: &mut crate::core::options::Options| {
        options.failure.on_failure = OnFailure::Stop;
        options.failure.attempts = Some(NonZeroU32::MIN);
    };
    let mut script = Script::new(Order::Partition, None, stop).owning(fresh());
    script.read_numbers(1..=2);
    assert_eq!(script.fail(1), ["note 1 attempt 1, given up"]);
    assert_eq!(script.noted(1, Noted::Stored), ["release at 0, 1 begun 1"]);
    script.step(Fact::Released(super::script::partition()));
    assert!(script.machine.finished().is_some());
}

#[test]
fn a_paused_queue_begins_nothing_and_what_runs_goes_on() {
    let mut script = script(Order::Partition, None, 1, 1);
    script.read_numbers(1..=2);
    assert!(script.step(Fact::Connected(false)).is_empty());
    assert_eq!(script.done(1), ["record 1"]);
    assert_eq!(script.step(Fact::Connected(true)), ["run 2"]);
}
