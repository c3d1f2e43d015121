use std::collections::BTreeMap;
use std::num::NonZeroU32;

use menagerie_journal::{MessageId, Ticks};
use proptest::prelude::*;

use super::id;
use crate::core::failure::{OnFailure, Policy, Verdict};
use crate::core::tally::{Attempts, Begin, Predecessor, StoredAttempts, Tally};

const FIRST: MessageId = MessageId(Ticks(7));
const SECOND: MessageId = MessageId(Ticks(8));
const GIVE_UP: Verdict = Verdict::GiveUp(OnFailure::Queue);

fn policy(attempts: u32) -> Policy {
    Policy { attempts: NonZeroU32::new(attempts).unwrap(), ..Policy::default() }
}

fn stored(messages: &[(MessageId, Attempts)]) -> StoredAttempts {
    StoredAttempts { messages: messages.iter().copied().collect(), begun: MessageId::ZERO }
}

fn made(attempts: u32) -> Attempts {
    Attempts { attempts, given_up: false }
}

fn released() -> Tally {
    Tally::new(StoredAttempts::default(), Predecessor::Released, 0)
}

/// A run that stores nothing first.
fn run(attempt: u32, task_attempt: u32) -> Begin {
    Begin::Run { attempt, task_attempt, store: None }
}

#[test]
fn attempts_continue_where_the_previous_owner_stopped() {
    let mut tally = Tally::new(stored(&[(FIRST, made(2))]), Predecessor::Released, 0);
    assert_eq!(tally.begin(FIRST, &policy(5)), run(3, 3));
    assert_eq!(tally.begin(SECOND, &policy(5)), run(1, 1));
}

#[test]
fn a_message_that_stopped_its_worker_is_tried_again_whatever_the_owner_before_has_left() {
    let stop = Policy { on_failure: OnFailure::Stop, ..policy(2) };
    for before in [Predecessor::Released, Predecessor::Vanished] {
        let mut tally = Tally::new(stored(&[(FIRST, made(2))]), before, 2);
        let begin = tally.begin(FIRST, &stop);
        assert!(matches!(begin, Begin::Run { attempt: 3, task_attempt: 3, .. }), "{before:?}: {begin:?}");
    }
    let mut tally = Tally::new(stored(&[(FIRST, made(2))]), Predecessor::Vanished, 2);
    assert_eq!(tally.begin(FIRST, &policy(2)), Begin::Poison { attempts: 2 });
}

#[test]
fn each_message_has_its_own_attempts() {
    let mut tally = released();
    tally.record_failure(FIRST, 1, Verdict::Again);
    tally.record_failure(SECOND, 4, Verdict::Again);
    assert_eq!(tally.begin(SECOND, &policy(9)), run(5, 5));
    assert_eq!(tally.begin(FIRST, &policy(9)), run(2, 2));
}

#[test]
fn a_message_that_may_have_run_counts_as_a_second_run_before_it_begins() {
    let mut tally = Tally::new(StoredAttempts::default(), Predecessor::Vanished, 2);
    let first = Begin::Run { attempt: 2, task_attempt: 2, store: Some(made(2)) };
    assert_eq!(tally.begin(FIRST, &policy(5)), first);
    tally.finish(FIRST);
    assert_eq!(tally.begin(SECOND, &policy(5)), run(1, 2), "it may have been the one ahead");
    tally.finish(SECOND);
    assert_eq!(tally.begin(id(9), &policy(5)), run(1, 1), "the vanished owner cannot have begun more");
}

#[test]
fn a_message_that_a_previous_owner_had_begun_and_not_read_is_a_second_run() {
    let begun = StoredAttempts { messages: BTreeMap::new(), begun: SECOND };
    let mut tally = Tally::new(begun, Predecessor::Released, 0);
    assert_eq!(tally.begin(FIRST, &policy(5)), run(1, 2));
    assert_eq!(tally.begin(id(9), &policy(5)), run(1, 1));
}

#[test]
fn a_message_given_up_is_skipped_even_if_its_record_was_lost() {
    let given_up = released().record_failure(FIRST, 1, GIVE_UP);
    assert!(given_up.given_up);
    let mut next = Tally::new(stored(&[(FIRST, given_up)]), Predecessor::Vanished, 2);
    assert_eq!(next.begin(FIRST, &policy(5)), Begin::Skip);
    let second = Begin::Run { attempt: 2, task_attempt: 2, store: Some(made(2)) };
    assert_eq!(next.begin(SECOND, &policy(5)), second, "the one that may have killed its worker");
    let stays = released().record_failure(FIRST, 5, Verdict::GiveUp(OnFailure::Stop));
    assert!(!stays.given_up, "it stays where it is");
}

#[test]
fn a_message_is_not_skipped_before_giving_it_up_is_stored() {
    let mut tally = released();
    tally.mark_begun(&[FIRST]);
    let given_up = tally.record_failure(FIRST, 5, GIVE_UP);
    assert_eq!(
        tally.handover([FIRST].into_iter()),
        [(FIRST, made(5))],
        "the journal has not taken that it is given up"
    );
    assert!(matches!(tally.begin(FIRST, &policy(5)), Begin::Run { .. }));
    // Now it is stored, but the partition was lost and claimed again before the record; meanwhile the next message was
    // stopped.
    tally.confirm_give_up(FIRST);
    assert_eq!(tally.handover([FIRST].into_iter()), [(FIRST, given_up)]);
    tally.record_stop(SECOND, 1);
    let mut again = tally.retaken(stored(&[(FIRST, given_up)]));
    assert_eq!(again.begin(FIRST, &policy(5)), Begin::Skip);
    assert_eq!(again.begin(SECOND, &policy(5)), run(1, 2), "it was stopped");
}

