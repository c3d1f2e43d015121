//! The lease clock, and the recipes that depend on it.

use std::time::Duration;

use menagerie_kernel::recipes::lock::Lock;
use menagerie_kernel::recipes::semaphore::Semaphore;
use menagerie_kernel::{Moment, Session};
use menagerie_testkit::{Proxy, eventually_async};

use crate::lock::dir;
use crate::world::World;

/// Long enough for a gap between the end of the lease and the end of the session, which the client gives up after 7/5
/// of the time-out.
const TIMEOUT: Duration = Duration::from_secs(6);

/// Ends the lease but not the session: the server hears the client, but the client hears nothing.
async fn outlive_the_lease(session: &Session, proxy: &Proxy) {
    let term = session.term();
    proxy.hold_replies();
    term.lapsed().await;
    // One heartbeat would revive it as long as the last one before the outage counts.
    let until = *term.valid_until().borrow() + TIMEOUT / 4;
    let lost = tokio::time::timeout(until - Moment::now(), term.lost()).await;
    assert!(lost.is_err(), "the session lives on");
}

#[tokio::test]
async fn nothing_is_held_under_a_lapsed_lease() {
    let world = World::new("lapsed");
    let other = world.session().await;
    let (session, proxy) = world.session_through_proxy(TIMEOUT).await;
    let semaphore = |session| Semaphore::new(session, crate::semaphore::dir(), 1);
    let held = Lock::new(&other, dir()).acquire().await.unwrap();
    let permit = semaphore(&other).acquire().await.unwrap();
    let waits = tokio::spawn({
        let (lock, semaphore) = (Lock::new(&session, dir()), semaphore(&session));
        async move { tokio::join!(lock.acquire(), semaphore.acquire()) }
    });
    eventually_async("both contend", async || {
        let contenders = Lock::new(&other, dir()).contenders().await.unwrap().len();
        (contenders == 2 && semaphore(&other).waiters().await.unwrap().len() == 1).then_some(())
    })
    .await;
    let term = session.term();
    outlive_the_lease(&session, &proxy).await;
    held.release().await.unwrap();
    permit.release().await.unwrap();
    proxy.heal();
    let (held, permit) = waits.await.unwrap();
    let (held, permit) = (held.unwrap(), permit.unwrap());
    let now = Moment::now();
    assert_eq!(session.term().session_id(), term.session_id(), "the session has survived");
    // Not under what is left of the lease from before the outage: that would be over before the next heartbeat.
    let enough = now + TIMEOUT / 4;
    assert!(*held.valid_until().borrow() > enough, "the lock is held under a lease");
    assert!(*permit.valid_until().borrow() > enough, "and so is the permit");
}
