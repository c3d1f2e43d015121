//! Somebody else acts between two of our requests: the proxy holds the second one until that is done.

use menagerie_kernel::recipes::double_barrier::DoubleBarrier;
use menagerie_kernel::recipes::semaphore::Semaphore;
use menagerie_kernel::retry;
use menagerie_testkit::{OpCode, eventually_async};

use crate::barrier::{self, PATH};
use crate::semaphore::dir;
use crate::world::{LONG, World, held};

#[tokio::test]
async fn permit_that_somebody_else_has_put_in_place_of_ours_is_not_ours() {
    let world = World::new("permit-replaced");
    let other = world.session().await;
    let (session, proxy) = world.session_through_proxy(LONG).await;
    let semaphore = Semaphore::new(&session, dir(), 2);
    // The first acquisition does the one-time work.
    semaphore.acquire().await.unwrap().release().await.unwrap();
    // It enters, and then looks at what it has.
    proxy.hold_requests_after(0, OpCode::Exists);
    let acquiring = tokio::spawn(async move { semaphore.acquire().await });
    held(&proxy).await;
    let name = eventually_async("it enters", async || {
        let names = other.term().children(dir().path()).await.unwrap();
        names.into_iter().find(|name| name.len() == 32)
    })
    .await;
    let path = format!("{}/{name}", dir().path());
    retry::delete(&other.term(), &path).await.unwrap();
    retry::create(&other.term(), &path, b"somebody else").await.unwrap();
    proxy.heal();
    let permit = acquiring.await.unwrap().unwrap();
    assert_ne!(permit.ticket(), path);
    let owner = other.term().stat(permit.ticket()).await.unwrap().unwrap().ephemeral_owner;
    assert_eq!(owner, session.term().session_id());
}

#[tokio::test]
async fn double_barrier_is_not_opened_for_too_few() {
    let world = World::new("double-too-few");
    let other = world.session().await;
    let (session, proxy) = world.observer_through_proxy(LONG).await;
    let goes = format!("{PATH}/goes");
    retry::ensure(&other.term(), PATH, b"").await.unwrap();
    retry::create(&other.term(), &goes, b"").await.unwrap();
    // It has counted two, and is about to open.
    proxy.hold_requests_after(0, OpCode::Multi);
    let entering = tokio::spawn({
        let barrier = DoubleBarrier::new(&session, barrier::dir(), 2);
        async move { barrier.enter().await }
    });
    held(&proxy).await;
    retry::delete(&other.term(), &goes).await.unwrap();
    proxy.take_requests();
    proxy.heal();
    // It looks again, and is alone.
    eventually_async("it looks again", async || {
        assert!(!entering.is_finished(), "it went in alone");
        (proxy.requests_of(OpCode::MultiRead) > 0).then_some(())
    })
    .await;
    session.term().sync("/").await.unwrap();
    assert_eq!(other.term().stat(&format!("{PATH}/ready")).await, Ok(None));
    let second = DoubleBarrier::new(&other, barrier::dir(), 2).enter().await.unwrap();
    let (first, second) =
        tokio::join!(async { entering.await.unwrap().unwrap().leave().await }, second.leave());
    first.and(second).unwrap();
}