#[test]
fn what_the_journal_says_was_given_up_is_skipped_whatever_we_counted() {
    let mut tally = released();
    tally.record_failure(FIRST, 3, Verdict::Again);
    tally.record_failure(SECOND, 3, Verdict::Again);
    let found = stored(&[(FIRST, Attempts { attempts: 3, given_up: true }), (SECOND, made(2))]);
    let mut again = tally.retaken(found);
    assert_eq!(again.begin(FIRST, &policy(5)), Begin::Skip);
    assert_eq!(again.begin(SECOND, &policy(5)), run(4, 4), "our note about it got lost, and counts");
}

#[test]
fn a_message_that_never_began_is_tried_however_many_workers_died() {
    // Owners that vanish before it begins store nothing.
    let mut tally = Tally::new(StoredAttempts::default(), Predecessor::Vanished, 1);
    assert!(matches!(tally.begin(FIRST, &policy(1)), Begin::Run { .. }));
}

#[test]
fn a_stopped_attempt_does_not_count_and_the_next_is_a_second_run() {
    // Counted before it began, as the previous owner had vanished; stopped, the count is taken back.
    for (before, attempt) in [(Predecessor::Released, 1), (Predecessor::Vanished, 2)] {
        let mut tally = Tally::new(StoredAttempts::default(), before, 0);
        for task_attempt in [attempt, 2, 2] {
            let begin = tally.begin(FIRST, &policy(2));
            let Begin::Run { attempt: made, task_attempt: seen, .. } = begin else { panic!("{begin:?}") };
            assert_eq!((made, seen), (attempt, task_attempt));
            tally.mark_begun(&[SECOND]);
            tally.record_stop(FIRST, made);
        }
        let unfinished = || [FIRST, SECOND, id(9)].into_iter();
        let handover = tally.handover(unfinished());
        assert_eq!(handover, [(FIRST, made(attempt - 1)), (SECOND, made(0))], "the third has not begun");
        let mut next = Tally::new(stored(&handover), Predecessor::Released, 0);
        assert_eq!(next.begin(FIRST, &policy(2)), run(attempt, 2));
        assert!(next.may_have_run(SECOND), "it was in the same batch");
        assert!(next.is_fresh(id(9)) && !next.may_have_run(id(9)));
    }
}

#[test]
fn a_message_that_others_have_overtaken_has_not_run() {
    let mut tally = released();
    tally.mark_begun(&[id(9)]);
    assert_eq!(tally.begin(SECOND, &policy(5)), run(1, 1));
    let unfinished = || [FIRST, SECOND, id(9)].into_iter();
    assert_eq!(tally.handover(unfinished()), [(id(9), made(0))]);
    tally.finish(id(9));
    assert_eq!(tally.handover(unfinished()), []);
    // Whether that was recorded, nobody knows if we lose the partition.
    assert!(tally.retaken(StoredAttempts::default()).may_have_run(id(9)));
}

#[test]
fn attempts_are_settled_once_their_message_is_finished_and_until_they_are_forgotten() {
    let mut tally = Tally::new(stored(&[(FIRST, made(2))]), Predecessor::Released, 0);
    tally.record_failure(SECOND, 1, Verdict::Again);
    // Stopped, not failed: the journal has nothing about it.
    tally.record_stop(id(9), 1);
    let settled = |tally: &Tally| tally.settled().collect::<Vec<_>>();
    assert_eq!(settled(&tally), []);
    for message in [SECOND, id(9)] {
        tally.finish(message);
    }
    assert_eq!(settled(&tally), [SECOND]);
    tally.finish(FIRST);
    assert_eq!(settled(&tally), [FIRST, SECOND]);
    tally.forget(&[SECOND]);
    assert_eq!(settled(&tally), [FIRST]);
}

proptest! {
    /// A message that kills every worker runs as often as allowed, and then no more.
    #[test]
    fn poison_ends(attempts in 2_u32..10) {
        let policy = policy(attempts);
        let (mut known, mut runs) = (BTreeMap::new(), 0);
        let mut before = Predecessor::Released;
        loop {
            let stored = StoredAttempts { messages: known.clone(), begun: MessageId::ZERO };
            let mut tally = Tally::new(stored, before, u32::from(before == Predecessor::Vanished));
            match tally.begin(FIRST, &policy) {
                Begin::Run { attempt, task_attempt, store } => {
                    runs += 1;
                    prop_assert_eq!((attempt, task_attempt), (runs, runs), "every run knows that it is another one");
                    prop_assert!(runs <= attempts);
                    known.extend(store.map(|store| (FIRST, store)));
                }
                Begin::Poison { attempts: made } => {
                    prop_assert_eq!((made, runs), (attempts, attempts));
                    break;
                }
                Begin::Skip => prop_assert!(false, "nobody has given it up"),
            }
            before = Predecessor::Vanished;
        }
    }
}
