use menagerie_kernel::session::Change;
use menagerie_slots::{HeldSlot, Request, SlotsError, acquire, admin, try_acquire};
use menagerie_znodes::slots::{self, Frozen, Process};

use crate::world::{LONG, World, request};

#[tokio::test]
async fn at_most_the_maximum_is_in_and_waiters_enter_in_order() {
    let world = World::new("order", 2).await;
    let session = world.session().await;
    let first = world.acquire(&session, "a").await;
    let second = world.acquire(&session, "b").await;
    let third = world.queue_up(&session, request("c")).await;
    let fourth = world.queue_up(&session, request("d")).await;
    assert_eq!(world.holders(&session).await, ["a", "b"]);
    second.release().await.unwrap();
    let third = third.await.unwrap().unwrap();
    assert_eq!((third.number(), world.holders(&session).await), (2, vec!["a".to_owned(), "c".to_owned()]));
    first.release().await.unwrap();
    let fourth = fourth.await.unwrap().unwrap();
    assert_eq!(fourth.number(), 1);
    assert!(fourth.fence() > third.fence() && third.fence() > first.fence(), "fences rise");
    let left = world.snapshot(&session).await;
    assert_eq!((left.pool.count, left.queue.len()), (2, 0));
}

#[tokio::test]
async fn higher_priority_is_admitted_first() {
    let world = World::new("priority", 1).await;
    let session = world.session().await;
    let held = world.acquire(&session, "a").await;
    let low = world.queue_up(&session, request("low")).await;
    let high = world.queue_up(&session, Request { priority: 5, ..request("high") }).await;
    held.release().await.unwrap();
    let high = high.await.unwrap().unwrap();
    assert!(!low.is_finished());
    high.release().await.unwrap();
    low.await.unwrap().unwrap();
}

#[tokio::test]
async fn waiter_that_gives_up_leaves_nothing_behind() {
    let world = World::new("gives-up", 1).await;
    let session = world.session().await;
    let held = world.acquire(&session, "a").await;
    let waiter = world.queue_up(&session, request("b")).await;
    let place = world.snapshot(&session).await.queue[0].clone();
    let path = slots::waiter(&world.pool, place.name());
    let (_, _, gone) = session.term().get_watched(path.path()).await.unwrap();
    waiter.abort();
    assert_eq!(gone.changed().await, Change::Deleted);
    held.release().await.unwrap();
    assert_eq!(world.holders(&session).await, [""; 0]);
}

#[tokio::test]
async fn lowered_maximum_evicts_nobody_and_admits_nobody_until_the_count_is_below() {
    let world = World::new("lowered", 3).await;
    let session = world.session().await;
    let mut held: Vec<HeldSlot> = Vec::new();
    for holder in ["a", "b", "c"] {
        held.push(world.acquire(&session, holder).await);
    }
    admin::set_max(&session, &world.pool, 2, None, "test").await.unwrap();
    assert_eq!(world.holders(&session).await.len(), 3);
    let waiter = world.queue_up(&session, request("d")).await;
    held.pop().unwrap().release().await.unwrap();
    assert!(try_acquire(&session, &world.pool, &request("e")).await.unwrap().is_none());
    assert_eq!(world.holders(&session).await, ["a", "b"]);
    held.pop().unwrap().release().await.unwrap();
    waiter.await.unwrap().unwrap();
    assert_eq!(world.holders(&session).await, ["a", "d"]);
}

#[tokio::test]
async fn frozen_pool_admits_nobody_until_it_is_thawed() {
    let world = World::new("frozen", 1).await;
    let session = world.session().await;
    let frozen = Frozen { by: "operator".to_owned(), reason: Some("storm".to_owned()), tell: false };
    admin::freeze(&session, &world.pool, frozen).await.unwrap();
    assert!(try_acquire(&session, &world.pool, &request("a")).await.unwrap().is_none());
    let waiter = world.queue_up(&session, request("a")).await;
    admin::thaw(&session, &world.pool, "operator").await.unwrap();
    waiter.await.unwrap().unwrap();
}

#[tokio::test]
async fn late_script_does_not_free_its_successors_slot() {
    let world = World::new("late", 1).await;
    let session = world.session().await;
    let late = world.acquire(&session, "a").await;
    assert_eq!(admin::force_release(&session, &world.pool, "a", "operator").await, Ok(1));
    late.lost().await;
    let successor = world.acquire(&session, "b").await;
    assert_eq!(late.release().await, Err(SlotsError::Lost { pool: "pool".to_owned(), slot: 1 }));
    assert_eq!(world.holders(&session).await, ["b"]);
    successor.release().await.unwrap();
}

