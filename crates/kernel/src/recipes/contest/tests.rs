use proptest::prelude::*;

use super::*;

const UNIQUE: &str = "abababababab4bababababababababab";

fn kazoo(names: &[&str]) -> Vec<Contender> {
    Dialect::Kazoo.contenders(names.iter().copied())
}

#[test]
fn names_are_those_of_kazoo_and_curator() {
    let name = |dialect: Dialect, mode| dialect.prefix(mode, UNIQUE);
    assert_eq!(name(Dialect::Kazoo, Mode::Exclusive), "abababababab4bababababababababab__lock__");
    assert_eq!(name(Dialect::Kazoo, Mode::Shared), "abababababab4bababababababababab__rlock__");
    assert_eq!(name(Dialect::Curator, Mode::Exclusive), "_c_abababab-abab-4bab-abab-abababababab-lock-");
}

#[test]
fn names_are_read_as_their_owners_read_them() {
    use Dialect::{Curator, Kazoo};
    use Mode::{Exclusive, Shared};
    for (dialect, name, read) in [
        (Kazoo, "ab__lock__0000000007", Some((7, Exclusive))),
        (Kazoo, "ab__rlock__0000000007", Some((7, Shared))),
        (Kazoo, "__lock__2147483647", Some((i32::MAX.into(), Exclusive))),
        (Kazoo, "ab__lock__-2147483648", Some((i32::MIN.into(), Exclusive))),
        (Kazoo, "ab__lock__-000000005", Some((-5, Exclusive))),
        (Kazoo, "ab__lock__0000000002147483648", Some((2_147_483_648, Exclusive))),
        (Kazoo, "ab__lock__7", None),
        (Kazoo, "ab__lock__+000000007", None),
        (Kazoo, "ab__lease__0000000007", None),
        (Kazoo, "lock-0000000007", None),
        (Curator, "_c_5d2f-lock-0000000007", Some((7, Exclusive))),
        (Curator, "lock-0000000007", Some((7, Exclusive))),
        (Curator, "ab__lock__0000000007", None),
        (Curator, "_c_5d2f-lock-", None),
    ] {
        let parsed = dialect.parse(name).map(|contender| (contender.ticket, contender.mode));
        assert_eq!(parsed, read, "{name}");
    }
}

#[test]
fn only_the_nearest_in_the_way_is_waited_for() {
    let all = kazoo(&[
        "b__lock__0000000002",
        "a__lock__0000000009",
        "c__rlock__0000000003",
        "d__rlock__0000000004",
    ]);
    let waits_for = |me| match standing(me, &all) {
        Standing::WaitsFor(other) => other.name.as_str(),
        Standing::Holds | Standing::Gone | Standing::Exhausted => "",
    };
    assert_eq!(standing("b__lock__0000000002", &all), Standing::Holds);
    assert_eq!(waits_for("c__rlock__0000000003"), "b__lock__0000000002");
    assert_eq!(waits_for("d__rlock__0000000004"), "b__lock__0000000002", "readers do not wait for readers");
    assert_eq!(waits_for("a__lock__0000000009"), "d__rlock__0000000004");
    assert_eq!(first_in_the_way("a__lock__0000000009", &all).unwrap().name, "b__lock__0000000002");
}

#[test]
fn who_is_not_there_holds_nothing() {
    assert_eq!(standing("a__lock__0000000001", &kazoo(&["b__lock__0000000002"])), Standing::Gone);
    assert_eq!(standing("a__lock__0000000001", &[]), Standing::Gone);
}

#[test]
fn nobody_holds_where_numbers_are_used_up() {
    let all = kazoo(&["old__lock__2147483647", "new__lock__-2147483648"]);
    assert_eq!(standing("old__lock__2147483647", &all), Standing::Exhausted);
    assert_eq!(standing("new__lock__-2147483648", &all), Standing::Exhausted);
}

fn contests() -> impl Strategy<Value = Vec<Contender>> {
    prop::collection::btree_map(0_i64..50, any::<bool>(), 0..12).prop_map(|tickets| {
        let contender = |(ticket, shared)| {
            let mode = if shared { Mode::Shared } else { Mode::Exclusive };
            Contender { name: format!("{:?}{ticket:010}", mode), ticket, mode }
        };
        tickets.into_iter().map(contender).collect()
    })
}

fn holding(all: &[Contender]) -> Vec<&Contender> {
    all.iter().filter(|me| standing(&me.name, all) == Standing::Holds).collect()
}

proptest! {
    #[test]
    fn holders_do_not_exclude_each_other_and_somebody_always_holds(all in contests()) {
        let holding = holding(&all);
        prop_assert_eq!(holding.is_empty(), all.is_empty());
        for (i, one) in holding.iter().enumerate() {
            prop_assert!(holding[i + 1..].iter().all(|other| !one.mode.excludes(other.mode)));
        }
        prop_assert_eq!(holders(&all), holding.len());
        prop_assert!(holding.iter().zip(&all).all(|(held, first)| *held == first), "the first hold");
    }

    #[test]
    fn order_of_the_directory_does_not_matter(all in contests(), seed in any::<u64>()) {
        let mut shuffled = all.clone();
        shuffled.sort_by_key(|contender| (contender.ticket.unsigned_abs() + 1).wrapping_mul(seed | 1));
        for me in &all {
            prop_assert_eq!(standing(&me.name, &all), standing(&me.name, &shuffled));
        }
    }

    /// A contender that leaves wakes its watchers: at most one if all are exclusive.
    #[test]
    fn one_that_leaves_wakes_one(tickets in prop::collection::btree_set(0_i64..50, 1..12), pick in any::<prop::sample::Index>()) {
        let names: Vec<String> = tickets.iter().map(|ticket| format!("x__lock__{ticket:010}")).collect();
        let all = Dialect::Kazoo.contenders(names.iter().map(String::as_str));
        let leaving = pick.get(&all);
        let woken = all.iter().filter(|me| standing(&me.name, &all) == Standing::WaitsFor(leaving)).count();
        prop_assert!(woken <= 1);
    }

    /// No waiter is forgotten: it holds once those that it waits for have left one after the other.
    #[test]
    fn waiting_comes_to_an_end(all in contests(), pick in any::<prop::sample::Index>()) {
        prop_assume!(!all.is_empty());
        let me = pick.get(&all).name.clone();
        let mut left = all;
        while let Standing::WaitsFor(blocker) = standing(&me, &left) {
            let name = blocker.name.clone();
            left.retain(|contender| contender.name != name);
        }
        prop_assert_eq!(standing(&me, &left), Standing::Holds);
    }

    #[test]
    fn what_is_written_is_read(unique in "[0-9a-f]{32}", ticket in any::<i32>()) {
        for (dialect, mode) in [(Dialect::Kazoo, Mode::Exclusive), (Dialect::Kazoo, Mode::Shared), (Dialect::Curator, Mode::Exclusive)] {
            let name = format!("{}{ticket:010}", dialect.prefix(mode, &unique));
            prop_assert_eq!(dialect.parse(&name), Some(Contender { name, ticket: ticket.into(), mode }));
        }
    }
}
