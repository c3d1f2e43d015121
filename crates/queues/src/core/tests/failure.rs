use std::num::NonZeroU32;
use std::time::Duration;

use menagerie_journal::{MessageId, Ticks};
use proptest::prelude::*;

use crate::core::failure::{Attempts, Before, Begin, Failure, OnFailure, Policy, Tally, Verdict};

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
fn attempts_go_on_where_the_owner_before_had_stopped() {
    let stored = Attempts { message: FIRST, attempts: 2, given_up: false, begun: MessageId::ZERO };
    let mut tally = Tally::new(Some(stored), Before::Released);
    assert_eq!(tally.begin(FIRST, false, &policy(5)), Begin::Run { attempt: 3, told: 3, store: None });
    assert_eq!(tally.begin(SECOND, false, &policy(5)), Begin::Run { attempt: 1, told: 1, store: None });
}

#[test]
fn what_may_have_run_before_is_known_to_be_a_second_run_and_counted_before_it_begins() {
    let mut tally = Tally::new(None, Before::Vanished);
    let store = Attempts { message: FIRST, attempts: 2, given_up: false, begun: MessageId::ZERO };
    assert_eq!(tally.begin(FIRST, true, &policy(5)), Begin::Run { attempt: 2, told: 2, store: Some(store) });
    let second = tally.begin(SECOND, true, &policy(5));
    assert_eq!(second, Begin::Run { attempt: 1, told: 2, store: None }, "it may have been the one ahead");
    let third = tally.begin(MessageId(Ticks(9)), false, &policy(5));
    assert_eq!(third, Begin::Run { attempt: 1, told: 1, store: None });
}

#[test]
fn a_message_that_was_given_up_is_passed_over_though_its_record_was_lost() {
    let mut tally = Tally::new(None, Before::Released);
    let stored = tally.failed(FIRST, 1, Verdict::GiveUp(OnFailure::Queue));
    assert!(stored.given_up);
    assert_eq!(Tally::new(Some(stored), Before::Vanished).begin(FIRST, true, &policy(5)), Begin::Pass);
    let stays = tally.failed(FIRST, 5, Verdict::GiveUp(OnFailure::Stop));
    assert!(!stays.given_up, "it stays where it is");
}

#[test]
fn a_message_is_not_passed_over_before_it_is_stored_that_it_was_given_up() {
    let (before, zero) = (MessageId(Ticks(6)), MessageId::ZERO);
    let mut tally = Tally::new(None, Before::Released);
    tally.begins(FIRST);
    let stored = tally.failed(FIRST, 5, Verdict::GiveUp(OnFailure::Queue));
    let parting = tally.parting(before).unwrap();
    assert!(stored.given_up && !parting.given_up, "the journal has not taken it");
    assert!(matches!(tally.begin(FIRST, false, &policy(5)), Begin::Run { .. }));
    // It has, and the partition was lost and taken again before the record was made; meanwhile the next one was stopped.
    tally.gave_up(FIRST);
    assert!(tally.parting(before).unwrap().given_up);
    tally.stopped(SECOND, 1);
    let mut again = tally.again(Some(stored), before);
    assert_eq!(again.begin(FIRST, false, &policy(5)), Begin::Pass);
    let mut recorded =
        tally.again(Some(Attempts { message: FIRST, attempts: 1, given_up: true, begun: zero }), FIRST);
    assert!(
        matches!(recorded.begin(SECOND, false, &policy(5)), Begin::Run { told: 2, .. }),
        "it was stopped"
    );
}

#[test]
fn a_message_that_nobody_has_begun_is_tried_however_many_workers_have_died() {
    // Owners that vanish before they begin it store nothing.
    let mut tally = Tally::new(None, Before::Vanished);
    assert!(matches!(tally.begin(FIRST, true, &policy(1)), Begin::Run { .. }));
}

#[test]
fn what_we_have_stopped_does_not_count_and_is_known_to_be_a_second_run() {
    // Counted before it began, as somebody had vanished, and stopped: the count is taken back.
    for (before, attempt) in [(Before::Released, 1), (Before::Vanished, 2)] {
        let mut tally = Tally::new(None, before);
        for told in [attempt, 2, 2] {
            let begin = tally.begin(FIRST, false, &policy(2));
            let Begin::Run { attempt: made, told: said, .. } = begin else { panic!("{begin:?}") };
            assert_eq!((made, said), (attempt, told));
            tally.begins(SECOND);
            tally.stopped(FIRST, made);
        }
        let parting = tally.parting(MessageId(Ticks(6))).unwrap();
        let mut next = Tally::new(Some(parting), Before::Released);
        let first = next.begin(FIRST, false, &policy(2));
        assert_eq!(first, Begin::Run { attempt, told: 2, store: None });
        assert!(next.may_have_run(SECOND), "it was in the same batch");
        assert_eq!(tally.parting(SECOND), None, "all that was begun is recorded");
    }
}

proptest! {
    /// A message that ends every worker that takes it is run as often as is allowed, and then no more.
    #[test]
    fn poison_ends(attempts in 2_u32..10) {
        let policy = policy(attempts);
        let (mut stored, mut runs) = (None, 0);
        let mut before = Before::Released;
        loop {
            let mut tally = Tally::new(stored, before);
            match tally.begin(FIRST, before == Before::Vanished, &policy) {
                Begin::Run { attempt, told, store } => {
                    runs += 1;
                    prop_assert_eq!((attempt, told), (runs, runs), "every run knows that it is another one");
                    prop_assert!(runs <= attempts);
                    stored = store.or(stored);
                }
                Begin::Poison { attempts: made } => {
                    prop_assert_eq!((made, runs), (attempts, attempts));
                    break;
                }
                Begin::Pass => prop_assert!(false, "nobody has given it up"),
            }
            before = Before::Vanished;
        }
    }
}
