//! The leader of the ensemble dies, or its only server, during everything that groups do.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::time::Duration;

use menagerie_kernel::recipes::barrier::Barrier;
use menagerie_kernel::recipes::contest::Mode;
use menagerie_kernel::recipes::counter::CounterError;
use menagerie_kernel::recipes::double_barrier::DoubleBarrier;
use menagerie_kernel::recipes::logical_time::{Ltime, logical_time};
use menagerie_kernel::recipes::membership::{Member, Registry};
use menagerie_kernel::recipes::party::Party;
use menagerie_kernel::recipes::presence::Presence;
use menagerie_kernel::recipes::semaphore::Semaphore;
use menagerie_kernel::recipes::settle::{Rule, Settling};
use menagerie_kernel::{CallError, Session};
use menagerie_testkit::{Ensemble, Servers, eventually_async};
use menagerie_znodes::components::{Component, ComponentState};
use menagerie_znodes::{Dir, Kind, Name, Text, Znode};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::counter::counter;
use crate::holders::Log;
use crate::world::World;
use crate::{barrier, semaphore};

const WORKERS: usize = 5;
const LIMIT: u32 = 2;

/// A separate server, and sessions on it.
struct Doomed {
    servers: Servers,
    world: World,
}

impl Doomed {
    fn new(name: &str) -> Self {
        let servers = Ensemble::from_env().start_own();
        let world = World::on(&servers, name);
        Self { servers, world }
    }

    async fn session(&self) -> Session {
        self.world.session().await
    }

    async fn kill_leader(mut self) -> Self {
        tokio::task::spawn_blocking(move || {
            self.servers.kill_leader();
            self
        })
        .await
        .unwrap()
    }
}

