use std::num::NonZeroU32;
use std::time::Duration;

use menagerie_journal::{MessageId, Ticks};
use proptest::prelude::*;

use crate::core::failure::{Attempts, Begin, Failure, OnFailure, Policy, Predecessor, Tally, Verdict};

const FIRST: MessageId = MessageId(Ticks(7));
const SECOND: MessageId = MessageId(Ticks(8));

fn policy(attempts: u32) -> Policy {
    Policy { attempts: NonZeroU32::new(attempts).unwrap(), ..Policy::default() }
}

#[test]
fn pauses_grow_up_to_a_limit_and_attempts_end() {
    let policy = Policy { backoff_max: Duration::from_secs(3), ..policy(5) };
    let verdicts: Vec<_> = (1..=5).map(|attempt| policy.judge(attempt, Failure::Retry)).collect();
    let pauses = [1, 2, 3, 3].map(|seconds| Verdict::Retry(Duration::from_secs(seconds)));
    assert_eq!(verdicts[..4], pauses);
    assert_eq!(verdicts[4], Verdict::GiveUp(OnFailure::Queue));
    assert_eq!(policy.judge(u32::MAX - 1, Failure::Stopped), Verdict::Again, "it was no attempt");
    assert_eq!(policy.judge(1, Failure::ForGood), Verdict::GiveUp(OnFailure::Queue));
}

#[test]
fn attempts_continue_where_the_previous_owner_stopped() {
    let stored = Attempts { message: FIRST, attempts: 2, given_up: false, begun: MessageId::ZERO };
    let mut tally = Tally::new(Some(stored), Predecessor::Released);
    assert_eq!(
        tally.begin(FIRST, false, &policy(5)),
        Begin::Run { attempt: 3, task_attempt: 3, store: None }
    );
    assert_eq!(
        tally.begin(SECOND, false, &policy(5)),
        Begin::Run { attempt: 1, task_attempt: 1, store: None }
    );
}

#[test]
fn a_message_that_may_have_run_counts_as_a_second_run_before_it_begins() {
    let mut tally = Tally::new(None, Predecessor::Vanished);
    let store = Attempts { message: FIRST, attempts: 2, given_up: false, begun: MessageId::ZERO };
    assert_eq!(
        tally.begin(FIRST, true, &policy(5)),
        Begin::Run { attempt: 2, task_attempt: 2, store: Some(store) }
    );
    let second = tally.begin(SECOND, true, &policy(5));
    assert_eq!(
        second,
        Begin::Run { attempt: 1, task_attempt: 2, store: None },
        "it may have been the one ahead"
    );
    let third = tally.begin(MessageId(Ticks(9)), false, &policy(5));
    assert_eq!(third, Begin::Run { attempt: 1, task_attempt: 1, store: None });
}

#[test]
fn a_message_given_up_is_skipped_even_if_its_record_was_lost() {
    let mut tally = Tally::new(None, Predecessor::Released);
    let stored = tally.record_failure(FIRST, 1, Verdict::GiveUp(OnFailure::Queue));
    assert!(stored.given_up);
    assert_eq!(Tally::new(Some(stored), Predecessor::Vanished).begin(FIRST, true, &policy(5)), Begin::Skip);
    let stays = tally.record_failure(FIRST, 5, Verdict::GiveUp(OnFailure::Stop));
    assert!(!stays.given_up, "it stays where it is");
}

#[test]
fn a_message_is_not_skipped_before_giving_it_up_is_stored() {
    let (before, zero) = (MessageId(Ticks(6)), MessageId::ZERO);
    let mut tally = Tally::new(None, Predecessor::Released);
    tally.mark_begun(FIRST);
    let stored = tally.record_failure(FIRST, 5, Verdict::GiveUp(OnFailure::Queue));
    let handover = tally.handover(before).unwrap();
    assert!(stored.given_up && !handover.given_up, "the journal has not taken it");
    assert!(matches!(tally.begin(FIRST, false, &policy(5)), Begin::Run { .. }));
    // Now it is stored, but the partition was lost and claimed again before the record; meanwhile the next message was
    // stopped.
    tally.confirm_give_up(FIRST);
    assert!(tally.handover(before).unwrap().given_up);
    tally.record_stop(SECOND, 1);
    let mut again = tally.retaken(Some(stored), before);
    assert_eq!(again.begin(FIRST, false, &policy(5)), Begin::Skip);
    let mut recorded =
        tally.retaken(Some(Attempts { message: FIRST, attempts: 1, given_up: true, begun: zero }), FIRST);
    assert!(
        matches!(recorded.begin(SECOND, false, &policy(5)), Begin::Run { task_attempt: 2, .. }),
        "it was stopped"
    );
}

#[test]
fn a_message_that_never_began_is_tried_however_many_workers_died() {
    // Owners that vanish before it begins store nothing.
    let mut tally = Tally::new(None, Predecessor::Vanished);
    assert!(matches!(tally.begin(FIRST, true, &policy(1)), Begin::Run { .. }));
}

#[test]
fn a_stopped_attempt_does_not_count_and_the_next_is_a_second_run() {
    // Counted before it began, as the previous owner had vanished; stopped, the count is taken back.
    for (before, attempt) in [(Predecessor::Released, 1), (Predecessor::Vanished, 2)] {
        let mut tally = Tally::new(None, before);
        for task_attempt in [attempt, 2, 2] {
            let begin = tally.begin(FIRST, false, &policy(2));
            let Begin::Run { attempt: made, task_attempt: seen, .. } = begin else { panic!("{begin:?}") };
            assert_eq!((made, seen), (attempt, task_attempt));
            tally.mark_begun(SECOND);
            tally.record_stop(FIRST, made);
        }
        let handover = tally.handover(MessageId(Ticks(6))).unwrap();
        let mut next = Tally::new(Some(handover), Predecessor::Released);
        let first = next.begin(FIRST, false, &policy(2));
        assert_eq!(first, Begin::Run { attempt, task_attempt: 2, store: None });
        assert!(next.may_have_run(SECOND), "it was in the same batch");
        assert_eq!(tally.handover(SECOND), None, "all that was begun is recorded");
    }
}

proptest! {
    /// A message that kills every worker runs as often as allowed, and then no more.
    #[test]
    fn poison_ends(attempts in 2_u32..10) {
        let policy = policy(attempts);
        let (mut stored, mut runs) = (None, 0);
        let mut before = Predecessor::Released;
        loop {
            let mut tally = Tally::new(stored, before);
            match tally.begin(FIRST, before == Predecessor::Vanished, &policy) {
                Begin::Run { attempt, task_attempt, store } => {
                    runs += 1;
                    prop_assert_eq!((attempt, task_attempt), (runs, runs), "every run knows that it is another one");
                    prop_assert!(runs <= attempts);
                    stored = store.or(stored);
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
