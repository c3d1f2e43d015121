//! Nothing runs on after its deadline.

use std::time::{Duration, Instant};

use menagerie_kernel::Moment;
use menagerie_kernel::guard::Outcome;

use super::{GRACE, LONG, lines, next_line, next_process, script, start};

/// How late a kill may come on a machine that is busy with other tests.
const LATE_MAX: Duration = Duration::from_secs(10);
const STUBBORN: &str = "trap 'echo asked' TERM; echo ready; while :; do sleep 0.05; done";

#[tokio::test]
async fn whoever_ignores_sigterm_is_asked_a_grace_before_the_deadline_and_killed_at_it() {
    // Long enough for the shell to report SIGTERM.
    let (time, grace) = (GRACE * 16, GRACE * 15);
    let mut guarded = start(script(STUBBORN, grace)).await;
    let mut output = lines(&mut guarded);
    assert_eq!(next_line(&mut output).await, "ready");
    let began = Instant::now();
    guarded.control().set_deadline(Moment::after(time));
    assert_eq!(next_line(&mut output).await, "asked");
    let asked = began.elapsed();
    assert_eq!(guarded.wait().await, Outcome::Expired);
    let killed = began.elapsed();
    assert!(asked >= time - grace, "asked after {asked:?}");
    assert!(killed >= time && killed < time + LATE_MAX, "killed after {killed:?}");
}

#[tokio::test]
async fn who_heeds_sigterm_has_expired_all_the_same() {
    let command = script("trap 'exit 0' TERM; while :; do sleep 0.05; done", LONG);
    // Nearer than its grace: SIGTERM comes at once.
    let mut guarded = start(command.deadline(Moment::after(LONG / 2))).await;
    assert_eq!(guarded.wait().await, Outcome::Expired);
    assert_eq!(Outcome::Expired.exit_code(), 73);
}

#[tokio::test]
async fn a_deadline_that_is_prolonged_in_time_kills_nobody() {
    // Much longer than the beat, so that a busy machine is always in time.
    let lease = GRACE * 16;
    let mut guarded = start(script("sleep 6; exit 8", GRACE).deadline(Moment::after(lease))).await;
    let control = guarded.control().clone();
    // The beat of a lease, for longer than any single deadline.
    let beat = async {
        let mut beats = tokio::time::interval(GRACE / 10);
        loop {
            beats.tick().await;
            control.set_deadline(Moment::after(lease));
        }
    };
    tokio::select! {
        outcome = guarded.wait() => assert_eq!(outcome, Outcome::Exited(8)),
        () = beat => {}
    }
}

#[tokio::test]
async fn a_deadline_can_be_moved_to_earlier_and_can_be_taken_away() {
    let mut guarded = start(script(STUBBORN, GRACE).deadline(Moment::after(LONG))).await;
    assert_eq!(next_line(&mut lines(&mut guarded)).await, "ready");
    guarded.control().set_deadline(Moment::NEVER);
    guarded.control().set_deadline(Moment::from_nanos(0));
    let moved = Instant::now();
    assert_eq!(guarded.wait().await, Outcome::Expired);
    assert!(moved.elapsed() < LATE_MAX, "killed after {:?}", moved.elapsed());
}

#[tokio::test]
async fn descendants_in_other_sessions_die_at_the_deadline_too() {
    let far = "(setsid sh -c 'trap \"\" TERM; echo $$; while :; do sleep 600; done' &)";
    let command = script(&format!("trap '' TERM; {far}; while :; do sleep 600; done"), GRACE);
    let mut guarded = start(command).await;
    let descendant = next_process(&mut lines(&mut guarded)).await;
    guarded.control().set_deadline(Moment::after(GRACE * 2));
    assert_eq!(guarded.wait().await, Outcome::Expired);
    assert!(!descendant.exists());
}
