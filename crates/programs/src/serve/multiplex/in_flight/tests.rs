use super::*;

const SECOND: Duration = Duration::from_secs(1);
const GRACE: Duration = Duration::from_secs(10);

/// Questions `a`, `b`, … whose leases end after as many seconds; the payload is the letter.
fn in_flight(now: Instant, ends_s: &[u64], time_limit: Option<Duration>) -> InFlight<char> {
    let mut all = InFlight::new(GRACE);
    for (number, (end, letter)) in (0..).zip(ends_s.iter().zip('a'..)) {
        let until = Moment::from_nanos(end * 1_000_000_000);
        all.insert(Key(number), letter.to_string(), until, time_limit, now, letter);
    }
    all
}

fn end(all: &mut InFlight<char>, cause: &Cause, has_expired: bool) -> Vec<(char, Fate)> {
    all.end(cause, has_expired).into_iter().map(|(_, letter, fate)| (letter, fate)).collect()
}

fn broken() -> Cause {
    Cause::Broken("it died".to_owned())
}

#[test]
fn the_deadline_is_the_earliest_lease_of_those_in_flight() {
    let mut all = in_flight(Instant::now(), &[20, 10, 10, 30], None);
    let earliest = |all: &InFlight<char>| all.earliest_end().map(|end| end.as_nanos() / 1_000_000_000);
    assert_eq!(earliest(&all), Some(10));
    assert_eq!(all.answer("b"), Some('b'));
    assert_eq!(all.answer("b"), None, "a second answer");
    assert_eq!(earliest(&all), Some(10));
    assert_eq!(all.answer("c"), Some('c'));
    assert_eq!(earliest(&all), Some(20));
    let renewed = |letter: &char| (Moment::from_nanos(if *letter == 'a' { 50 } else { 40 }), false);
    all.update_leases(Instant::now(), renewed);
    assert_eq!(all.earliest_end(), Some(Moment::from_nanos(40)));
    assert_eq!(all.answer("d"), Some('d'));
    assert_eq!(all.answer("a"), Some('a'));
    assert_eq!((all.earliest_end(), all.next_alarm(), all.is_empty()), (None, None, true));
}

#[test]
fn silence_is_told_once_and_then_the_time_limit_ends_it() {
    let now = Instant::now();
    let mut all = in_flight(now, &[100, 100], Some(SECOND * 60));
    assert_eq!(all.on_time(now + SILENT_AFTER - SECOND), []);
    assert_eq!(all.answer("b"), Some('b'));
    assert_eq!(all.on_time(now + SILENT_AFTER), [Due::Silent("a".to_owned())]);
    assert_eq!(all.on_time(now + SILENT_AFTER * 2 - SECOND), []);
    assert_eq!(all.on_time(now + SECOND * 60), [Due::TimeLimit]);
    assert_eq!(all.answer("a"), None, "too late");
    assert_eq!(end(&mut all, &Cause::TimeLimit, false), [('a', Fate::TookTooLong(Some(SECOND * 60)))]);
}

#[test]
fn without_a_time_limit_only_silence_is_told() {
    let now = Instant::now();
    for (limit, due) in [(None, 1), (Some(Duration::MAX), 1), (Some(SECOND), 1)] {
        let mut all = in_flight(now, &[100], limit);
        assert_eq!(all.on_time(now + SECOND * 1000).len(), due);
        assert_eq!(all.next_alarm(), None);
    }
}

#[test]
fn only_the_one_over_its_time_limit_is_to_blame_for_it() {
    let now = Instant::now();
    let mut all = in_flight(now, &[100], Some(SECOND));
    all.insert(Key(9), "z".to_owned(), Moment::NEVER, None, now, 'z');
    assert_eq!(all.on_time(now + SECOND), [Due::TimeLimit]);
    let fates = [('a', Fate::TookTooLong(Some(SECOND))), ('z', Fate::Stopped)];
    assert_eq!(end(&mut all, &Cause::TimeLimit, false), fates);
}

#[test]
fn all_are_blamed_for_a_death_except_those_that_were_to_stop() {
    let now = Instant::now();
    let one = end(&mut in_flight(now, &[1], None), &broken(), false);
    assert_eq!(one, [('a', Fate::Failed("it died".to_owned()))]);
    let mut all = in_flight(now, &[1, 1, 1], None);
    all.update_leases(now, |letter| (Moment::NEVER, *letter == 'b'));
    let why = "the program ended while 3 messages were in flight: it died".to_owned();
    let fates = [('a', Fate::Failed(why.clone())), ('b', Fate::Stopped), ('c', Fate::Failed(why))];
    assert_eq!(end(&mut all, &broken(), false), fates);
    assert!(all.is_empty() && all.next_alarm().is_none() && all.earliest_end().is_none());
    // The guard ended it, because of a lease.
    let expired = end(&mut in_flight(now, &[1, 1], None), &broken(), true);
    assert_eq!(expired, [('a', Fate::Stopped), ('b', Fate::Stopped)]);
}

#[test]
fn one_that_must_stop_has_its_grace_unless_it_is_alone() {
    let now = Instant::now();
    let mut all = in_flight(now, &[100, 100], None);
    let stop_a = |letter: &char| (Moment::NEVER, *letter == 'a');
    all.update_leases(now, stop_a);
    assert!(!all.all_stop());
    // Told again, it has no longer.
    all.update_leases(now + SECOND, stop_a);
    assert_eq!(all.on_time(now + GRACE - SECOND), []);
    assert_eq!(all.on_time(now + GRACE), [Due::StopGrace]);
    let mut all = in_flight(now, &[100, 100], None);
    all.update_leases(now, stop_a);
    assert_eq!(all.answer("a"), Some('a'));
    assert_eq!(all.on_time(now + GRACE), []);
    assert!(!all.all_stop());
    let mut all = in_flight(now, &[100, 100], None);
    all.update_leases(now, stop_a);
    assert_eq!(all.answer("b"), Some('b'));
    assert!(all.all_stop(), "nobody else needs the program");
}
