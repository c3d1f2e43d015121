//! The window of a partition: by example, and against a model that computes everything anew.

mod model;

use std::time::{Duration, Instant};

use menagerie_journal::{Message, Ticks};
use menagerie_znodes::queues::{Order, Retry};

use super::{id, message};
use crate::core::window::{AfterNote, RunId, Standing, Window};

const TICKS: Ticks = Ticks(0);

fn window(order: Order, retry: Retry, messages: &[Message]) -> Window {
    let mut window = Window::new(order, retry, []);
    messages.iter().cloned().for_each(|message| window.insert(message));
    window
}

/// Messages 1, 2, … with these keys.
fn keyed(keys: &[&str]) -> Vec<Message> {
    keys.iter().zip(1..).map(|(key, ticks)| message(ticks, Some(key), 0)).collect()
}

/// Begins whatever may, one message per run, and returns it in this order.
fn begin_all(window: &mut Window, now: Instant) -> Vec<u64> {
    let mut begun = Vec::new();
    while let Some(next) = window.candidate(false) {
        window.begin(RunId(next.0.0), &[(next, 1)], Some(now));
        begun.push(next.0.0);
    }
    begun
}

/// Ends the run of this message, which has failed.
fn fail(window: &mut Window, message: u64, until: Instant) {
    assert_eq!(window.end(RunId(message)).len(), 1);
    window.fail(id(message), "no".to_owned());
    window.set(id(message), Standing::BackingOff(until));
}

/// Ends the run of this message, which is done.
fn finish(window: &mut Window, message: u64) {
    window.end(RunId(message));
    window.remove(id(message));
}

#[test]
fn messages_of_a_key_begin_one_after_the_other_and_keys_side_by_side() {
    let now = Instant::now();
    let mut messages = keyed(&["a", "b", "a", "b", "c"]);
    messages.extend([message(6, None, 0), message(7, None, 0)]);
    let mut window = window(Order::Key, Retry::Later, &messages);
    assert_eq!(begin_all(&mut window, now), [1, 2, 5, 6, 7], "without a key they wait for nobody");
    finish(&mut window, 1);
    assert_eq!(begin_all(&mut window, now), [3]);
}

#[test]
fn of_a_key_that_fails_only_the_key_waits() {
    let (now, later) = (Instant::now(), Instant::now() + Duration::from_secs(1));
    let mut window = window(Order::Key, Retry::Later, &keyed(&["a", "b", "a", "b"]));
    assert_eq!(begin_all(&mut window, now), [1, 2]);
    fail(&mut window, 1, later);
    finish(&mut window, 2);
    assert_eq!(begin_all(&mut window, now), [4]);
    window.wake(later);
    assert_eq!(begin_all(&mut window, later), [1]);
}

#[test]
fn with_block_nothing_behind_a_failing_message_begins_until_it_is_done() {
    let (now, later) = (Instant::now(), Instant::now() + Duration::from_secs(1));
    for order in [Order::Partition, Order::Key, Order::None] {
        let mut window = window(order, Retry::Block, &keyed(&["a", "b", "c"]));
        window.begin(RunId(1), &[(id(1), 1)], Some(now));
        fail(&mut window, 1, later);
        assert_eq!((window.candidate(false), window.next_wake()), (None, Some(later)), "{order:?}");
        window.wake(later);
        assert_eq!(window.candidate(false), Some(id(1)), "{order:?}");
        window.begin(RunId(1), &[(id(1), 2)], Some(now));
        assert!(order == Order::Partition || window.candidate(false).is_none(), "it may fail again");
        finish(&mut window, 1);
        assert_eq!(window.candidate(false), Some(id(2)), "{order:?}");
    }
}

#[test]
fn in_order_with_later_a_failed_message_steps_aside_and_comes_back_first() {
    let (now, later) = (Instant::now(), Instant::now() + Duration::from_secs(1));
    let mut window = window(Order::Partition, Retry::Later, &keyed(&["a", "a", "a"]));
    window.begin(RunId(1), &[(id(1), 1)], Some(now));
    assert_eq!(window.candidate(false), None, "one at a time");
    fail(&mut window, 1, later);
    assert_eq!(window.candidate(false), Some(id(2)));
    window.wake(later);
    assert_eq!(window.candidate(false), Some(id(1)));
}

#[test]
fn without_order_priority_comes_first_then_age() {
    let messages = [(1, 0), (2, 5), (3, -1), (4, 5), (5, 0)];
    let messages = messages.map(|(ticks, priority)| message(ticks, None, priority));
    let mut window = window(Order::None, Retry::Later, &messages);
    assert_eq!(begin_all(&mut window, Instant::now()), [2, 4, 1, 5, 3]);
}

#[test]
fn priority_does_not_change_a_promised_order() {
    for order in [Order::Partition, Order::Key] {
        let window = window(order, Retry::Block, &[message(1, Some("a"), 0), message(2, Some("b"), 9)]);
        assert_eq!(window.candidate(false), Some(id(1)), "{order:?}");
    }
}

