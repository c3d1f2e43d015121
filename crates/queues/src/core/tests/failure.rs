use std::num::NonZeroU32;
use std::time::Duration;

use menagerie_znodes::queues::Handling;

use crate::core::failure::{Choice, Failure, OnFailure, Policy, Verdict};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn pauses_grow_up_to_a_limit_and_attempts_end() {
    let policy = Policy { backoff_max: 3 * SECOND, ..Policy::default() };
    let verdicts: Vec<_> = (1..=5).map(|attempt| policy.judge(attempt, Failure::Retry)).collect();
    assert_eq!(verdicts[..4], [1, 2, 3, 3].map(|times| Verdict::Retry(times * SECOND)));
    assert_eq!(verdicts[4], Verdict::GiveUp(OnFailure::Queue));
    assert_eq!(policy.judge(u32::MAX - 1, Failure::Stopped), Verdict::Again, "it was no attempt");
    assert_eq!(policy.judge(1, Failure::ForGood), Verdict::GiveUp(OnFailure::Queue));
}

#[test]
fn a_pause_never_overflows() {
    let attempts = NonZeroU32::MAX;
    let policy = Policy { attempts, backoff: Duration::MAX, backoff_max: Duration::MAX, ..Policy::default() };
    assert_eq!(policy.judge(u32::MAX - 1, Failure::Retry), Verdict::Retry(Duration::MAX));
}

#[test]
fn a_worker_s_choice_overrides_the_queue_s_and_that_the_default() {
    let queue = Handling {
        attempts: NonZeroU32::new(7),
        backoff_ms: Some(2_000),
        backoff_max_ms: Some(9_000),
        ..Handling::default()
    };
    assert_eq!(Choice::default().policy(&Handling::default()), Policy::default());
    let of_queue = Choice::default().policy(&queue);
    assert_eq!(
        (of_queue.attempts.get(), of_queue.backoff, of_queue.backoff_max),
        (7, 2 * SECOND, 9 * SECOND)
    );
    let chosen = Choice {
        attempts: NonZeroU32::new(3),
        backoff: Some(4 * SECOND),
        backoff_max: None,
        on_failure: OnFailure::Stop,
    };
    let both = chosen.policy(&queue);
    assert_eq!((both.attempts.get(), both.backoff, both.backoff_max), (3, 4 * SECOND, 9 * SECOND));
    assert_eq!(both.on_failure, OnFailure::Stop);
}
