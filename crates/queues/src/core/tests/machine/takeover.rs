//! What a new owner makes of what the one before it left.

use std::num::NonZeroU32;
use std::time::Duration;

use menagerie_journal::{Message, Ticks};
use menagerie_znodes::queues::{Order, Retry};

use super::super::{count, id, message};
use super::script::{Script, fresh, vanished};
use crate::core::lane::Ownership;
use crate::core::machine::Noted;
use crate::core::options::Options;
use crate::core::tally::{Attempts, StoredAttempts};

fn four(options: &mut Options) {
    options.concurrency = 4;
    options.commit = count(10);
    options.failure.attempts = NonZeroU32::new(3);
}

fn after(order: Order, window: u32, crashes: u32) -> Script {
    let found = Ownership { predecessor: vanished(window, crashes), ..fresh() };
    let mut script = Script::new(order, None, four).owning(found);
    script.read_numbers(1..=9);
    script
}

#[test]
fn in_partition_order_after_one_crash_messages_run_one_by_one_until_all_suspects_are_done() {
    let mut script = after(Order::Partition, 2, 0);
    assert_eq!(script.running(), [[1]]);
    assert_eq!(script.done(1), ["record 1"], "not ahead of its record");
    assert_eq!(script.confirmed(), ["run 2 (attempt 2)"]);
    assert_eq!(script.done(2), ["run 3"], "the next one cannot have begun; records by tens again");
}

#[test]
fn messages_that_have_expired_are_not_the_ones_that_a_dead_owner_may_have_begun() {
    let found = Ownership { predecessor: vanished(2, 0), ..fresh() };
    let mut script = Script::new(Order::Partition, None, four).owning(found);
    script.at = Duration::from_millis(100);
    let expired = (1..=9).map(|number| Message { expires: Some(Ticks(9)), ..message(number, None, 0) });
    let effects = script.read(expired.chain([message(10, None, 0)]));
    assert!(effects.contains(&"record 9".to_owned()), "{effects:?}");
    assert_eq!(script.confirmed(), ["count 2, run 10 (attempt 2)"]);
}

#[test]
fn side_by_side_messages_run_one_by_one_only_after_the_second_crash_in_a_row() {
    for order in [Order::Key, Order::None] {
        let mut script = after(order, 2, 0);
        assert_eq!(script.running().len(), 4, "one crash happens");
        script = after(order, 2, 1);
        assert_eq!(script.running(), [[1]]);
        assert_eq!(script.done(1), ["record 1"]);
        assert_eq!(script.confirmed(), ["run 2 (attempt 2)"]);
        let effects = script.done(2);
        assert_eq!(effects.len(), 4, "side by side again: {effects:?}");
    }
}

#[test]
fn a_careful_owner_passes_on_what_is_still_suspect() {
    let mut script = after(Order::Partition, 3, 1);
    script.done(1);
    script.assign(false);
    // Ten per record, one at a time.
    assert_eq!(script.confirmed(), ["release at 1, forget 1, 20 suspect after 2 crashes"]);
    let mut script = after(Order::None, 3, 0);
    script.assign(false);
    (1..=4).for_each(|number| drop(script.done(number)));
    assert_eq!(script.confirmed(), ["record 4"]);
    let effects = script.confirmed();
    assert!(
        effects.last().unwrap().ends_with("suspect after 0 crashes"),
        "nothing points to a killer: {effects:?}"
    );
}

#[test]
fn poison_is_given_up_without_another_run() {
    let known = Attempts { attempts: 3, given_up: false };
    let attempts = StoredAttempts { messages: [(id(1), known)].into(), begun: id(0) };
    let found = Ownership { predecessor: vanished(2, 4), attempts, ..fresh() };
    let mut script = Script::new(Order::None, None, four).owning(found);
    let effects = script.read_numbers(1..=3);
    assert!(effects.contains(&"note 1 attempt 3, given up".to_owned()), "{effects:?}");
    assert!(script.running().is_empty());
    assert_eq!(script.noted(1, Noted::Stored), ["record 1"]);
    assert_eq!(
        (script.confirmed(), script.endings.clone()),
        (vec!["run 2 (attempt 2)".to_owned()], vec!["1 orphaned".to_owned(), "1 given up".to_owned()])
    );
}