#[test]
fn a_batch_takes_what_is_behind_in_order_or_one_of_each_key_or_any() {
    let now = Instant::now();
    let batches = [Order::Partition, Order::Key, Order::None].map(|order| {
        let window = window(order, Retry::Block, &keyed(&["a", "a", "b", "b", "c"]));
        let batch = window.batch(id(1), 4, TICKS, |message| message != id(4));
        batch.into_iter().map(|message| message.0.0).collect::<Vec<_>>()
    });
    assert_eq!(batches[0], [1, 2, 3], "it ends before one of which something special is known");
    assert_eq!(batches[1], [1, 3, 5]);
    assert_eq!(batches[2], [1, 2, 3, 5]);
    let mut window = window(Order::None, Retry::Later, &keyed(&["a", "b", "c"]));
    window.begin(RunId(3), &[(id(3), 1)], Some(now));
    fail(&mut window, 3, now);
    window.wake(now);
    assert_eq!(window.batch(id(1), 4, TICKS, |_| true), [id(1)], "a failing one must not take others along");
}

#[test]
fn an_expired_message_is_in_nobody_s_batch() {
    for order in [Order::Partition, Order::Key, Order::None] {
        let mut messages = keyed(&["a", "b", "c"]);
        messages[1].expires = Some(Ticks(9));
        let window = window(order, Retry::Block, &messages);
        let batch = |ticks| window.batch(id(1), 9, Ticks(ticks), |_| true).len();
        assert_eq!(batch(8), 3, "{order:?}");
        assert_eq!(batch(9), if order == Order::Partition { 1 } else { 2 }, "{order:?}");
        assert!(window.is_expired(id(2), Ticks(9)) && !window.is_expired(id(2), Ticks(8)));
    }
}

#[test]
fn one_by_one_only_the_first_unfinished_begins_and_only_when_nothing_else_is_going_on() {
    let now = Instant::now();
    let mut window = window(Order::None, Retry::Later, &keyed(&["a", "b"]));
    assert_eq!(window.candidate(true), Some(id(1)));
    window.begin(RunId(2), &[(id(2), 1)], Some(now));
    assert_eq!(window.candidate(true), None);
    window.end(RunId(2));
    window.set(id(2), Standing::Noting(AfterNote::Skip));
    assert_eq!((window.candidate(true), window.is_quiet()), (None, false));
    window.remove(id(2));
    window.set(id(1), Standing::Recording);
    assert_eq!((window.candidate(true), window.is_recording(), window.has_recorded()), (None, true, true));
    window.set(id(1), Standing::Recorded);
    assert_eq!(
        (window.candidate(true), window.is_recording(), window.has_recorded()),
        (Some(id(1)), false, true)
    );
}

#[test]
fn one_that_was_unfinished_before_is_first_even_if_it_is_read_later() {
    let mut window = Window::new(Order::Partition, Retry::Later, [id(3), id(5)]);
    assert_eq!([0, 3, 5].map(|after| window.next_unread(id(after))), [Some(id(3)), Some(id(5)), None]);
    assert_eq!((window.candidate(true), window.candidate(false)), (None, None), "it is not read yet");
    window.insert(message(9, None, 0));
    window.insert(message(3, None, 0));
    assert_eq!(window.candidate(false), Some(id(3)));
    assert_eq!(window.open(id(5)).collect::<Vec<_>>(), [id(3), id(5)]);
    window.remove(id(3));
    assert_eq!(window.first(), Some(id(5)));
}

#[test]
fn a_message_of_which_nothing_is_known_changes_nothing() {
    let mut window = window(Order::Key, Retry::Later, &keyed(&["a"]));
    window.set(id(9), Standing::BackingOff(Instant::now()));
    window.fail(id(9), "no".to_owned());
    assert_eq!((window.remove(id(9)), window.end(RunId(9)), window.next_wake()), (None, Vec::new(), None));
    assert_eq!((window.candidate(false), window.size().0), (Some(id(1)), 1));
}

#[test]
fn ten_thousand_messages_of_as_many_keys_take_no_time_worth_mentioning() {
    let began = Instant::now();
    let mut window = Window::new(Order::Key, Retry::Later, []);
    (1..=10_000).for_each(|ticks| window.insert(message(ticks, Some(&ticks.to_string()), 0)));
    let begun = begin_all(&mut window, began);
    assert_eq!(begun.len(), 10_000);
    begun.iter().for_each(|message| fail(&mut window, *message, began));
    window.wake(began);
    assert_eq!(begin_all(&mut window, began).len(), 10_000);
    let took = began.elapsed();
    assert!(took < Duration::from_secs(5), "{took:?}");
}

#[test]
fn what_a_cursor_has_passed_is_what_was_read_before_the_first_unfinished_one_behind_it() {
    let mut window = Window::new(Order::None, Retry::Later, [id(1), id(2)]);
    assert_eq!(window.passed_by(id(0)), 0);
    // Those that were unfinished when the partition was taken were passed before.
    (1..=5).map(|ticks| message(ticks, None, 0)).for_each(|message| window.insert(message));
    assert_eq!(begin_all(&mut window, Instant::now()), [1, 2, 3, 4, 5]);
    finish(&mut window, 1);
    finish(&mut window, 4);
    assert_eq!(window.passed_by(id(1)), 0, "message 2 hangs");
    finish(&mut window, 2);
    assert_eq!(window.passed_by(id(2)), 0);
    assert_eq!(
        window.passed_by(id(3)),
        2,
        "at most once: message 3 is recorded before it begins, and 4 is done"
    );
    finish(&mut window, 3);
    finish(&mut window, 5);
    assert_eq!(window.passed_by(id(5)), 3);
}
