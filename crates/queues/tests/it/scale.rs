//! Thousands of partitions.

use std::time::{Duration, Instant};

use menagerie_queues::core::ledger::Commit;
use menagerie_testkit::eventually_async;

use crate::world::{Log, World, options};

/// Queues of ten partitions each: `MENAGERIE_TEST_QUEUES`, or a few.
fn queues() -> usize {
    std::env::var("MENAGERIE_TEST_QUEUES").ok().and_then(|text| text.parse().ok()).unwrap_or(30)
}

/// Processor time of this process so far.
fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    Duration::from_millis(ticks * 10)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_partitions_are_shared_handled_and_cost_nothing_while_they_are_idle() {
    let world = World::new("scale");
    let session = world.session().await;
    let names: Vec<String> = (0..queues()).map(|number| format!("queue-{number}")).collect();
    let began = Instant::now();
    for name in &names {
        world.create(&session, name, 10).await;
    }
    println!("created {} partitions in {:?}", names.len() * 10, began.elapsed());
    let began = Instant::now();
    let log = Log::default();
    let served: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut workers = Vec::new();
    for worker in ["w1", "w2"] {
        let own = world.session().await;
        let mut options = options(worker, &served);
        options.concurrency = 4;
        options.commit = Commit::EACH;
        workers.push(world.start(&own, options, log.task(worker)));
    }
    for worker in &workers {
        let half = names.len() * 5;
        eventually_async("it has its half", async || {
            let view = worker.view().await;
            (view.partitions.len() == half && view.waiting_for.is_empty()).then_some(())
        })
        .await;
    }
    println!("settled after {:?}", began.elapsed());
    for name in &names {
        world.put(&session, name, 0..20).await;
    }
    let total = names.len() * 20;
    let began = Instant::now();
    eventually_async("all are handled", async || (log.handled().len() == total).then_some(())).await;
    println!("handled {total} in {:?}", began.elapsed());
    if std::env::var_os("MENAGERIE_TEST_QUEUES").is_some() {
        tokio::time::sleep(Duration::from_secs(5)).await;
        let (before, began) = (cpu(), Instant::now());
        tokio::time::sleep(Duration::from_secs(10)).await;
        println!("idle: {:?} of processor time in {:?}", cpu() - before, began.elapsed());
    }
    for worker in workers {
        worker.finish().await;
    }
}
