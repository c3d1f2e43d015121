//! Pools damaged by hand.

use menagerie_kernel::{CallError, Session, subtree};
use menagerie_slots::core::{Limits, Source};
use menagerie_slots::poll::{self, PollOutcome};
use menagerie_slots::{Request, SlotsError, admin, disarm, try_acquire, view};
use menagerie_testkit::eventually_async;
use menagerie_znodes::Name;
use menagerie_znodes::slots::{self, Frozen};

use crate::world::{World, request};

/// Deletes a subtree, retrying while its owners add znodes to it.
async fn delete(session: &Session, path: &str) {
    let term = session.term();
    eventually_async("it is deleted", async || {
        let levels = match subtree::levels(&term, path, usize::MAX).await {
            Err(CallError::NoZnode { .. }) => return Some(()),
            levels => levels.unwrap(),
        };
        subtree::remove(&term, levels, |_| {}).await.ok()
    })
    .await;
}

async fn ask(session: &Session, pool: &Name, holder: &str) -> Result<PollOutcome, SlotsError> {
    let request = Request { process: None, ..request(holder) };
    let limits = Limits { waiters: 10, per_source: 10 };
    poll::ask(session, pool, &request, &Source::of([10, 0, 0, 1].into()), limits).await
}

fn frozen() -> Frozen {
    Frozen { by: "test".to_owned(), reason: None, tell: false }
}

#[tokio::test]
async fn every_change_makes_what_is_missing_and_goes_on() {
    let world = World::new("missing", 2).await;
    let (session, pool) = (world.session().await, &world.pool);
    let folders = [slots::tickets(pool), slots::alive_dir(pool)].map(|folder| folder.path().to_owned());
    let folders = folders
        .into_iter()
        .chain([slots::queue(pool), slots::history(pool)].map(|dir| dir.path().to_owned()));
    for folder in folders {
        let lose = async || delete(&session, &folder).await;
        lose().await;
        assert_eq!(admin::freeze(&session, pool, frozen()).await, Ok(()), "{folder}");
        lose().await;
        assert_eq!(admin::thaw(&session, pool, "test").await, Ok(()), "{folder}");
        lose().await;
        assert_eq!(admin::set_max(&session, pool, 2, None, "test").await, Ok(()), "{folder}");
        lose().await;
        let held = try_acquire(&session, pool, &request("a")).await.unwrap().expect("there is room");
        lose().await;
        assert_eq!(ask(&session, pool, "b").await, Ok(PollOutcome::Holds(2)), "{folder}");
        lose().await;
        assert!(matches!(ask(&session, pool, "c").await, Ok(PollOutcome::Waits { .. })), "{folder}");
        lose().await;
        assert_eq!(poll::release(&session, pool, "b", None).await, Ok(true), "{folder}: whatever is missing");
        lose().await;
        match held.release().await {
            Ok(()) => {}
            // The slot went with the folder.
            Err(SlotsError::Lost { .. }) => {
                assert_eq!(admin::force_release(&session, pool, "a", "test").await, Ok(1));
            }
            Err(error) => panic!("{folder}: {error}"),
        }
        poll::release(&session, pool, "c", None).await.unwrap();
        assert_eq!(world.holders(&session).await, [""; 0], "{folder}");
    }
    delete(&session, slots::history(pool).path()).await;
    assert_eq!(admin::delete(&session, pool).await, Ok(vec![]));
}

#[tokio::test]
async fn slot_that_we_may_not_read_is_taken() {
    let world = World::new("unreadable", 1).await;
    let (session, pool) = (world.session().await, &world.pool);
    for number in [1, 9] {
        let access = "world:anyone:cdwa".parse().unwrap();
        let slot = slots::slot(pool, number).path().to_owned();
        let kind = menagerie_znodes::Kind::Persistent;
        session.term().create_with_access(&slot, b"somebody", kind, &[access]).await.unwrap();
    }
    for max in [1, 2] {
        admin::set_max(&session, pool, max, None, "test").await.unwrap();
        assert!(try_acquire(&session, pool, &request("a")).await.unwrap().is_none(), "two are in already");
    }
    admin::set_max(&session, pool, 3, None, "test").await.unwrap();
    assert_eq!(world.acquire(&session, "a").await.number(), 2);
}

#[tokio::test]
async fn pool_that_says_nonsense_lets_nobody_in_and_everybody_out() {
    let world = World::new("nonsense", 2).await;
    let (session, pool) = (world.session().await, &world.pool);
    let held = world.acquire(&session, "a").await;
    world.acquire(&session, "b").await;
    session.term().set(slots::pool(pool).path(), b"{", None).await.unwrap();
    let path = slots::pool(pool).path().to_owned();
    for refused in [
        try_acquire(&session, pool, &request("c")).await.map(drop),
        admin::freeze(&session, pool, frozen()).await,
        view::show(&session, pool, 0).await.map(drop),
    ] {
        assert!(
            matches!(&refused, Err(SlotsError::Damaged { path: named, .. }) if *named == path),
            "{refused:?}"
        );
    }
    held.release().await.unwrap();
    assert_eq!(admin::force_release(&session, pool, "b", "test").await, Ok(2));
    assert_eq!(admin::delete(&session, pool).await, Ok(vec![]));
}

#[tokio::test]
async fn slot_whose_ticket_is_gone_is_told_of_and_freed_by_the_word_of_its_holder() {
    let world = World::new("ticketless", 1).await;
    let (session, pool) = (world.session().await, &world.pool);
    assert_eq!(ask(&session, pool, "a").await, Ok(PollOutcome::Holds(1)));
    let ticket = world.snapshot(&session).await.tickets[0].clone();
    delete(&session, slots::ticket(pool, &ticket).path()).await;
    assert_eq!(ask(&session, pool, "a").await, Ok(PollOutcome::Holds(1)), "nobody has freed it");
    let found = menagerie_slots::HeldSlot::find(&session, pool, "a").await.map(drop);
    assert!(matches!(found, Err(SlotsError::TicketGone { slot: 1, .. })), "{found:?}");
    assert_eq!(poll::release(&session, pool, "a", None).await, Ok(true));
    assert_eq!(world.holders(&session).await, [""; 0]);
}

#[tokio::test]
async fn without_the_list_of_watchdogs_that_are_out_of_service_none_goes_on() {
    let world = World::new("listless", 1).await;
    let (session, pool) = (world.session().await, &world.pool);
    let [tired, fresh] = ["tired", "fresh"].map(|holder| Name::new(holder).unwrap());
    disarm::disarm(&session, pool, &tired, "disk").await.unwrap();
    delete(&session, slots::disarmed_dir(pool).path()).await;
    let path = slots::disarmed_dir(pool).path().to_owned();
    let missing = Err(SlotsError::Missing { pool: "pool".to_owned(), path });
    assert_eq!(
        disarm::wait_until_armed(&session, pool, &fresh, |_| {}).await,
        missing,
        "nobody knows whether it may"
    );
    // Other changes leave that to an operator.
    admin::set_max(&session, pool, 2, None, "test").await.unwrap();
    assert_eq!(disarm::wait_until_armed(&session, pool, &fresh, |_| {}).await, missing);
    assert_eq!(disarm::rearm(&session, pool, &fresh).await, Ok(false));
    assert_eq!(disarm::wait_until_armed(&session, pool, &fresh, |_| {}).await, Ok(()));
    delete(&session, slots::disarmed_dir(pool).path()).await;
    disarm::disarm(&session, pool, &tired, "disk").await.unwrap();
    assert_eq!(disarm::list(&session, pool).await.unwrap().len(), 1, "whoever has done its work is on it");
}
