//! Many contenders for one lock.

use std::sync::Arc;

use menagerie_kernel::Session;
use menagerie_kernel::recipes::contest::Mode;
use menagerie_kernel::recipes::lock::Lock;
use menagerie_testkit::{OpCode, eventually_async};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::holders::Log;
use crate::lock::{DIR, dir};
use crate::world::{LONG, World};

const CROWD: usize = 1_000;

/// Sessions that are opened at once.
const OPENING_MAX: usize = 50;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_sessions_hold_one_after_the_other() {
    let world = Arc::new(World::new("crowd"));
    let first = world.session().await;
    let log = Log::new(&first, "/holders").await;
    let held = Lock::new(&first, dir()).acquire().await.unwrap();
    let opening = Arc::new(Semaphore::new(OPENING_MAX));
    let mut crowd = JoinSet::new();
    for _ in 0..CROWD {
        let (world, opening, log) = (world.clone(), opening.clone(), log.clone());
        crowd.spawn(async move {
            let permit = opening.acquire().await.unwrap();
            let session = world.session().await;
            drop(permit);
            let held = Lock::new(&session, dir()).acquire().await.unwrap();
            assert!(log.stay(&held, Mode::Exclusive).await);
            held.release().await.unwrap();
        });
    }
    // In steps: the total time depends on the machine, but there must be progress.
    for some in (0..=CROWD).step_by(100) {
        eventually_async("they contend", async || (count(&first).await > some).then_some(())).await;
    }
    assert!(log.stay(&held, Mode::Exclusive).await);
    held.release().await.unwrap();
    while let Some(done) = crowd.join_next().await {
        done.unwrap();
    }
    assert_eq!(log.check(&first).await.len(), CROWD + 1);
    assert_eq!(count(&first).await, 0);
}

async fn count(session: &Session) -> usize {
    session.term().children(DIR).await.unwrap().len()
}

#[tokio::test]
async fn each_release_wakes_one() {
    const SESSIONS: usize = 4;
    const EACH: usize = 25;
    let world = World::new("herd");
    let (config, proxy) = world.config_through_proxy(LONG);
    let first = Session::connect(config.clone()).await.unwrap();
    let held = Lock::new(&first, dir()).acquire().await.unwrap();
    let mut sessions = Vec::new();
    for _ in 0..SESSIONS {
        sessions.push(Session::connect(config.clone()).await.unwrap());
    }
    proxy.take_requests();
    let mut crowd = JoinSet::new();
    for session in sessions.iter().cycle().take(SESSIONS * EACH) {
        let lock = Lock::new(session, dir());
        crowd.spawn(async move { lock.acquire().await.unwrap().release().await.unwrap() });
    }
    let waiting = SESSIONS * EACH;
    eventually_async("all watch", async || (proxy.requests_of(OpCode::GetData) == waiting).then_some(()))
        .await;
    for session in &sessions {
        // The server answers it after the watches that were requested before.
        session.term().stat("/").await.unwrap();
    }
    proxy.take_requests();
    held.release().await.unwrap();
    while let Some(done) = crowd.join_next().await {
        done.unwrap();
    }
    // A woken contender lists once, holds, and releases: one request each, however many wait. Nobody else sends
    // anything.
    assert_eq!(proxy.requests_of(OpCode::GetChildren), waiting);
    assert_eq!(proxy.requests_of(OpCode::Delete), waiting + 1);
    assert_eq!(proxy.requests_of(OpCode::GetData), 0);
}