#[tokio::test]
async fn slot_that_was_deleted_by_hand_is_lost_and_its_successor_keeps_it() {
    let world = World::new("by-hand", 1).await;
    let session = world.session().await;
    let late = world.acquire(&session, "a").await;
    // As the seed's scripts and their operators do.
    session.term().delete(slots::slot(&world.pool, 1).path(), None).await.unwrap();
    late.lost().await;
    let successor = world.acquire(&session, "b").await;
    assert_eq!(world.snapshot(&session).await.tickets, [successor.ticket()], "a slot has one ticket");
    assert_eq!(late.release().await, Err(SlotsError::Lost { pool: "pool".to_owned(), slot: 1 }));
    assert_eq!(world.holders(&session).await, ["b"]);
    assert_eq!(world.snapshot(&session).await.pool.count, 1);
    successor.release().await.unwrap();
}

#[tokio::test]
async fn slot_that_was_deleted_by_hand_is_given_back_once() {
    let world = World::new("by-hand-alone", 1).await;
    let session = world.session().await;
    let late = world.acquire(&session, "a").await;
    session.term().delete(slots::slot(&world.pool, 1).path(), None).await.unwrap();
    let released = tokio::time::timeout(LONG, late.release()).await.expect("it does not go on for ever");
    assert_eq!(released, Err(SlotsError::Lost { pool: "pool".to_owned(), slot: 1 }));
    admin::delete(&session, &world.pool).await.unwrap();
}

#[tokio::test]
async fn crashed_holder_keeps_its_slot_and_its_next_run_resumes_it() {
    let world = World::new("resume", 1).await;
    let session = world.session().await;
    let crashed = world.session().await;
    // A process that is gone: none has started at that time.
    let gone = Process { pid: std::process::id(), started: 1 };
    let dead = Request { process: Some(gone), ..request("a") };
    let earlier = acquire(&crashed, &world.pool, &dead, |_| {}).await.unwrap();
    crashed.close().await;
    assert_eq!(world.holders(&session).await, ["a"], "a crash frees nothing");
    let stranger = Request { local: request("other").local, ..request("a") };
    assert!(
        try_acquire(&session, &world.pool, &stranger).await.unwrap().is_none(),
        "never from another host"
    );
    let resumed = world.acquire(&session, "a").await;
    assert_eq!(resumed.number(), earlier.number());
    assert!(resumed.fence() > earlier.fence());
    assert_eq!(world.snapshot(&session).await.pool.count, 1);
    resumed.release().await.unwrap();
}

#[tokio::test]
async fn second_run_of_a_living_holder_waits_and_says_for_whom() {
    let world = World::new("twice", 2).await;
    let session = world.session().await;
    let first = world.acquire(&session, "a").await;
    let second = world.queue_up(&session, request("a")).await;
    assert_eq!(world.holders(&session).await, ["a"], "nobody holds two slots");
    assert!(world.snapshot(&session).await.queue.is_empty(), "nor stands in the way of others");
    first.release().await.unwrap();
    second.await.unwrap().unwrap();
}

#[tokio::test]
async fn ephemeral_slot_ends_with_its_session() {
    let world = World::new("ephemeral", 1).await;
    let (session, other) = (world.session().await, world.session().await);
    let held =
        acquire(&other, &world.pool, &Request { ephemeral: true, ..request("a") }, |_| {}).await.unwrap();
    let waiter = world.queue_up(&session, request("b")).await;
    drop(held);
    other.close().await;
    waiter.await.unwrap().unwrap();
    assert_eq!(world.snapshot(&session).await.pool.count, 1);
}

#[tokio::test]
async fn pools_are_made_once_and_go_only_when_unused() {
    let world = World::new("admin", 2).await;
    let session = world.session().await;
    assert_eq!(admin::create(&session, &world.pool, 2, "again").await, Ok(()));
    let other = SlotsError::OtherMaximum { pool: "pool".to_owned(), stored: 2, wanted: 3 };
    assert_eq!(admin::create(&session, &world.pool, 3, "again").await, Err(other));
    assert_eq!(admin::set_max(&session, &world.pool, 0, None, "test").await, Err(SlotsError::NoRoomAtAll));
    let held = world.acquire(&session, "a").await;
    let in_use = SlotsError::InUse { pool: "pool".to_owned(), users: 1 };
    assert_eq!(admin::delete(&session, &world.pool).await, Err(in_use));
    held.release().await.unwrap();
    admin::delete(&session, &world.pool).await.unwrap();
    assert_eq!(admin::list(&session).await, Ok(Vec::new()));
    let gone = SlotsError::NoPool { pool: "pool".to_owned() };
    assert_eq!(admin::set_max(&session, &world.pool, 3, None, "test").await, Err(gone));
}
