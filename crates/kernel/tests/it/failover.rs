//! The leader of the ensemble dies, or its only server, while locks are acquired, held and released.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use menagerie_kernel::Session;
use menagerie_kernel::recipes::contest::Mode;
use menagerie_kernel::recipes::election::Election;
use menagerie_kernel::recipes::grant::Loss;
use menagerie_kernel::recipes::lock::Lock;
use menagerie_kernel::recipes::rw_lock::RwLock;
use menagerie_testkit::{Ensemble, eventually_async};
use menagerie_znodes::{Dir, Kind, Znode};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::holders::Log;
use crate::world::World;

/// A contender that acquires and releases as fast as it can.
const WORKERS: [Recipe; 10] = {
    use Recipe::{Elect, Exclude, Read, Write};
    [Exclude, Exclude, Exclude, Elect, Elect, Elect, Read, Read, Write, Write]
};

#[derive(Debug, Clone, Copy)]
enum Recipe {
    Exclude,
    Elect,
    Read,
    Write,
}

fn dir(path: &str) -> Znode<Dir> {
    Znode::foreign(path, Kind::Persistent)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_is_stuck_and_no_two_hold_when_the_leader_dies() {
    let mut servers = Ensemble::from_env().start_own();
    let world = World::on(&servers, "failover");
    let session = world.session().await;

    // One holds all the time, and one waits for it.
    let held = Lock::new(&session, dir("/locks/quiet")).acquire().await.unwrap();
    let waiting = Lock::new(&world.session().await, dir("/locks/quiet"));
    let acquire = tokio::spawn(async move { waiting.acquire().await });

    let logs = Logs::new(&session).await;
    let turns: Arc<[AtomicUsize; WORKERS.len()]> = Arc::default();
    let (stop, stopped) = watch::channel(false);
    let mut workers = JoinSet::new();
    for (worker, recipe) in WORKERS.into_iter().enumerate() {
        let session = world.session().await;
        let (turns, stopped, logs) = (turns.clone(), stopped.clone(), logs.clone());
        workers.spawn(async move {
            while !*stopped.borrow() {
                turn(&session, recipe, &logs).await;
                turns[worker].fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    all_take_turns(turns.as_slice()).await;
    let _servers = tokio::task::spawn_blocking(move || {
        servers.kill_leader();
        servers
    })
    .await
    .unwrap();
    all_take_turns(turns.as_slice()).await;
    stop.send_replace(true);
    while let Some(done) = workers.join_next().await {
        done.unwrap();
    }
    for log in [&logs.lock, &logs.election, &logs.rw] {
        assert!(log.check(&session).await.len() > 3);
    }

    // The holder still holds, unless its session did not survive; then the other does.
    match tokio::time::timeout(Duration::ZERO, held.lost()).await {
        Ok(loss) => assert_ne!(loss, Loss::Removed),
        Err(_) => assert!(!acquire.is_finished()),
    }
    let _ = held.release().await;
    acquire.await.unwrap().unwrap().release().await.unwrap();
}

#[derive(Debug, Clone)]
struct Logs {
    lock: Log,
    election: Log,
    rw: Log,
}

impl Logs {
    async fn new(session: &Session) -> Self {
        Self {
            lock: Log::new(session, "/holders/lock").await,
            election: Log::new(session, "/holders/election").await,
            rw: Log::new(session, "/holders/rw").await,
        }
    }
}

/// Acquires, stays a moment, and releases.
async fn turn(session: &Session, recipe: Recipe, logs: &Logs) {
    let rw = RwLock::new(session, dir("/locks/rw"));
    let (log, mode, lock) = match recipe {
        Recipe::Exclude => (&logs.lock, Mode::Exclusive, Lock::new(session, dir("/locks/lock"))),
        Recipe::Read => (&logs.rw, Mode::Shared, rw.reader().clone()),
        Recipe::Write => (&logs.rw, Mode::Exclusive, rw.writer().clone()),
        Recipe::Elect => {
            let leadership = Election::new(session, dir("/locks/election"), "").campaign().await.unwrap();
            logs.election.stay(&leadership, Mode::Exclusive).await;
            let _ = leadership.resign().await;
            return;
        }
    };
    let held = lock.acquire().await.unwrap();
    log.stay(&held, mode).await;
    // It may have been lost meanwhile; the log checks that.
    let _ = held.release().await;
}

/// Waits until everybody has had a turn again.
async fn all_take_turns(turns: &[AtomicUsize]) {
    let now = || turns.iter().map(|turns| turns.load(Ordering::Relaxed)).collect::<Vec<_>>();
    let before = now();
    eventually_async("everybody has had its turn", async || {
        now().iter().zip(&before).all(|(now, before)| now > before).then_some(())
    })
    .await;
}
