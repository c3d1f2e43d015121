//! Group settle: once they have stopped coming and going.

use std::time::{Duration, Instant};

use menagerie_kernel::recipes::settle::{Rule, Settling, Why};
use menagerie_kernel::session::IfLate;
use menagerie_kernel::{Session, Transaction, retry};
use menagerie_znodes::{Dir, Kind, Raw, Znode};

use crate::world::{SHORT, World};

const DIR: &str = "/workers";
const RULE: Rule = Rule { quiet: Duration::from_millis(200), cap: Duration::from_millis(700) };

fn settling(session: &Session, rule: Rule) -> Settling {
    let dir: Znode<Dir> = Znode::foreign(DIR, Kind::Persistent);
    Settling::new(session, dir, rule)
}

async fn come(session: &Session, name: &str) {
    let (term, path) = (session.term(), format!("{DIR}/{name}"));
    term.create(&path, b"", Kind::Persistent, IfLate::Report).await.unwrap();
}

#[tokio::test]
async fn settled_when_nothing_has_changed_for_a_while_and_told_once() {
    let world = World::new("settle");
    let (a, b) = (world.session().await, world.session().await);
    let mut workers = settling(&a, RULE);
    // There is no directory yet: nobody is there.
    let nobody = workers.next().await.unwrap();
    assert_eq!((nobody.names, nobody.why), (vec![], Why::Quiet));
    assert!(tokio::time::timeout(RULE.quiet * 2, workers.next()).await.is_err(), "nothing has changed");
    // At once: a pause between the two could be quiet enough.
    let term = b.term();
    let names =
        ["", "/one", "/two"].map(|name| Znode::<Raw>::foreign(format!("{DIR}{name}"), Kind::Persistent));
    let come = names.iter().fold(Transaction::new(&term), |come, znode| come.create(znode, &Raw::default()));
    come.commit().await.unwrap();
    let changed = Instant::now();
    let settled = workers.next().await.unwrap();
    assert_eq!((settled.names, settled.why), (vec!["one".to_owned(), "two".to_owned()], Why::Quiet));
    assert!(changed.elapsed() >= RULE.quiet - Duration::from_millis(20));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flapping_cannot_hold_it_for_ever() {
    let world = World::new("settle-flapping");
    let (a, b) = (world.session().await, world.session().await);
    retry::ensure(&b.term(), DIR, b"").await.unwrap();
    come(&b, "steady").await;
    let flapping = tokio::spawn(async move {
        for turn in 0.. {
            come(&b, &format!("flaps-{turn}")).await;
            retry::delete(&b.term(), &format!("{DIR}/flaps-{turn}")).await.unwrap();
        }
    });
    // Quiet is longer than the longest pause that a busy machine makes between two changes.
    let rule = Rule { quiet: Duration::from_secs(2), cap: Duration::from_secs(3) };
    let began = Instant::now();
    let settled = settling(&a, rule).next().await.unwrap();
    flapping.abort();
    assert_eq!(settled.why, Why::Capped);
    assert!(settled.names.contains(&"steady".to_owned()));
    assert!(began.elapsed() >= rule.cap, "{:?}", began.elapsed());
}

#[tokio::test]
async fn nothing_is_settled_while_nobody_can_look() {
    let world = World::new("settle-expired");
    let other = world.session().await;
    retry::ensure(&other.term(), DIR, b"").await.unwrap();
    let (session, proxy) = world.session_through_proxy(SHORT).await;
    let mut workers = settling(&session, RULE);
    workers.next().await.unwrap();
    come(&other, "one").await;
    let term = session.term();
    proxy.partition();
    assert!(tokio::time::timeout(RULE.cap, workers.next()).await.is_err());
    term.lost().await;
    come(&other, "two").await;
    proxy.heal();
    let settled = workers.next().await.unwrap();
    assert_eq!(settled.names, ["one", "two"]);
}
