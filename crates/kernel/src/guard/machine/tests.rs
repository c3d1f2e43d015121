use proptest::prelude::*;

use super::*;

const GRACE: u64 = 100;

const CALM: Facts = Facts {
    now: 1_000,
    deadline: u64::MAX,
    stop_by: None,
    wrapper_lives: true,
    command_ended: false,
    any_left: true,
};

fn terminating(kill_at: u64, right: Right) -> State {
    State::Terminating { kill_at, right }
}

fn killing(now: u64, right: Right) -> State {
    State::Killing { at: now + KILL_PAUSE_MIN, pause: KILL_PAUSE_MIN, right }
}

#[test]
fn nothing_happens_without_a_reason() {
    assert_eq!(step(State::Running, &CALM, GRACE), (State::Running, None));
    assert_eq!(wake_at(State::Running, &CALM, GRACE), u64::MAX);
}

#[test]
fn term_comes_a_grace_before_the_deadline_and_kill_at_it() {
    let facts = |now| Facts { now, deadline: 2_000, ..CALM };
    assert_eq!(wake_at(State::Running, &facts(1_000), GRACE), 1_900);
    assert_eq!(step(State::Running, &facts(1_899), GRACE), (State::Running, None));
    let asked = terminating(2_000, Right::Expired);
    assert_eq!(step(State::Running, &facts(1_900), GRACE), (asked, Some(Effect::Terminate)));
    assert_eq!(step(asked, &facts(1_999), GRACE), (asked, None));
    assert_eq!(step(asked, &facts(2_000), GRACE), (killing(2_000, Right::Expired), Some(Effect::Kill)));
}

#[test]
fn a_deadline_that_moves_on_in_time_changes_nothing() {
    let facts = Facts { now: 1_899, deadline: 2_000, ..CALM };
    assert_eq!(step(State::Running, &facts, GRACE), (State::Running, None));
    let facts = Facts { now: 1_950, deadline: 3_000, ..CALM };
    assert_eq!(step(State::Running, &facts, GRACE), (State::Running, None));
}

#[test]
fn a_deadline_that_moves_on_after_term_saves_nobody_and_one_that_moves_back_shortens_the_grace() {
    let asked = terminating(2_000, Right::Expired);
    let later = Facts { now: 1_950, deadline: 9_000, ..CALM };
    assert_eq!(step(asked, &later, GRACE), (asked, None));
    let earlier = Facts { now: 1_950, deadline: 1_960, ..CALM };
    assert_eq!(step(asked, &earlier, GRACE), (terminating(1_960, Right::Expired), None));
}

#[test]
fn when_the_wrapper_is_gone_nobody_is_asked() {
    let facts = Facts { wrapper_lives: false, ..CALM };
    assert_eq!(step(State::Running, &facts, GRACE), (killing(1_000, Right::Kept), Some(Effect::Kill)));
    let asked = terminating(2_000, Right::Kept);
    assert_eq!(step(asked, &facts, GRACE), (killing(1_000, Right::Kept), Some(Effect::Kill)));
}

#[test]
fn what_the_command_leaves_behind_is_asked_and_then_killed_and_the_outcome_stays_the_commands() {
    let facts = |now| Facts { now, command_ended: true, deadline: 1_050, ..CALM };
    let asked = terminating(1_050, Right::Kept);
    assert_eq!(step(State::Running, &facts(1_000), GRACE), (asked, Some(Effect::Terminate)));
    assert_eq!(step(asked, &facts(1_050), GRACE), (killing(1_050, Right::Kept), Some(Effect::Kill)));
    let alone = Facts { any_left: false, ..facts(1_000) };
    assert_eq!(step(State::Running, &alone, GRACE), (State::Done, Some(Effect::Report(Right::Kept))));
}

