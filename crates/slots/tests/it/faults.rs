//! Lost replies and lost connections: no slot is held twice, none by nobody.

use menagerie_kernel::session::{Rights, State};
use menagerie_slots::{Request, SlotsError, acquire, admin};
use menagerie_testkit::{OpCode, Proxy, eventually_async};
use menagerie_znodes::slots::Frozen;

use crate::world::{LONG, World, request};

/// Waits until a contender has read and decided, and the proxy holds its transaction.
async fn has_decided(proxy: &Proxy) {
    eventually_async("it has decided", async || proxy.holds_requests().then_some(())).await;
}

#[tokio::test]
async fn admission_whose_reply_is_lost_happens_once() {
    let world = World::new("lost-admission", 2).await;
    let (session, proxy) = world.session_through_proxy(LONG).await;
    proxy.drop_reply_of(OpCode::Multi);
    let held = acquire(&session, &world.pool, &request("a"), |_| {}).await.unwrap();
    assert!(held.fence().is_some());
    let other = world.session().await;
    assert_eq!(world.holders(&other).await, ["a"]);
    assert_eq!(world.snapshot(&other).await.pool.count, 1);
    assert_eq!(proxy.dropped_replies(), 1);
}

#[tokio::test]
async fn release_whose_reply_is_lost_happens_once_and_is_no_loss() {
    let world = World::new("lost-release", 1).await;
    let (session, proxy) = world.session_through_proxy(LONG).await;
    let held = acquire(&session, &world.pool, &request("a"), |_| {}).await.unwrap();
    proxy.drop_reply_of(OpCode::Multi);
    held.release().await.unwrap();
    let other = world.session().await;
    assert_eq!(world.holders(&other).await, [""; 0]);
    assert_eq!(proxy.dropped_replies(), 1);
}

#[tokio::test]
async fn release_of_what_was_just_taken_needs_no_look() {
    let world = World::new("one-request", 1).await;
    let (session, proxy) = world.session_through_proxy(LONG).await;
    let held = acquire(&session, &world.pool, &request("a"), |_| {}).await.unwrap();
    proxy.take_requests();
    held.release().await.unwrap();
    assert_eq!((proxy.requests_of(OpCode::Sync), proxy.requests_of(OpCode::MultiRead)), (0, 0));
    assert!(world.snapshot(&world.session().await).await.alive.is_empty(), "nor is a sign of life left");
}

#[tokio::test]
async fn contender_that_gives_up_before_its_lease_counts_leaves_nothing() {
    let world = World::new("untrusted", 1).await;
    let other = world.session().await;
    // The lease clock of an observer's session does not run: its slot never counts as held.
    let session = world.session_with(|config| config.rights = Rights::Observer).await;
    let term = session.term();
    term.lapsed().await;
    let (pool, request) = (world.pool.clone(), Request { ephemeral: true, ..request("a") });
    let asking = session.clone();
    let acquiring = tokio::spawn(async move { acquire(&asking, &pool, &request, |_| {}).await });
    eventually_async("it is in", async || (world.holders(&other).await == ["a"]).then_some(())).await;
    assert!(!acquiring.is_finished());
    acquiring.abort();
    eventually_async("it has left", async || world.holders(&other).await.is_empty().then_some(())).await;
    let left = world.snapshot(&other).await;
    assert!(left.tickets.is_empty() && left.alive.is_empty() && left.queue.is_empty());
    assert_ne!(*term.state().borrow(), State::Lost, "nor has its session ended");
}

#[tokio::test]
async fn place_in_the_queue_survives_a_lost_connection() {
    let world = World::new("reconnect", 1).await;
    let holder = world.session().await;
    let held = world.acquire(&holder, "a").await;
    let (session, proxy) = world.session_through_proxy(LONG).await;
    let first = world.queue_up(&session, request("b")).await;
    let second = world.queue_up(&holder, request("c")).await;
    proxy.lose_connections();
    held.release().await.unwrap();
    let first = first.await.unwrap().unwrap();
    assert!(!second.is_finished());
    first.release().await.unwrap();
    second.await.unwrap().unwrap();
}

#[tokio::test]
async fn operators_who_change_a_pool_at_once_never_both_believe_it() {
    let world = World::new("admins", 1).await;
    let (one, other) = (world.session().await, world.session().await);
    for round in 0..20 {
        let (low, high) = (2 + round * 2, 3 + round * 2);
        let (a, b) = tokio::join!(
            admin::set_max(&one, &world.pool, low, None, "one"),
            admin::set_max(&other, &world.pool, high, None, "other"),
        );
        let stored = world.snapshot(&one).await.pool.max;
        assert!(a.is_ok() || b.is_ok());
        assert!(stored == low && a.is_ok() || stored == high && b.is_ok(), "{a:?} {b:?} {stored}");
    }
}

#[tokio::test]
async fn operator_who_decided_before_another_changed_the_pool_is_told_of_the_conflict() {
    let world = World::new("conflict", 1).await;
    let other = world.session().await;
    let (session, proxy) = world.session_through_proxy(LONG).await;
    proxy.hold_requests_after(0, OpCode::Multi);
    let pool = world.pool.clone();
    let late = tokio::spawn(async move { admin::set_max(&session, &pool, 2, None, "late").await });
    has_decided(&proxy).await;
    assert_eq!(world.snapshot(&other).await.pool.max, 1);
    admin::set_max(&other, &world.pool, 3, None, "other").await.unwrap();
    proxy.heal();
    assert_eq!(late.await.unwrap(), Err(SlotsError::Conflict { pool: "pool".to_owned() }));
    assert_eq!(world.snapshot(&other).await.pool.max, 3);
}

#[tokio::test]
async fn emergency_stop_is_made_whatever_other_operators_do() {
    let world = World::new("stop", 1).await;
    let (one, other) = (world.session().await, world.session().await);
    for round in 0..20 {
        let frozen = |by: &str| Frozen { by: by.to_owned(), reason: None, tell: false };
        let (changed, stopped, stopped_too) = tokio::join!(
            admin::set_max(&one, &world.pool, 2 + round, None, "one"),
            admin::freeze(&other, &world.pool, frozen("other")),
            admin::freeze(&one, &world.pool, frozen("one")),
        );
        assert_eq!((stopped, stopped_too), (Ok(()), Ok(())), "{changed:?}");
        let pool = world.snapshot(&one).await.pool;
        assert!(pool.frozen.is_some() && (changed.is_err() || pool.max == 2 + round), "{changed:?} {pool:?}");
        admin::thaw(&one, &world.pool, "one").await.unwrap();
    }
}

#[tokio::test]
async fn contender_that_read_an_earlier_pool_of_that_name_is_not_admitted() {
    let world = World::new("anew", 2).await;
    let operator = world.session().await;
    let (session, proxy) = world.session_through_proxy(LONG).await;
    proxy.hold_requests_after(0, OpCode::Multi);
    let pool = world.pool.clone();
    let late = tokio::spawn(async move { acquire(&session, &pool, &request("a"), |_| {}).await });
    has_decided(&proxy).await;
    assert_eq!(world.snapshot(&operator).await.pool.max, 2);
    admin::delete(&operator, &world.pool).await.unwrap();
    admin::create(&operator, &world.pool, 1, "test").await.unwrap();
    proxy.heal();
    let held = late.await.unwrap().unwrap();
    assert_eq!(world.snapshot(&operator).await.pool.max, 1, "nobody brings the old maximum back");
    held.release().await.unwrap();
}
