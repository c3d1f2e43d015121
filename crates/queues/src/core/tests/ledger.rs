use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use menagerie_journal::{MessageId, Ticks};
use proptest::prelude::*;

use crate::core::ledger::{Ack, Commit, Ledger};

fn id(ticks: u64) -> MessageId {
    MessageId(Ticks(ticks))
}

fn ids(range: std::ops::RangeInclusive<u64>) -> impl Iterator<Item = MessageId> + Clone {
    range.map(id)
}

fn nothing() -> impl Iterator<Item = MessageId> + Clone {
    std::iter::empty()
}

fn count(count: u32) -> Commit {
    Commit::Count(NonZeroU32::new(count).unwrap())
}

fn ledger(commit: Commit) -> Ledger {
    Ledger::new(id(0), commit, Ack::After)
}

#[test]
fn the_next_message_can_run_while_a_record_is_in_flight_and_no_more_than_one() {
    let now = Instant::now();
    let mut ledger = ledger(Commit::EACH);
    ledger.begin([id(1)]);
    ledger.finish(1, now);
    assert_eq!(ledger.record_due(ids(2..=9), false, now), Some(id(1)));
    ledger.start_record(id(1));
    assert_eq!(ledger.ready_count(ids(2..=9), 1, now), 1);
    ledger.begin([id(2)]);
    ledger.finish(1, now);
    assert_eq!(
        (ledger.ready_count(ids(3..=9), 1, now), ledger.record_due(ids(3..=9), false, now)),
        (0, None)
    );
    ledger.confirm_record();
    assert_eq!((ledger.confirmed(), ledger.record_due(ids(3..=9), false, now)), (id(1), Some(id(2))));
    assert_eq!(ledger.ready_count(ids(3..=9), 1, now), 0, "the record that is due comes first");
    ledger.start_record(id(2));
    assert_eq!(ledger.ready_count(ids(3..=9), 1, now), 1);
}

#[test]
fn after_a_refused_record_nothing_begins_any_more() {
    let now = Instant::now();
    let mut ledger = ledger(Commit::EACH);
    ledger.begin([id(1)]);
    ledger.finish(1, now);
    ledger.start_record(id(1));
    ledger.begin([id(2)]);
    ledger.lose();
    assert!(!ledger.can_release(), "it still runs");
    ledger.finish(0, now);
    assert!(ledger.can_release());
    assert_eq!(
        (ledger.ready_count(ids(2..=9), 1, now), ledger.record_due(ids(2..=9), false, now)),
        (0, None)
    );
}

#[test]
fn an_awaited_record_is_due_whatever_the_policy() {
    let now = Instant::now();
    let mut ledger = ledger(count(5));
    ledger.begin([id(1)]);
    ledger.finish(1, now);
    assert!(!ledger.is_recorded());
    assert_eq!(ledger.record_due(ids(2..=9), false, now), None);
    assert_eq!(ledger.record_due(ids(2..=9), true, now), Some(id(1)));
    ledger.start_record(id(1));
    assert_eq!((ledger.is_recorded(), ledger.record_due(ids(2..=9), true, now)), (false, None));
    ledger.confirm_record();
    assert_eq!((ledger.is_recorded(), ledger.record_due(ids(2..=9), true, now)), (true, None));
}

#[test]
fn a_release_waits_for_the_record_and_makes_it_due() {
    let now = Instant::now();
    for commit in [count(100), Commit::Every(Duration::from_secs(60))] {
        let mut ledger = ledger(commit);
        ledger.begin([id(1)]);
        ledger.close();
        assert!(!ledger.can_release());
        ledger.finish(1, now);
        assert!(!ledger.can_release());
        assert_eq!(ledger.ready_count(ids(2..=9), 1, now), 0);
        assert_eq!(ledger.record_due(ids(2..=9), false, now), Some(id(1)));
        ledger.start_record(id(1));
        assert!(!ledger.can_release());
        ledger.confirm_record();
        assert!(ledger.can_release());
    }
}

#[test]
fn counted_records_are_due_at_their_count_or_when_idle() {
    let now = Instant::now();
    let mut ledger = ledger(count(3));
    for message in 1..=2 {
        ledger.begin([id(message)]);
        ledger.finish(1, now);
    }
    assert_eq!(ledger.record_due(ids(3..=9), false, now), None);
    assert_eq!(ledger.record_due(nothing(), false, now), Some(id(2)), "it is idle");
    ledger.begin([id(3)]);
    assert_eq!(ledger.record_due(nothing(), false, now), None, "it is not idle while one runs");
    ledger.finish(1, now);
    assert_eq!(ledger.record_due(ids(4..=9), false, now), Some(id(3)));
}

