use std::time::{Duration, Instant};

use super::{count, id};
use crate::core::ledger::{Ack, Commit, Ledger};

fn ledger(commit: Commit) -> Ledger {
    Ledger::new(id(0), id(0), commit, Ack::After)
}

/// Messages are done, one after the other.
fn finish(ledger: &mut Ledger, messages: impl IntoIterator<Item = u64>, now: Instant) {
    messages.into_iter().for_each(|message| ledger.finish(id(message), now));
}

/// Records all that is done.
fn record(ledger: &mut Ledger) {
    ledger.start_record(ledger.frontier(None));
    ledger.confirm_record();
}

#[test]
fn the_next_message_can_begin_while_a_record_is_in_flight_and_no_more_than_one() {
    let now = Instant::now();
    let mut ledger = ledger(Commit::EACH);
    finish(&mut ledger, [1], now);
    assert!(ledger.is_record_due(false, now) && !ledger.can_begin(0, 1, now), "the due record comes first");
    ledger.start_record(id(1));
    assert!(ledger.can_begin(0, 1, now) && !ledger.can_begin(1, 1, now));
    finish(&mut ledger, [2], now);
    assert!(!ledger.can_begin(0, 1, now) && !ledger.is_record_due(true, now), "one record at a time");
    assert!(ledger.is_waiting_for_record(0));
    ledger.confirm_record();
    assert_eq!((ledger.confirmed(), ledger.is_record_due(false, now)), (id(1), true));
    assert!(!ledger.can_begin(0, 1, now), "the record that is due comes first");
    ledger.start_record(id(2));
    assert!(ledger.can_begin(0, 1, now));
}

#[test]
fn side_by_side_a_record_is_due_as_early_and_more_may_run_ahead_of_it() {
    let now = Instant::now();
    let (width, mut ledger) = (4, ledger(count(2)));
    finish(&mut ledger, 1..=2, now);
    assert!(ledger.is_record_due(false, now) && ledger.can_begin(3, width, now));
    ledger.start_record(id(2));
    finish(&mut ledger, 3..=9, now);
    assert!(ledger.can_begin(3, width, now) && !ledger.can_begin(4, width, now));
    finish(&mut ledger, [10], now);
    assert!(!ledger.can_begin(0, width, now), "two for each of four, and none recorded");
    ledger.confirm_record();
    ledger.start_record(id(10));
    assert!(ledger.can_begin(0, width, now));
}

#[test]
fn a_release_waits_for_the_record_and_makes_it_due() {
    let now = Instant::now();
    for commit in [count(100), Commit::Every(Duration::from_secs(60))] {
        let mut ledger = ledger(commit);
        finish(&mut ledger, [1], now);
        assert!(!ledger.is_record_due(false, now) && !ledger.is_recorded());
        ledger.close();
        assert!(!ledger.can_begin(0, 1, now) && ledger.is_record_due(false, now));
        ledger.start_record(id(1));
        assert!(!ledger.is_recorded());
        ledger.confirm_record();
        assert!(ledger.is_recorded() && !ledger.can_begin(0, 1, now));
        ledger.reopen();
        assert!(ledger.can_begin(0, 1, now), "it is ours after all");
    }
}

#[test]
fn counted_records_are_due_at_their_count_or_when_idle() {
    let now = Instant::now();
    let mut ledger = ledger(count(3));
    assert!(!ledger.is_record_due(true, now), "nothing is done");
    finish(&mut ledger, 1..=2, now);
    assert_eq!([false, true].map(|is_idle| ledger.is_record_due(is_idle, now)), [false, true]);
    finish(&mut ledger, [3], now);
    assert!(ledger.is_record_due(false, now));
    assert_eq!(ledger.record_at(), None, "no timer");
}

