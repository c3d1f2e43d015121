//! In a pool of one, a waiter's place stays until it has released the slot: the next waiter wakes up once, whatever
//! ends the slot.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use menagerie_kernel::Session;
use menagerie_slots::{HeldSlot, Request, SlotsError, acquire, admin, view};
use menagerie_testkit::{OpCode, eventually_async};
use menagerie_znodes::slots;
use tokio::task::JoinHandle;

use crate::world::{LONG, World, request};

type Waiter = JoinHandle<Result<HeldSlot, SlotsError>>;

/// `b` holds the slot, and its place has stayed; `c` has waited behind it since before that.
async fn handed_over(world: &World, ours: &Session, theirs: &Session, b: Request) -> (HeldSlot, Waiter) {
    let first = world.acquire(theirs, "a").await;
    let second = world.queue_up(ours, b).await;
    let third = world.queue_up(theirs, request("c")).await;
    first.release().await.unwrap();
    let held = second.await.unwrap().unwrap();
    let snapshot = world.snapshot(theirs).await;
    assert_eq!((snapshot.queue.len(), snapshot.kept.len()), (1, 1));
    (held, third)
}

/// The waiter enters, and nothing is left of the previous holder.
async fn enters(world: &World, session: &Session, waiter: Waiter) {
    let held = waiter.await.unwrap().unwrap();
    assert_eq!(world.snapshot(session).await.kept.len(), 1, "its own");
    held.release().await.unwrap();
    let left = world.snapshot(session).await;
    assert_eq!((left.kept.len(), left.queue.len(), left.tickets.len()), (0, 0, 0));
}

#[tokio::test]
async fn each_waiter_wakes_up_once() {
    let world = World::new("once", 1).await;
    let sessions = [world.session().await, world.session().await];
    let mut last = world.acquire(&sessions[0], "first").await;
    let looks = Arc::new(AtomicUsize::new(0));
    let mut waiters = Vec::new();
    for number in 0..6 {
        let (session, pool, looks) = (sessions[number % 2].clone(), world.pool.clone(), looks.clone());
        let waits = looks.clone();
        waiters.push(tokio::spawn(async move {
            let count = |_| {
                looks.fetch_add(1, Ordering::SeqCst);
            };
            acquire(&session, &pool, &request(&format!("w{number}")), count).await
        }));
        let waits = async || (waits.load(Ordering::SeqCst) == number + 1).then_some(());
        eventually_async("it waits", waits).await;
    }
    for (number, waiter) in waiters.into_iter().enumerate() {
        last.release().await.unwrap();
        let held = waiter.await.unwrap().unwrap();
        assert_eq!(world.holders(&sessions[0]).await, [format!("w{number}")]);
        assert!(held.fence() > last.fence(), "fences rise");
        last = held;
    }
    last.release().await.unwrap();
    assert_eq!(looks.load(Ordering::SeqCst), 6, "nobody looked again before there was room");
}

#[tokio::test]
async fn fence_is_the_number_of_the_transaction_that_made_the_ticket() {
    let world = World::new("fence", 1).await;
    let session = world.session().await;
    let held = world.acquire(&session, "a").await;
    let ticket = slots::ticket(&world.pool, held.ticket());
    let stat = session.term().stat(ticket.path()).await.unwrap().unwrap();
    assert_eq!(held.fence(), Some(session.term().fence(stat.czxid)));
}

#[tokio::test]
async fn holder_does_not_wait() {
    let world = World::new("in", 1).await;
    let session = world.session().await;
    let (held, third) = handed_over(&world, &session, &session, request("b")).await;
    let view = view::show(&session, &world.pool, 0).await.unwrap();
    let waiters: Vec<&str> = view.waiters.iter().map(|view| view.waiter.holder.as_str()).collect();
    assert_eq!((view.holders.len(), waiters), (1, vec!["c"]));
    let late = world.queue_up(&session, request("d")).await;
    held.release().await.unwrap();
    let third = third.await.unwrap().unwrap();
    assert!(!late.is_finished());
    third.release().await.unwrap();
    enters(&world, &session, late).await;
}

#[tokio::test]
async fn raised_maximum_lets_the_next_in() {
    let world = World::new("raised", 1).await;
    let session = world.session().await;
    let (held, third) = handed_over(&world, &session, &session, request("b")).await;
    admin::set_max(&session, &world.pool, 2, None, "operator").await.unwrap();
    let third = third.await.unwrap().unwrap();
    assert_eq!(world.holders(&session).await, ["b", "c"]);
    held.release().await.unwrap();
    third.release().await.unwrap();
    assert!(world.snapshot(&session).await.kept.is_empty());
}