#[test]
fn what_was_given_up_and_not_recorded_is_skipped() {
    let known = Attempts { attempts: 3, given_up: true };
    let attempts = StoredAttempts { messages: [(id(1), known)].into(), begun: id(0) };
    let mut script = Script::new(Order::Partition, None, four).owning(Ownership { attempts, ..fresh() });
    script.read_numbers(1..=2);
    assert_eq!((script.running(), script.endings.clone()), (vec![vec![2]], vec!["1 skipped".to_owned()]));
}

#[test]
fn a_message_that_ran_while_others_backed_off_is_told_so_after_a_crash() {
    // 1 and 2 had failed and backed off when 3 began.
    let failed = Attempts { attempts: 1, given_up: false };
    let attempts = StoredAttempts { messages: [(id(1), failed), (id(2), failed)].into(), begun: id(0) };
    let found = Ownership { attempts, predecessor: vanished(2, 0), ..fresh() };
    let mut script = Script::new(Order::Partition, Some(Retry::Later), |_| {}).owning(found);
    script.read_numbers(1..=3);
    for number in 1..=2 {
        script.done(number);
        script.confirmed();
    }
    script.done(3);
    assert_eq!(script.told, [(1, 2), (2, 2), (3, 2)]);
}

#[test]
fn attempts_of_messages_that_are_done_do_not_stay_in_the_journal() {
    let known = Attempts { attempts: 1, given_up: true };
    let messages = [1, 3, 4, 9].map(|number| (id(number), known)).into();
    let attempts = StoredAttempts { messages, begun: id(0) };
    let beyond = Some((id(5), vec![id(4)]));
    let found = Ownership { cursor: id(2), beyond, attempts, ..fresh() };
    let mut script = Script::new(Order::None, None, |_| {}).owning(found);
    assert_eq!(script.assign(false), ["release at 2, 4 begun 1 given up, forget 1 3"]);
}

fn with_gaps() -> Script {
    let beyond = Some((id(9), vec![id(4), id(6)]));
    Script::new(Order::None, None, |options| options.concurrency = 2).owning(Ownership {
        cursor: id(2),
        beyond,
        ..fresh()
    })
}

#[test]
fn unfinished_messages_are_read_one_by_one_and_done_ones_never() {
    let mut script = Script::new(Order::None, None, |options| options.concurrency = 2);
    script.assign(true);
    let beyond = Some((id(9), vec![id(4), id(6)]));
    assert_eq!(script.claimed(Ownership { cursor: id(2), beyond, ..fresh() }), ["read 4"]);
    assert_eq!(script.read_numbers([4]), ["read 6", "run 4"]);
    assert_eq!(script.read_numbers([6]), ["read after 9", "run 6"]);
    assert_eq!(script.done(6), ["record 3, done through 9 but 4"]);
    script.confirmed();
    assert_eq!(script.done(4), ["record 9"]);
    script.confirmed();
    assert_eq!(script.read_numbers([11]), ["read after 11", "run 11"]);
}

#[test]
fn an_unfinished_message_that_was_deleted_is_passed_over() {
    let mut script = with_gaps();
    assert_eq!(script.read([]), ["record 5, done through 9 but 6", "read 6"]);
    script.confirmed();
    assert_eq!(script.read([]), ["record 9", "read after 9"], "nothing else keeps the cursor back");
}

#[test]
fn gaps_that_the_cursor_has_passed_are_void() {
    let mut script = Script::new(Order::None, None, |_| {});
    script.assign(true);
    let beyond = Some((id(9), vec![id(4)]));
    assert_eq!(script.claimed(Ownership { cursor: id(9), beyond, ..fresh() }), ["read after 9"]);
}

#[test]
fn messages_of_a_key_stay_in_order_behind_one_that_was_unfinished_before() {
    let mut script = Script::new(Order::Key, Some(Retry::Later), |options| options.concurrency = 4);
    script.assign(true);
    let beyond = Some((id(3), vec![id(1)]));
    script.claimed(Ownership { beyond, ..fresh() });
    script.read([message(1, Some("a"), 0)]);
    let effects = script.read([(4, "a"), (5, "b")].map(|(number, key)| message(number, Some(key), 0)));
    assert!(effects.contains(&"run 5".to_owned()) && !effects.contains(&"run 4".to_owned()), "{effects:?}");
    assert!(script.done(1).contains(&"run 4".to_owned()));
}
