//! Readers and writers.

use menagerie_kernel::Session;
use menagerie_kernel::recipes::contest::Mode;
use menagerie_kernel::recipes::grant::Loss;
use menagerie_kernel::recipes::lock::{Lock, LockError, LockGuard, TryAcquire};
use menagerie_kernel::recipes::rw_lock::RwLock;
use menagerie_testkit::{OpCode, eventually_async};
use tokio::task::JoinHandle;

use crate::lock::{DIR, dir};
use crate::world::{LONG, SHORT, World};

fn rw(session: &Session, who: &str) -> RwLock {
    RwLock::new(session, dir()).identified_by(who)
}

fn contend(lock: &Lock) -> JoinHandle<Result<LockGuard, LockError>> {
    let lock = lock.clone();
    tokio::spawn(async move { lock.acquire().await })
}

async fn wait_for_line(session: &Session, wanted: &[&str]) {
    eventually_async(&format!("the line is {wanted:?}"), async || {
        session.term().sync("/").await.unwrap();
        let line = rw(session, "").contenders().await.unwrap().into_iter().map(|one| {
            let mode = if one.mode == Mode::Shared { "r" } else { "w" };
            format!("{mode}-{}{}", one.identifier, if one.holds { "*" } else { "" })
        });
        (line.collect::<Vec<_>>() == wanted).then_some(())
    })
    .await;
}

#[tokio::test]
async fn readers_share_and_wait_for_writers_before_them() {
    let world = World::new("rw");
    let (a, b) = (world.session().await, world.session().await);
    let one = rw(&a, "1").reader().acquire().await.unwrap();
    let two = rw(&b, "2").reader().acquire().await.unwrap();
    let three = contend(rw(&a, "3").writer());
    wait_for_line(&a, &["r-1*", "r-2*", "w-3"]).await;
    let four = contend(rw(&b, "4").reader());
    wait_for_line(&a, &["r-1*", "r-2*", "w-3", "r-4"]).await;
    let five = contend(rw(&a, "5").reader());
    wait_for_line(&a, &["r-1*", "r-2*", "w-3", "r-4", "r-5"]).await;
    // The nearest goes first: the writer must not take that for its turn.
    two.release().await.unwrap();
    wait_for_line(&a, &["r-1*", "w-3", "r-4", "r-5"]).await;
    assert!(!three.is_finished());
    one.release().await.unwrap();
    let three = three.await.unwrap().unwrap();
    wait_for_line(&a, &["w-3*", "r-4", "r-5"]).await;
    assert!(!four.is_finished() && !five.is_finished());
    three.release().await.unwrap();
    let (four, five) = (four.await.unwrap().unwrap(), five.await.unwrap().unwrap());
    wait_for_line(&a, &["r-4*", "r-5*"]).await;
    assert!(four.fence() < five.fence());
}

#[tokio::test]
async fn try_acquire_tells_who_is_in_the_way() {
    let world = World::new("rw-try");
    let (a, b) = (world.session().await, world.session().await);
    let _reading = rw(&a, "reader").reader().acquire().await.unwrap();
    let TryAcquire::HeldBy(holder) = rw(&b, "").writer().try_acquire().await.unwrap() else {
        panic!("a reader keeps writers out")
    };
    assert_eq!((holder.identifier.as_str(), holder.holds, holder.mode), ("reader", true, Mode::Shared));
    assert!(matches!(rw(&b, "").reader().try_acquire().await, Ok(TryAcquire::Acquired(_))));
    let writing = contend(rw(&a, "writer").writer());
    wait_for_line(&a, &["r-reader*", "w-writer"]).await;
    let TryAcquire::HeldBy(holder) = rw(&b, "").reader().try_acquire().await.unwrap() else {
        panic!("a writer waits before us")
    };
    assert_eq!((holder.identifier.as_str(), holder.holds, holder.mode), ("writer", false, Mode::Exclusive));
    writing.abort();
}

#[tokio::test]
async fn lost_replies_cut_connections_and_expiry_are_survived() {
    let world = World::new("rw-faults");
    let (session, proxy) = world.session_through_proxy(SHORT).await;
    let other = world.session().await;
    proxy.drop_reply_of(OpCode::Create2);
    let reading = rw(&session, "mine").reader().acquire().await.unwrap();
    wait_for_line(&other, &["r-mine*"]).await;
    proxy.drop_reply_of(OpCode::Delete);
    reading.release().await.unwrap();
    wait_for_line(&other, &[]).await;
    assert_eq!(proxy.dropped_replies(), 2);

    let writing = rw(&other, "other").writer().acquire().await.unwrap();
    let reading = contend(rw(&session, "mine").reader());
    wait_for_line(&other, &["w-other*", "r-mine"]).await;
    proxy.lose_connections();
    writing.release().await.unwrap();
    let reading = reading.await.unwrap().unwrap();

    let writing = contend(rw(&other, "other").writer());
    wait_for_line(&other, &["r-mine*", "w-other"]).await;
    proxy.partition();
    assert_eq!(reading.lost().await, Loss::Lapsed);
    assert!(!writing.is_finished());
    let writing = writing.await.unwrap().unwrap();
    proxy.heal();
    assert_eq!(reading.release().await, Err(LockError::Lost { dir: DIR.to_owned() }));
    let again = contend(rw(&session, "mine").reader());
    wait_for_line(&other, &["w-other*", "r-mine"]).await;
    writing.release().await.unwrap();
    assert!(again.await.unwrap().unwrap().term().number() > 1);
}

#[tokio::test]
async fn reader_that_gives_up_leaves_nothing() {
    let world = World::new("rw-dropped");
    let (session, proxy) = world.session_through_proxy(LONG).await;
    let other = world.session().await;
    let writing = rw(&other, "other").writer().acquire().await.unwrap();
    proxy.hold_replies();
    let reading = contend(rw(&session, "mine").reader());
    wait_for_line(&other, &["w-other*", "r-mine"]).await;
    reading.abort();
    proxy.lose_connections();
    proxy.heal();
    wait_for_line(&other, &["w-other*"]).await;
    writing.release().await.unwrap();
}