#[test]
fn timed_records_are_due_after_their_time_since_the_first_unrecorded_message() {
    let now = Instant::now();
    let later = now + Duration::from_millis(50);
    let mut ledger = ledger(Commit::Every(Duration::from_millis(50)));
    ledger.begin([id(1)]);
    ledger.finish(1, now);
    ledger.begin([id(2)]);
    ledger.finish(1, now + Duration::from_millis(30));
    assert_eq!((ledger.record_due(nothing(), false, now), ledger.record_at()), (None, Some(later)));
    assert_eq!(ledger.record_due(nothing(), false, later), Some(id(2)));
}

#[test]
fn of_a_batch_the_done_prefix_is_recorded() {
    let now = Instant::now();
    let mut ledger = ledger(Commit::EACH);
    assert_eq!(ledger.ready_count(ids(1..=9), 4, now), 4);
    ledger.begin(ids(1..=4));
    ledger.finish(2, now);
    assert_eq!(ledger.record_due(ids(3..=9), false, now), Some(id(2)));
    assert_eq!(ledger.done(), id(2));
    ledger.start_record(id(2));
    assert_eq!(ledger.ready_count(ids(3..=9), 4, now), 4);
}

/// Records the next message, which must happen before it begins.
fn record_first(ledger: &mut Ledger, message: MessageId) {
    assert!(ledger.must_record_first(message));
    ledger.start_record(message);
}

#[test]
fn at_most_once_a_message_is_recorded_when_its_turn_comes_and_then_begins() {
    let now = Instant::now();
    let mut ledger = Ledger::new(id(0), Commit::EACH, Ack::Before);
    assert_eq!(
        (ledger.ready_count(ids(1..=9), 1, now), ledger.record_due(ids(1..=9), false, now)),
        (1, None)
    );
    record_first(&mut ledger, id(1));
    assert_eq!(ledger.ready_count(ids(1..=9), 1, now), 0, "it is not recorded yet");
    ledger.close();
    assert!(!ledger.can_release());
    ledger.confirm_record();
    assert!(!ledger.can_release(), "what was recorded has to be handled: nobody else would");
    assert_eq!(ledger.ready_count(ids(1..=9), 5, now), 1);
    assert!(!ledger.must_record_first(id(1)));
    ledger.begin([id(1)]);
    assert_eq!(ledger.finish(0, now), 1, "however it ended");
    assert!(ledger.can_release());
    assert_eq!(
        (ledger.ready_count(ids(2..=9), 1, now), ledger.record_due(ids(2..=9), false, now)),
        (0, None)
    );
}

#[test]
fn at_most_once_a_message_that_cannot_be_recorded_does_not_begin() {
    let now = Instant::now();
    let mut ledger = Ledger::new(id(0), Commit::EACH, Ack::Before);
    record_first(&mut ledger, id(1));
    ledger.lose();
    assert_eq!(ledger.ready_count(ids(1..=9), 1, now), 0);
}

#[test]
fn after_an_owner_that_did_not_release_messages_are_recorded_one_by_one_for_a_while() {
    let now = Instant::now();
    let mut ledger = ledger(count(2)).with_careful_window(count(2).window(Ack::After, 1));
    for message in 1..=4 {
        assert_eq!(ledger.ready_count(ids(message..=9), 3, now), 1);
        ledger.begin([id(message)]);
        ledger.finish(1, now);
        if message < 4 {
            assert_eq!(ledger.ready_count(ids(message + 1..=9), 3, now), 0, "not ahead of its record");
            assert_eq!(ledger.record_due(ids(message + 1..=9), false, now), Some(id(message)));
            ledger.start_record(id(message));
            ledger.confirm_record();
        }
    }
    assert_eq!(ledger.ready_count(ids(5..=9), 3, now), 3, "as before");
}

#[test]
fn the_careful_window_covers_what_batches_may_have_begun() {
    let now = Instant::now();
    for (rule, batch, window) in [(1, 50, 100_u32), (10, 1, 20), (10, 5, 28)] {
        assert_eq!(
            (count(rule).window(Ack::After, batch), count(rule).window(Ack::Before, batch)),
            (window, 0)
        );
        let mut ledger = ledger(count(rule)).with_careful_window(window);
        for message in 1..=window {
            assert!(ledger.is_careful(), "{message} of {window}");
            ledger.begin([id(message.into())]);
            ledger.finish(1, now);
        }
        assert!(!ledger.is_careful());
    }
}

