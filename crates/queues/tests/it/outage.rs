//! A journal that is down for a while.

use std::sync::Arc;
use std::time::Duration;

use menagerie_journal::NewMessage;
use menagerie_queues::Journals;
use menagerie_queues::admin;
use menagerie_queues::core::ledger::Ack;
use menagerie_queues::task::{Outcome, Task, Work};
use menagerie_testkit::eventually_async;
use menagerie_znodes::queues;
use tokio::sync::Notify;

use crate::world::{JOURNAL, Log, World, options};

/// The journal of the world, over the network.
fn remote(world: &mut World) -> Journals {
    world.journal.serve();
    Journals::from([(JOURNAL.to_owned(), Arc::new(world.journal.client()) as _)])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_wait_for_a_journal_that_is_down() {
    let mut world = World::new("outage");
    let session = world.session().await;
    let journals = remote(&mut world);
    let mail = "mail".parse().unwrap();
    admin::create(&session, &journals, &mail, 2, JOURNAL).await.unwrap();
    let put = async |from: u32| {
        let mut putter =
            admin::Putter::open(&session, &journals, &mail, 0, menagerie_queues::Origin::library())
                .await
                .unwrap();
        let message = |number: u32| (admin::Destination::Any, NewMessage::new(number.to_string()));
        putter.put((from..from + 50).map(message).collect()).await.unwrap();
    };
    put(0).await;
    let log = Log::default();
    let worker = world.start_with(&session, options("w1", &["mail"]), log.task("w1"), journals.clone());
    eventually_async("the first are handled", async || (log.handled().len() == 50).then_some(())).await;
    let listed = session.term().stat(queues::worker(&worker.name).path()).await.unwrap().unwrap();
    world.journal.stop_serving();
    // Another worker joins meanwhile, and waits, too.
    let own = world.session().await;
    let second = world.start_with(&own, options("w2", &["mail"]), log.task("w2"), journals.clone());
    worker.has(1).await;
    world.journal.serve();
    second.has(1).await;
    put(50).await;
    eventually_async("all are handled", async || (log.handled().len() == 100).then_some(())).await;
    let still = session.term().stat(queues::worker(&worker.name).path()).await.unwrap().unwrap();
    assert_eq!(listed.czxid, still.czxid, "it was listed all the time");
    let mut numbers: Vec<u32> = log.bodies().iter().map(|body| body.parse().unwrap()).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..100).collect::<Vec<_>>(), "each once");
    worker.finish().await;
    second.finish().await;
}

/// A task that signals when it has begun, and fails on request.
fn failing() -> (impl Task, Arc<Notify>, Arc<Notify>) {
    let (began, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (begins, fails) = (began.clone(), go_on.clone());
    let task = move |_: Work| {
        let (begins, fails) = (begins.clone(), fails.clone());
        async move {
            begins.notify_one();
            fails.notified().await;
            vec![Outcome::retry("no")]
        }
    };
    (task, began, go_on)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_can_stop_while_it_waits_to_note_a_failure() {
    let mut world = World::new("outage-end");
    let session = world.session().await;
    let journals = remote(&mut world);
    admin::create(&session, &journals, &"mail".parse().unwrap(), 1, JOURNAL).await.unwrap();
    world.put_to(&session, "mail-1", &["bad"]).await;
    let (task, began, go_on) = failing();
    let worker = world.start_with(&session, options("w1", &["mail"]), task, journals);
    began.notified().await;
    world.journal.stop_serving();
    go_on.notify_one();
    eventually_async("it has failed", async || (worker.view().await.stats.retried == 1).then_some(())).await;
    tokio::time::timeout(Duration::from_secs(60), worker.finish()).await.expect("it ends");
    // The failure was not counted, and the message is still there.
    let log = Log::default();
    let next = world.start(&session, options("w2", &["mail"]), log.task("w2"));
    world.drained(&session, "mail", 1).await;
    next.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn at_most_once_a_failed_message_does_not_run_again_if_its_note_is_lost() {
    let mut world = World::new("outage-once");
    let session = world.session().await;
    let journals = remote(&mut world);
    admin::create(&session, &journals, &"mail".parse().unwrap(), 1, JOURNAL).await.unwrap();
    world.put_to(&session, "mail-1", &["bad", "good"]).await;
    let once = |worker: &str| {
        let mut options = options(worker, &["mail"]);
        options.ack = Ack::Before;
        options
    };
    let (task, began, go_on) = failing();
    let worker = world.start_with(&session, once("w1"), task, journals);
    began.notified().await;
    world.journal.stop_serving();
    go_on.notify_one();
    eventually_async("it has failed", async || {
        worker.view().await.partitions[0].running.is_empty().then_some(())
    })
    .await;
    tokio::time::timeout(Duration::from_secs(60), worker.abort()).await.expect("it ends");
    let log = Log::default();
    let next = world.start(&session, once("w2"), log.task("w2"));
    world.drained(&session, "mail", 1).await;
    next.finish().await;
    assert_eq!(log.bodies(), ["good"]);
}