/// Waits until everybody has had another turn.
async fn all_take_turns(turns: &[AtomicUsize]) {
    let now = || turns.iter().map(|turns| turns.load(Ordering::Relaxed)).collect::<Vec<_>>();
    let before = now();
    eventually_async("everybody has had its turn", async || {
        now().iter().zip(&before).all(|(now, before)| now > before).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn permits_and_numbers_survive_the_leader() {
    let world = Doomed::new("groups-failover");
    let watcher = world.session().await;
    let log = Log::new(&watcher, "/holders").await;
    let turns: Arc<[AtomicUsize; WORKERS]> = Arc::default();
    let (added, doubtful) = (Arc::new(AtomicI64::new(0)), Arc::new(AtomicI64::new(0)));
    let (stop, stopped) = watch::channel(false);
    let mut workers = JoinSet::new();
    for worker in 0..WORKERS {
        let session = world.session().await;
        let (turns, stopped) = (turns.clone(), stopped.clone());
        let (added, doubtful, log) = (added.clone(), doubtful.clone(), log.clone());
        workers.spawn(async move {
            let semaphore = Semaphore::new(&session, semaphore::dir(), LIMIT);
            while !*stopped.borrow() {
                let permit = semaphore.acquire().await.unwrap();
                log.stay(&permit, Mode::Shared).await;
                // It may have been lost; the next acquire must still work.
                let _ = permit.release().await;
                match counter(&session).add(1).await {
                    Ok(_) => added.fetch_add(1, Ordering::Relaxed),
                    Err(CounterError::Unknown { .. }) => doubtful.fetch_add(1, Ordering::Relaxed),
                    Err(error) => panic!("{error}"),
                };
                turns[worker].fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    all_take_turns(&turns[..]).await;
    let world = world.kill_leader().await;
    all_take_turns(&turns[..]).await;
    stop.send_replace(true);
    while let Some(done) = workers.join_next().await {
        done.unwrap();
    }
    let crowd = log.count(&watcher).await;
    assert!(crowd.at_once <= LIMIT as usize, "{crowd:?}");
    let (added, doubtful) = (added.load(Ordering::Relaxed), doubtful.load(Ordering::Relaxed));
    let value = counter(&watcher).value().await.unwrap();
    assert!((added..=added + doubtful).contains(&value), "{value}, of {added} and perhaps {doubtful}");
    drop(world);
}

/// Asks for the time repeatedly: it rises, whatever happens.
async fn ask_the_time(session: Session, asked: Arc<[AtomicUsize; 1]>, stopped: watch::Receiver<bool>) {
    let (mut term, mut last) = (session.term(), Ltime(0));
    while !*stopped.borrow() {
        match logical_time(&term).await {
            Ok(now) => {
                assert!(now > last, "{now} after {last}");
                last = now;
                asked[0].fetch_add(1, Ordering::Relaxed);
            }
            // An election may take longer than a session lasts.
            Err(CallError::Expired) => term = session.term_after(&term).await.unwrap(),
            Err(error) => panic!("{error}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_waits_or_is_there_survives_the_leader() {
    let world = Doomed::new("waiting-failover");
    let (a, b) = (world.session().await, world.session().await);
    let gate: Znode<Dir> = Znode::foreign("/barriers/gate", Kind::Persistent);
    let kind = Name::new("web").unwrap();
    Barrier::new(&a, gate.clone()).create().await.unwrap();
    let waits = tokio::spawn({
        let barrier = Barrier::new(&b, gate.clone());
        async move { barrier.wait().await }
    });
    let first = DoubleBarrier::new(&a, barrier::dir(), 2);
    let first = tokio::spawn(async move { first.enter().await });
    let member = Member::join(&a, &kind, Component::new(&kind, "1")).await.unwrap();
    let view = Registry::new(&b).watch(&kind).await.unwrap();
    let party = Party::new(&a, Znode::foreign("/party", Kind::Persistent));
    let guest = party.join("guest").await.unwrap();
    let components: Znode<Dir> = Znode::foreign("/components/web", Kind::Persistent);
    let rule = Rule { quiet: Duration::from_millis(300), ..Rule::default() };
    let mut settling = Settling::new(&b, components, rule);
    let place: Znode<Text> = Znode::foreign("/workers/web-1", Kind::Ephemeral);
    let presence = Presence::begin(&a, &place, &Text("before".to_owned())).await.unwrap();
    let (asked, (stop, stopped)) = (Arc::<[AtomicUsize; 1]>::default(), watch::channel(false));
    let clock = tokio::spawn(ask_the_time(world.session().await, asked.clone(), stopped));
    all_take_turns(&asked[..]).await;
    barrier::present(&b, 1).await;

    let world = world.kill_leader().await;

    all_take_turns(&asked[..]).await;
    stop.send_replace(true);
    clock.await.unwrap();
    presence.publish(&Text("after".to_owned()));
    eventually_async("it says what it said last", async || {
        let (data, _) = b.term().get(place.path()).await.ok()?;
        (data == b"after").then_some(())
    })
    .await;
    member.set_state(ComponentState::Running).await.unwrap();
    let mut members = view.members();
    let running = members.wait_for(|all| all.len() == 1 && all[0].component.state == ComponentState::Running);
    tokio::time::timeout(menagerie_testkit::DEADLINE, running).await.unwrap().unwrap();
    assert_eq!(party.members().await.unwrap(), ["guest"]);
    assert_eq!(settling.next().await.unwrap().names.len(), 1);
    assert!(!waits.is_finished() && !first.is_finished());
    Barrier::new(&a, gate).remove().await.unwrap();
    waits.await.unwrap().unwrap();
    let second = DoubleBarrier::new(&b, barrier::dir(), 2).enter().await.unwrap();
    let first = tokio::spawn(first.await.unwrap().unwrap().leave());
    second.leave().await.unwrap();
    first.await.unwrap().unwrap();
    presence.leave().await.unwrap();
    guest.leave().await.unwrap();
    member.leave().await.unwrap();
    drop(world);
}