/// One step of a worker on its partition.
#[derive(Debug, Clone)]
enum Step {
    Begin(usize),
    Finish(usize),
    Record,
    Confirm,
    Doubt(bool),
    Arrive(u64),
    Wait(u64),
    Close,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (1_usize..4).prop_map(Step::Begin),
        4 => (0_usize..4).prop_map(Step::Finish),
        3 => Just(Step::Record),
        3 => Just(Step::Confirm),
        1 => any::<bool>().prop_map(Step::Doubt),
        2 => (1_u64..5).prop_map(Step::Arrive),
        1 => (1_u64..40).prop_map(Step::Wait),
        1 => Just(Step::Close),
    ];
    prop::collection::vec(step, 0..200)
}

fn rules() -> impl Strategy<Value = Commit> {
    prop_oneof![
        Just(Commit::EACH),
        (1_u32..6).prop_map(count),
        (1_u64..50).prop_map(|ms| Commit::Every(Duration::from_millis(ms))),
    ]
}

proptest! {
    /// Whatever happens, in whatever order: the cursor only advances, and never beyond what is done; messages begin in
    /// order; and with counted records, a crash repeats at most two records' worth of batches. At most once: a message
    /// begins only after the cursor has passed it, and only once; a recorded message that has not begun still can, and
    /// no other.
    #[test]
    fn nothing_is_skipped_and_little_is_repeated(
        steps in steps(), commit in rules(), before in any::<bool>(), careful in any::<bool>(), batch in 1_usize..4,
    ) {
        let ack = if before { Ack::Before } else { Ack::After };
        let mut ledger = Ledger::new(id(0), commit, ack);
        if careful {
            ledger = ledger.with_careful_window(commit.window(Ack::After, batch));
        }
        let (mut now, mut last, mut cursor) = (Instant::now(), 0_u64, 0_u64);
        let (mut on_its_way, mut latest) = (None, 0_u64);
        for step in steps {
            let behind = ledger.done().0.0;
            let waiting = ids(behind + 1..=last);
            match step {
                Step::Arrive(more) => last += more,
                Step::Wait(ms) => now += Duration::from_millis(ms),
                Step::Close => ledger.close(),
                Step::Begin(wish) => {
                    let room = ledger.ready_count(waiting.clone(), wish.min(batch), now);
                    let next = id(behind + 1);
                    if room > 0 && ledger.must_record_first(next) {
                        prop_assert!(next.0.0 > cursor, "forward");
                        ledger.start_record(next);
                        on_its_way = Some(next.0.0);
                    } else if room > 0 {
                        prop_assert!(ack == Ack::After || next.0.0 > latest, "once");
                        latest = behind + room as u64;
                        ledger.begin(waiting.take(room));
                    }
                }
                Step::Finish(done) => {
                    let done = done.min(ledger.running().len());
                    ledger.finish(done, now);
                }
                Step::Record => {
                    let waiting = waiting.filter(|id| !ledger.running().contains(id));
                    if let Some(position) = ledger.record_due(waiting, false, now) {
                        prop_assert!(on_its_way.is_none(), "one at a time");
                        prop_assert!(position.0.0 > cursor, "forward");
                        ledger.start_record(position);
                        on_its_way = Some(position.0.0);
                    }
                }
                Step::Confirm => if let Some(position) = on_its_way.take() {
                    cursor = position;
                    ledger.confirm_record();
                }
                Step::Doubt(happened) => if let Some(position) = on_its_way.take() {
                    cursor = if happened { position } else { cursor };
                    ledger.lose();
                    prop_assert_eq!(ledger.ready_count(waiting, batch, now), 0);
                    // The partition is claimed again.
                    ledger = Ledger::new(id(cursor), commit, ack).as_careful_as(&ledger);
                }
            }
            let begun = ledger.running().last().map_or(ledger.done().0.0, |id| id.0.0);
            match ack {
                Ack::After => prop_assert!(cursor <= ledger.done().0.0),
                Ack::Before => {
                    prop_assert!(begun <= cursor && cursor <= begun + 1);
                    let waits = begun < cursor && on_its_way.is_none();
                    let waiting = ids(begun + 1..=last);
                    prop_assert!(!waits || ledger.ready_count(waiting, 1, now) == 1 && !ledger.can_release());
                }
            }
            if let (Ack::After, Commit::Count(count)) = (ack, commit) {
                let most = 2 * (u64::from(count.get()) - 1 + batch as u64);
                prop_assert!(begun.saturating_sub(cursor) <= most, "{begun} begun, cursor at {cursor}");
            }
            if ledger.can_release() {
                prop_assert!(on_its_way.is_none() && ledger.running().is_empty());
                prop_assert_eq!(cursor.max(ledger.done().0.0), ledger.done().0.0);
            }
        }
    }
}