#[test]
fn asked_to_stop_it_gets_the_grace_it_was_promised_unless_the_deadline_is_nearer() {
    let facts = Facts { stop_by: Some(5_000), ..CALM };
    assert_eq!(
        step(State::Running, &facts, GRACE),
        (terminating(5_000, Right::Kept), Some(Effect::Terminate))
    );
    let near = |now| Facts { now, stop_by: Some(5_000), deadline: 1_500, ..CALM };
    let asked = terminating(1_500, Right::Kept);
    assert_eq!(step(State::Running, &near(1_000), GRACE), (asked, Some(Effect::Terminate)));
    assert_eq!(step(asked, &near(1_500), GRACE), (killing(1_500, Right::Expired), Some(Effect::Kill)));
    let at_once = Facts { stop_by: Some(1_000), ..CALM };
    assert_eq!(step(State::Running, &at_once, GRACE), (killing(1_000, Right::Kept), Some(Effect::Kill)));
}

#[test]
fn whoever_is_left_is_killed_again_less_and_less_often() {
    let mut state = killing(1_000, Right::Kept);
    let mut pauses = Vec::new();
    let mut now = 1_000;
    for _ in 0..10 {
        let next = wake_at(state, &CALM, GRACE);
        assert_eq!(step(state, &Facts { now: next - 1, ..CALM }, GRACE), (state, None));
        let (after, effect) = step(state, &Facts { now: next, ..CALM }, GRACE);
        assert_eq!(effect, Some(Effect::Kill));
        pauses.push(next - now);
        (state, now) = (after, next);
    }
    assert!(pauses.is_sorted() && pauses.last() == Some(&KILL_PAUSE_MAX), "{pauses:?}");
}

/// One look at the world, this much later than the one before; then a deadline, an order to stop, and what else happened.
fn any_look() -> impl Strategy<Value = (u64, u64, Option<u64>, u8)> {
    (0..200_u64, 1_000..4_000_u64, prop::option::of(1_000..4_000_u64), 0..40_u8)
}

proptest! {
    /// Whatever happens: asked at most once, killed only for a reason, reported once and only when nothing is left.
    #[test]
    fn every_life_is_lawful(looks in prop::collection::vec(any_look(), 1..60)) {
        let (mut state, mut facts) = (State::Running, CALM);
        let (mut asked_at, mut nearest_since, mut reports) = (None, u64::MAX, 0);
        for (later, deadline, stop_by, event) in looks {
            facts.now += later;
            facts.deadline = if event % 2 == 0 { deadline } else { facts.deadline };
            facts.stop_by = facts.stop_by.or(stop_by.filter(|_| event % 7 == 0));
            facts.wrapper_lives &= event != 11;
            facts.command_ended |= event == 13;
            facts.any_left &= !(facts.command_ended && event > 30);
            let (next, effect) = step(state, &facts, GRACE);
            nearest_since = nearest_since.min(facts.deadline);
            match effect {
                Some(Effect::Terminate) => {
                    prop_assert_eq!(asked_at, None);
                    asked_at = Some(facts.now);
                    nearest_since = facts.deadline;
                }
                Some(Effect::Kill) => {
                    let promise_over = asked_at.is_some_and(|at| (at + GRACE).min(nearest_since) <= facts.now);
                    let ordered = facts.stop_by.is_some_and(|by| by <= facts.now);
                    let again = matches!(state, State::Killing { .. });
                    prop_assert!(!facts.wrapper_lives || facts.deadline <= facts.now || promise_over || ordered || again);
                }
                Some(Effect::Report(_)) => {
                    prop_assert!(!facts.any_left);
                    reports += 1;
                }
                None => {}
            }
            // Nothing may run on after its deadline, or after its wrapper.
            let must_die = facts.deadline <= facts.now || !facts.wrapper_lives;
            let dying = matches!(next, State::Killing { .. } | State::Done);
            prop_assert!(!must_die || dying);
            prop_assert!(reports <= 1);
            state = next;
        }
    }
}