#[tokio::test]
async fn admission_between_an_operators_look_and_a_raised_maximum_leaves_nobody_asleep() {
    let world = World::new("raised-late", 1).await;
    let session = world.session().await;
    let (operator, proxy) = world.session_through_proxy(LONG).await;
    let first = world.acquire(&session, "a").await;
    let second = world.queue_up(&session, request("b")).await;
    let third = world.queue_up(&session, request("c")).await;
    proxy.hold_requests_after(0, OpCode::Multi);
    let pool = world.pool.clone();
    let raised = tokio::spawn(async move { admin::set_max(&operator, &pool, 2, None, "operator").await });
    eventually_async("it has decided", async || proxy.holds_requests().then_some(())).await;
    first.release().await.unwrap();
    let _second = second.await.unwrap().unwrap();
    proxy.heal();
    raised.await.unwrap().unwrap();
    let _third = third.await.unwrap().unwrap();
}

#[tokio::test]
async fn release_by_force_lets_the_next_in() {
    let world = World::new("forced", 1).await;
    let session = world.session().await;
    let (held, third) = handed_over(&world, &session, &session, request("b")).await;
    assert_eq!(admin::force_release(&session, &world.pool, "b", "operator").await, Ok(1));
    enters(&world, &session, third).await;
    assert!(matches!(held.release().await, Err(SlotsError::Lost { .. })));
}

#[tokio::test]
async fn slot_that_was_deleted_by_hand_lets_the_next_in_when_its_holder_notices() {
    let world = World::new("by-hand-next", 1).await;
    let session = world.session().await;
    let (held, third) = handed_over(&world, &session, &session, request("b")).await;
    session.term().delete(slots::slot(&world.pool, 1).path(), None).await.unwrap();
    held.lost().await;
    enters(&world, &session, third).await;
    assert!(matches!(held.release().await, Err(SlotsError::Lost { .. })));
}

#[tokio::test]
async fn newcomer_takes_away_the_place_of_a_slot_that_was_deleted_by_hand() {
    let world = World::new("by-hand-new", 1).await;
    let session = world.session().await;
    let first = world.acquire(&session, "a").await;
    let second = world.queue_up(&session, request("b")).await;
    first.release().await.unwrap();
    let held = second.await.unwrap().unwrap();
    session.term().delete(slots::slot(&world.pool, 1).path(), None).await.unwrap();
    let newcomer = world.acquire(&session, "c").await;
    let left = world.snapshot(&session).await;
    assert_eq!((left.kept.len(), left.queue.len(), left.tickets.len()), (0, 0, 1));
    assert!(matches!(held.release().await, Err(SlotsError::Lost { .. })));
    newcomer.release().await.unwrap();
}

#[tokio::test]
async fn lost_session_leaves_the_slot_and_the_next_still_hears_of_the_release() {
    let world = World::new("session-lost", 1).await;
    let (ours, theirs) = (world.session().await, world.session().await);
    let (held, third) = handed_over(&world, &ours, &theirs, request("b")).await;
    ours.close().await;
    assert_eq!(world.holders(&theirs).await, ["b"], "a crash frees nothing");
    assert!(world.snapshot(&theirs).await.kept.is_empty());
    assert_eq!(admin::force_release(&theirs, &world.pool, held.holder().holder.as_str(), "op").await, Ok(1));
    enters(&world, &theirs, third).await;
}

#[tokio::test]
async fn ephemeral_slot_and_its_place_end_together() {
    let world = World::new("ephemeral-next", 1).await;
    let (ours, theirs) = (world.session().await, world.session().await);
    let ephemeral = Request { ephemeral: true, ..request("b") };
    let (held, third) = handed_over(&world, &ours, &theirs, ephemeral).await;
    drop(held);
    ours.close().await;
    enters(&world, &theirs, third).await;
}

#[tokio::test]
async fn another_command_that_finds_the_slot_gives_it_back_with_its_place() {
    let world = World::new("found", 1).await;
    let session = world.session().await;
    let (held, third) = handed_over(&world, &session, &session, request("b")).await;
    drop(held);
    HeldSlot::find(&session, &world.pool, "b").await.unwrap().release().await.unwrap();
    enters(&world, &session, third).await;
}

#[tokio::test]
async fn release_whose_reply_is_lost_wakes_the_next() {
    let world = World::new("lost-reply-next", 1).await;
    let theirs = world.session().await;
    let (ours, proxy) = world.session_through_proxy(LONG).await;
    let (held, third) = handed_over(&world, &ours, &theirs, request("b")).await;
    proxy.drop_reply_of(OpCode::Multi);
    held.release().await.unwrap();
    assert_eq!(proxy.dropped_replies(), 1);
    enters(&world, &theirs, third).await;
}

#[tokio::test]
async fn woken_waiter_that_dies_wakes_the_one_behind_it() {
    let world = World::new("dies", 1).await;
    let theirs = world.session().await;
    let (ours, proxy) = world.session_through_proxy(LONG).await;
    let (held, third) = handed_over(&world, &theirs, &ours, request("b")).await;
    let fourth = world.queue_up(&theirs, request("d")).await;
    // It wakes up and never gets to send its admission.
    proxy.hold_requests_after(0, OpCode::Multi);
    held.release().await.unwrap();
    eventually_async("it has decided", async || proxy.holds_requests().then_some(())).await;
    third.abort();
    drop(proxy);
    enters(&world, &theirs, fourth).await;
}
