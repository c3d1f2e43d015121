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
    let stored = Attempts { message: FIRST, attempts: 2, given_up: false };
    let mut tally = Tally::new(Some(stored), Before::Released);
    assert_eq!(tally.begin(FIRST, &policy(5)), Begin::Run { attempt: 3, store: None });
    assert_eq!(tally.begin(SECOND, &policy(5)), Begin::Run { attempt: 1, store: None });
}

#[test]
fn what_may_have_run_before_is_known_to_be_a_second_run_and_counted_before_it_begins() {
    let mut tally = Tally::new(None, Before::Vanished);
    let store = Attempts { message: FIRST, attempts: 2, given_up: false };
    assert_eq!(tally.begin(FIRST, &policy(5)), Begin::Run { attempt: 2, store: Some(store) });
    assert_eq!(tally.begin(SECOND, &policy(5)), Begin::Run { attempt: 1, store: None });
}

#[test]
fn a_message_that_was_given_up_is_passed_over_though_its_record_was_lost() {
    let mut tally = Tally::new(None, Before::Released);
    let stored = tally.failed(FIRST, 1, Verdict::GiveUp(OnFailure::Queue));
    assert!(stored.given_up);
    assert_eq!(Tally::new(Some(stored), Before::Vanished).begin(FIRST, &policy(5)), Begin::Pass);
    let stays = tally.failed(FIRST, 5, Verdict::GiveUp(OnFailure::Stop));
    assert!(!stays.given_up, "it stays where it is");
}

#[test]
fn a_message_that_nobody_has_begun_is_tried_however_many_workers_have_died() {
    // Owners that vanish before they begin it store nothing.
    let mut tally = Tally::new(None, Before::Vanished);
    assert!(matches!(tally.begin(FIRST, &policy(1)), Begin::Run { .. }));
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
            match tally.begin(FIRST, &policy) {
                Begin::Run { attempt, store } => {
                    runs += 1;
                    prop_assert_eq!(attempt, runs, "every run knows that it is another one");
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
