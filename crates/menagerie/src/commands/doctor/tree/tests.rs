use menagerie_znodes::queues::{Cursor, Keep, Settings};
use menagerie_znodes::slots::{self, Holder, Pool};
use menagerie_znodes::{Name, Payload};

use super::*;

/// An undamaged pool with a holder, and a queue with a partition.
fn sound() -> Tree {
    let pool = Name::new("pool").unwrap();
    let ticket = "1-a".to_owned();
    let holder = Holder { holder: "host".to_owned(), ticket: Some(ticket.clone()), ..Holder::default() };
    let settings = Settings {
        folder: None,
        partitions: 1,
        journal: "main".to_owned(),
        visibility: Default::default(),
        consistency: Default::default(),
        principles: Vec::new(),
        keep: Keep::default(),
        handling: Default::default(),
        created_ms: 1,
    };
    let mut znodes = BTreeMap::from([
        ("/generation".to_owned(), b"7".to_vec()),
        ("/slots".to_owned(), Vec::new()),
        (slots::pool(&pool).path().to_owned(), Pool { max: 1, count: 1, frozen: None }.encode()),
        (slots::born(&pool, "b").path().to_owned(), Vec::new()),
        (slots::slot(&pool, 1).path().to_owned(), holder.encode()),
        (slots::ticket(&pool, &ticket).path().to_owned(), 1_u64.encode()),
        ("/queues".to_owned(), Vec::new()),
        ("/queues/mail-1".to_owned(), Cursor(1).encode()),
        ("/queue-settings/mail".to_owned(), settings.encode()),
    ]);
    znodes.extend(slots::folders(&pool).iter().map(|folder| (folder.path().to_owned(), Vec::new())));
    Tree { znodes, is_cut: false }
}

#[test]
fn what_is_as_it_should_be_is_not_damaged() {
    assert_eq!(judge("/menagerie", &sound()), []);
}

#[test]
fn damage_is_told_with_its_place_and_what_to_try() {
    for (path, data, health) in [
        ("/generation", Some("soon"), Health::Fail),
        ("/slots/pool", Some(""), Health::Fail),
        ("/slots/pool/lock1", Some(""), Health::Fail),
        ("/slots/pool/lock1", Some("{"), Health::Fail),
        ("/slots/pool/born-b", None, Health::Warn),
        ("/slots/pool/lock1", None, Health::Warn),
        ("/slots/pool/history", None, Health::Fail),
        ("/slots/pool/disarmed", None, Health::Fail),
        ("/slots/pool/tickets/1-a", None, Health::Fail),
        ("/queues/mail-1", None, Health::Fail),
        ("/queues/mail-1", Some("soon"), Health::Fail),
        ("/queues/mail-1", Some(""), Health::Warn),
        ("/queue-settings/mail", Some("{}"), Health::Fail),
        ("/queue-settings/mail", None, Health::Warn),
    ] {
        let mut tree = sound();
        match data {
            Some(data) => drop(tree.znodes.insert(path.to_owned(), data.as_bytes().to_vec())),
            None => drop(tree.znodes.remove(path)),
        }
        let damage = judge("/menagerie", &tree);
        let [Damage { health: found, what, remedy }] = damage.as_slice() else {
            panic!("{path} {data:?}: {damage:?}");
        };
        let place = path.trim_end_matches("-b");
        assert!(
            *found == health && what.contains(place) && !remedy.is_empty(),
            "{path} {data:?}: {damage:?}"
        );
    }
}

#[test]
fn much_damage_is_not_told_one_by_one() {
    let mut tree = sound();
    for number in 2..50 {
        tree.znodes.insert(format!("/slots/pool/lock{number}"), Vec::new());
    }
    let mut findings = Findings::default();
    report(&tree, judge("/menagerie", &tree), &mut findings);
    assert_eq!((findings.count(Health::Fail), findings.count(Health::Warn)), (DAMAGE_SHOWN_MAX, 1));
}
