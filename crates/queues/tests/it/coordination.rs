//! Assignment of partitions to workers.

use std::collections::BTreeMap;
use std::time::Duration;

use menagerie_kernel::recipes::election::Election;
use menagerie_kernel::recipes::settle::Rule;
use menagerie_queues::admin::{self, Change};
use menagerie_testkit::eventually_async;
use menagerie_znodes::Payload as _;
use menagerie_znodes::queues::{self, Worker};

use crate::world::{Log, Running, World, assignment, name, options};

/// Long enough for a busy machine to start ten workers before it settles.
const SETTLE: Rule = Rule { quiet: Duration::from_secs(3), cap: Duration::from_secs(30) };

async fn workers(world: &World, count: usize, settle: Rule) -> Vec<Running> {
    let mut sessions = Vec::new();
    for _ in 0..count {
        sessions.push(world.session().await);
    }
    let start = |(number, session)| {
        let (worker, log) = (format!("w{number:02}"), Log::default());
        let mut options = options(&worker, &["mail"]);
        options.settle = settle;
        world.start(&session, options, log.task(&worker))
    };
    sessions.into_iter().enumerate().map(start).collect()
}

async fn fences(workers: &[Running]) -> BTreeMap<String, (String, String)> {
    let mut all = BTreeMap::new();
    for worker in workers {
        for lane in worker.view().await.partitions {
            let owner = (worker.name.to_string(), lane.fence);
            assert!(
                all.insert(lane.partition.to_string(), owner).is_none(),
                "{} has two owners",
                lane.partition
            );
        }
    }
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_workers_started_at_once_make_one_rebalance_and_another_one_moves_only_what_must() {
    let world = World::new("ten");
    let session = world.session().await;
    world.create(&session, "mail", 40).await;
    let mut workers = workers(&world, 9, SETTLE).await;
    for (place, worker) in workers.iter().enumerate() {
        // 40 among 9: four of them have five.
        let partitions = eventually_async("it has its share", async || {
            let view = worker.view().await;
            Some(view.partitions.len()).filter(|count| (4..=5).contains(count) && view.waiting_for.is_empty())
        });
        assert!((4..=5).contains(&partitions.await), "worker {place}");
    }
    assert_eq!(assignment(&session).await.epoch, 1, "one change for all nine");
    let before = eventually_async("all have owners", async || {
        let fences = fences(&workers).await;
        (fences.len() == 40).then_some(fences)
    })
    .await;
    let tenth = world.session().await;
    let log = Log::default();
    let mut options = options("w99", &["mail"]);
    options.settle = SETTLE;
    workers.push(world.start(&tenth, options, log.task("w99")));
    workers[9].has(4).await;
    let after = fences(&workers).await;
    assert_eq!((after.len(), assignment(&session).await.epoch), (40, 2));
    let stayed = before.iter().filter(|(partition, owner)| after.get(*partition) == Some(owner)).count();
    assert_eq!(stayed, 36, "what did not move was never given back");
    for worker in workers {
        worker.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_workers_take_over_and_what_is_published_is_true() {
    let world = World::new("idle");
    let session = world.session().await;
    world.create(&session, "mail", 2).await;
    let mut all = workers(&world, 3, crate::world::QUICK).await;
    let idle = eventually_async("two work and one is idle", async || {
        let mut counts = Vec::new();
        for worker in &all {
            counts.push(worker.view().await.partitions.len());
        }
        let idle = counts.iter().position(|count| *count == 0)?;
        (counts.iter().sum::<usize>() == 2 && counts.iter().all(|count| *count <= 1)).then_some(idle)
    })
    .await;
    for worker in &all {
        let listed = queues::worker(&worker.name);
        eventually_async("it is listed with what it has", async || {
            let (data, _) = session.term().get(listed.path()).await.ok()?;
            let listed = Worker::decode(&data).unwrap();
            let has: Vec<_> = worker.view().await.partitions.into_iter().map(|lane| lane.partition).collect();
            (listed.queues == has).then_some(())
        })
        .await;
    }
    let spare = all.remove(idle);
    all.remove(0).kill().await;
    spare.has(1).await;
    all.remove(0).finish().await;
    spare.has(2).await;
    assert!(assignment(&session).await.workers.keys().eq([&spare.name]));
    spare.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_cannot_assign_steps_back_and_assigns_once_it_can() {
    let world = World::new("unassigned");
    let session = world.session().await;
    world.create(&session, "mail", 2).await;
    let all = workers(&world, 2, crate::world::QUICK).await;
    for worker in &all {
        worker.has(1).await;
    }
    let election = Election::new(&session, queues::election(), "nobody");
    let leader = async || election.leader().await.unwrap().map(|leader| leader.identifier);
    let first = leader().await.unwrap();
    let assignment = queues::assignment();
    let access = |letters: &str| [format!("world:anyone:{letters}").parse().unwrap()];
    session.term().set_access(assignment.path(), &access("ra"), None).await.unwrap();
    // Both serve it, but whoever is elected cannot write the assignment.
    let wider = Change { partitions: Some(4), ..Change::default() };
    admin::change(&session, &world.journals(), &"mail".parse().unwrap(), &wider).await.unwrap();
    eventually_async("the other one is elected", async || {
        leader().await.filter(|leader| *leader != first).map(drop)
    })
    .await;
    session.term().set_access(assignment.path(), &access("cdrwa"), None).await.unwrap();
    for worker in &all {
        worker.has(2).await;
    }
    for worker in all {
        worker.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_or_damaged_assignment_moves_nothing_and_is_rewritten() {
    let world = World::new("unreadable");
    let session = world.session().await;
    world.create(&session, "mail", 4).await;
    let all = workers(&world, 2, crate::world::QUICK).await;
    for worker in &all {
        worker.has(2).await;
    }
    let (before, owned) = (assignment(&session).await, fences(&all).await);
    let znode = queues::assignment();
    let term = session.term();
    let back = async || {
        eventually_async("it is written again", async || {
            term.sync(znode.path()).await.unwrap();
            let now = term.read(&znode).await.ok()??.value;
            (now.workers == before.workers).then_some(())
        })
        .await;
    };
    term.delete(znode.path(), None).await.unwrap();
    back().await;
    term.set(znode.path(), b"?", None).await.unwrap();
    back().await;
    // We do not replace what a newer version wrote.
    let election = Election::new(&session, queues::election(), "nobody");
    let leader = async || election.leader().await.unwrap().map(|leader| leader.identifier);
    let first = leader().await.unwrap();
    let newer = br#"{"version":2,"plan":[]}"#;
    term.set(znode.path(), newer, None).await.unwrap();
    eventually_async("the other one is elected", async || {
        leader().await.filter(|leader| *leader != first).map(drop)
    })
    .await;
    assert_eq!(term.get(znode.path()).await.unwrap().0, newer);
    assert_eq!(fences(&all).await, owned, "nothing was given back");
    term.delete(znode.path(), None).await.unwrap();
    eventually_async("it is written once more", async || {
        let now = assignment(&session).await;
        (now.workers.len() == 2).then_some(())
    })
    .await;
    world.put(&session, "mail", 0..8).await;
    world.drained(&session, "mail", 4).await;
    for worker in all {
        worker.finish().await;
    }
}

#[tokio::test]
async fn a_worker_with_the_name_of_one_that_just_died_waits_and_takes_over() {
    let world = World::new("same-name");
    let session = world.session().await;
    world.create(&session, "mail", 2).await;
    let log = Log::default();
    let (first, proxy) = world.session_through_proxy(crate::world::SHORT).await;
    let before = world.start(&first, options("web-1-17", &["mail"]), log.task("first"));
    before.has(2).await;
    // It dies silently: its session lasts until the time-out.
    proxy.partition();
    before.run.abort();
    let second = world.session().await;
    let after = world.start(&second, options("web-1-17", &["mail"]), log.task("second"));
    after.has(2).await;
    world.put(&session, "mail", 0..4).await;
    world.drained(&session, "mail", 2).await;
    assert!(log.handled().iter().all(|handled| handled.worker == "second"));
    assert_eq!(after.name, name("web-1-17"));
    after.finish().await;
}
