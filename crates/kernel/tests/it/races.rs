//! Somebody else acts between two requests of ours. To have time for that, all that passes is delayed, held at the right
//! moment, and tried again if that was missed.

use std::time::Duration;

use menagerie_kernel::recipes::double_barrier::DoubleBarrier;
use menagerie_kernel::recipes::semaphore::Semaphore;
use menagerie_kernel::retry;
use menagerie_testkit::{OpCode, eventually_async};

use crate::barrier::{self, PATH, present};
use crate::semaphore::dir;
use crate::world::{LONG, World};

const DELAY: Duration = Duration::from_millis(100);

#[tokio::test]
async fn permit_that_somebody_else_has_put_in_place_of_ours_is_not_ours() {
    let world = World::new("permit-replaced");
    let other = world.session().await;
    let (session, proxy) = world.troubled(LONG).await;
    let semaphore = Semaphore::new(&session, dir(), 2);
    // Whatever is done the first time only is done.
    semaphore.acquire().await.unwrap().release().await.unwrap();
    loop {
        proxy.delay(DELAY);
        proxy.take_requests();
        let acquiring = tokio::spawn({
            let semaphore = semaphore.clone();
            async move { semaphore.acquire().await }
        });
        // It has entered, and is about to look at what it has.
        let name = eventually_async("it enters", async || {
            let names = other.term().children(dir().path()).await.unwrap();
            names.into_iter().find(|name| name.len() == 32)
        })
        .await;
        proxy.hold_requests();
        let in_time = proxy.requests_of(OpCode::Exists) == 0;
        let path = format!("{}/{name}", dir().path());
        retry::delete(&other.term(), &path).await.unwrap();
        retry::create(&other.term(), &path, b"somebody else").await.unwrap();
        proxy.heal();
        let permit = acquiring.await.unwrap().unwrap();
        if in_time {
            assert_ne!(permit.ticket(), path);
            let owner = other.term().stat(permit.ticket()).await.unwrap().unwrap().ephemeral_owner;
            assert_eq!(owner, session.term().session_id());
            return;
        }
        drop(permit);
        retry::delete(&other.term(), &path).await.unwrap();
    }
}

#[tokio::test]
async fn double_barrier_is_not_opened_for_too_few() {
    let world = World::new("double-too-few");
    let other = world.session().await;
    let (session, proxy) = world.troubled(LONG).await;
    loop {
        let goes = retry::create(&other.term(), &format!("{PATH}/goes"), b"").await;
        if goes.is_err() {
            retry::ensure(&other.term(), PATH, b"").await.unwrap();
            continue;
        }
        proxy.delay(DELAY);
        proxy.take_requests();
        let entering = tokio::spawn({
            let barrier = DoubleBarrier::new(&session, barrier::dir(), 2);
            async move { barrier.enter().await }
        });
        // It has counted, and is about to open.
        eventually_async("it counts", async || (proxy.requests_of(OpCode::MultiRead) > 0).then_some(()))
            .await;
        proxy.hold_requests();
        retry::delete(&other.term(), &format!("{PATH}/goes")).await.unwrap();
        let ready = format!("{PATH}/ready");
        let in_time = other.term().stat(&ready).await.unwrap().is_none();
        proxy.take_requests();
        proxy.heal();
        if in_time {
            // It looks again, and is alone.
            eventually_async("it looks again", async || {
                assert!(!entering.is_finished(), "it went in alone");
                (proxy.requests_of(OpCode::MultiRead) > 0).then_some(())
            })
            .await;
            session.term().sync("/").await.unwrap();
            assert_eq!(other.term().stat(&ready).await, Ok(None));
            let second = DoubleBarrier::new(&other, barrier::dir(), 2).enter().await.unwrap();
            let (first, second) =
                tokio::join!(async { entering.await.unwrap().unwrap().leave().await }, second.leave());
            first.and(second).unwrap();
            return;
        }
        entering.abort();
        present(&other, 0).await;
        retry::remove(&other.term(), &ready).await.unwrap();
    }
}