#[test]
fn timed_records_are_due_after_their_time_since_the_first_unrecorded_message_even_if_idle() {
    let now = Instant::now();
    let later = now + Duration::from_millis(50);
    let mut ledger = ledger(Commit::Every(Duration::from_millis(50)));
    finish(&mut ledger, [1], now);
    finish(&mut ledger, [2], now + Duration::from_millis(30));
    assert_eq!((ledger.is_record_due(true, now), ledger.record_at()), (false, Some(later)));
    assert!(ledger.can_begin(0, 1, now) && !ledger.can_begin(0, 1, later));
    assert!(ledger.is_record_due(false, later));
    record(&mut ledger);
    assert_eq!((ledger.record_at(), ledger.confirmed()), (None, id(2)));
}

#[test]
fn the_cursor_stops_before_the_first_unfinished_message_and_never_goes_back() {
    let now = Instant::now();
    let mut ledger = ledger(Commit::EACH);
    finish(&mut ledger, [5, 2], now);
    assert_eq!(ledger.done(), id(5));
    let frontiers =
        [Some(1), Some(3), Some(5), Some(6), Some(9), None].map(|first| ledger.frontier(first.map(id)));
    assert_eq!(frontiers, [0, 2, 4, 5, 5, 5].map(id));
    record(&mut ledger);
    assert_eq!(ledger.frontier(Some(id(2))), id(5));
}

#[test]
fn what_a_previous_owner_did_beyond_the_cursor_is_done() {
    let ledger = Ledger::new(id(3), id(9), Commit::EACH, Ack::After);
    assert_eq!((ledger.confirmed(), ledger.done(), ledger.is_recorded()), (id(3), id(9), true));
    assert_eq!([Some(id(5)), None].map(|first| ledger.frontier(first)), [id(4), id(9)]);
    let stale = Ledger::new(id(9), id(3), Commit::EACH, Ack::After);
    assert_eq!(stale.done(), id(9), "the cursor has passed it since");
}

#[test]
fn at_most_once_a_message_is_recorded_when_its_turn_comes_and_nothing_begins_meanwhile() {
    let now = Instant::now();
    let mut ledger = Ledger::new(id(0), id(0), Commit::EACH, Ack::Before);
    assert!(ledger.records_first() && ledger.can_begin(0, 1, now) && !ledger.can_begin(1, 9, now));
    ledger.start_record(id(1));
    assert!(!ledger.can_begin(0, 1, now) && !ledger.is_recorded());
    ledger.confirm_record();
    assert_eq!((ledger.confirmed(), ledger.done()), (id(1), id(0)));
    finish(&mut ledger, [1], now);
    assert!(ledger.is_recorded() && !ledger.is_record_due(true, now), "it is recorded already");
}

#[test]
fn after_an_owner_that_did_not_release_messages_are_recorded_one_by_one_for_a_while() {
    let now = Instant::now();
    let window = count(2).window(Ack::After, 1, 1);
    let mut ledger = ledger(count(2)).with_careful_window(window);
    assert_eq!(window, 4);
    for message in 1..=4 {
        assert!(ledger.can_begin(0, 3, now) && !ledger.can_begin(1, 3, now));
        finish(&mut ledger, [message], now);
        if message < 4 {
            assert!(!ledger.can_begin(0, 3, now), "not ahead of its record");
            assert!(ledger.is_record_due(false, now));
            ledger.start_record(id(message));
            assert!(!ledger.can_begin(0, 3, now), "not before it is stored");
            ledger.confirm_record();
        }
    }
    assert!(ledger.careful() == 0 && ledger.can_begin(2, 3, now), "as before");
}

#[test]
fn the_careful_window_covers_what_an_owner_may_have_begun() {
    // Count per record, batches at a time, messages per batch.
    let table =
        [(1, 1, 1, 2), (1, 1, 50, 100), (10, 1, 1, 20), (10, 1, 5, 28), (1, 64, 1, 254), (3, 4, 2, 38)];
    for (rule, width, batch, window) in table {
        assert_eq!(count(rule).window(Ack::After, width, batch), window);
        assert_eq!(count(rule).window(Ack::Before, width, batch), 0, "it is recorded before it begins");
    }
    assert_eq!(Commit::Every(Duration::from_secs(1)).window(Ack::After, 1, 1), 1_000);
    assert_eq!(count(u32::MAX).window(Ack::After, usize::MAX, usize::MAX), u32::MAX, "no overflow");
}
