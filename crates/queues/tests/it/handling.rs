//! How a worker handles messages.

use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use menagerie_journal::{NewMessage, Ticks};
use menagerie_kernel::session::IfLate;
use menagerie_queues::admin::Destination;
use menagerie_queues::core::ledger::{Ack, Commit};
use menagerie_queues::core::turn::Policy;
use menagerie_queues::task::{Outcome, Work};
use menagerie_queues::worker::{Ended, Order};
use menagerie_testkit::eventually_async;
use menagerie_znodes::queues::{self, Pause};
use menagerie_znodes::{Kind, Payload as _};
use tokio::sync::Notify;

use crate::world::{Log, World, options};

#[tokio::test]
async fn messages_of_a_partition_are_handled_in_order_and_recorded() {
    let world = World::new("order");
    let session = world.session().await;
    world.create(&session, "mail", 3).await;
    world.put(&session, "mail", 0..300).await;
    let log = Log::default();
    let worker = world.start(&session, options("w1", &["mail"]), log.task("w1"));
    world.drained(&session, "mail", 3).await;
    assert_eq!(worker.view().await.stats.done, 300);
    assert_eq!(worker.finish().await, Ended::AskedToStop);
    for partition in ["mail-1", "mail-2", "mail-3"] {
        let handled = log.handled().into_iter().filter(|handled| handled.partition == partition);
        let numbers: Vec<u32> = handled.map(|handled| handled.body.parse().unwrap()).collect();
        assert_eq!(numbers.len(), 100);
        assert!(numbers.is_sorted(), "{partition}: {numbers:?}");
    }
    assert!(session.term().children(queues::workers().path()).await.unwrap().is_empty());
}

#[tokio::test]
async fn the_next_worker_does_not_repeat_recorded_messages() {
    let world = World::new("goes-on");
    let session = world.session().await;
    world.create(&session, "mail", 2).await;
    let log = Log::default();
    for (worker, numbers) in [("w1", 0..40), ("w2", 40..80)] {
        world.put(&session, "mail", numbers).await;
        let worker = world.start(&session, options(worker, &["mail"]), log.task(worker));
        world.drained(&session, "mail", 2).await;
        worker.finish().await;
    }
    let mut numbers: Vec<u32> = log.bodies().iter().map(|body| body.parse().unwrap()).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..80).collect::<Vec<_>>());
    assert!(log.handled().iter().all(|handled| handled.attempt == 1), "each at its first attempt");
}

#[tokio::test]
async fn queues_come_in_turn_or_strictly() {
    for (policy, expected) in [
        (Policy::InTurn, ["u0", "m0", "b0", "u1", "m1", "b1", "u2", "m2", "b2"]),
        (Policy::Strict, ["u0", "u1", "u2", "m0", "m1", "m2", "b0", "b1", "b2"]),
    ] {
        let world = World::new("turn");
        let session = world.session().await;
        for queue in ["bulk", "mail", "urgent"] {
            world.create(&session, queue, 1).await;
            let bodies = ["0", "1", "2"].map(|number| queue[..1].to_owned() + number);
            world.put_to(&session, &format!("{queue}-1"), &bodies.each_ref().map(String::as_str)).await;
        }
        let (log, gate) = (Log::default(), Arc::new(Notify::new()));
        let mut options = options("w1", &["urgent", "mail", "bulk"]);
        (options.policy, options.first_read_wait) = (policy, Duration::from_secs(30));
        let (noted, opened) = (log.clone(), gate.clone());
        let worker = world.start(&session, options, move |work: Work| {
            let (entry, gate) = (noted.begin("w1", &work), opened.clone());
            async move {
                if work.messages[0].body == "u0" {
                    gate.notified().await;
                }
                drop(entry);
                vec![Outcome::Done]
            }
        });
        // A partition not read by then comes later than its turn.
        eventually_async("all have been read while the first runs", async || {
            let lanes = worker.view().await.partitions;
            (lanes.len() == 3 && lanes.iter().all(|lane| lane.cached > 0)).then_some(())
        })
        .await;
        gate.notify_one();
        for queue in ["bulk", "mail", "urgent"] {
            world.drained(&session, queue, 1).await;
        }
        worker.finish().await;
        assert_eq!(log.bodies(), expected);
    }
}

#[tokio::test]
async fn few_large_messages_are_read_ahead() {
    let world = World::new("large");
    let session = world.session().await;
    world.create(&session, "mail", 1).await;
    let large = "x".repeat(1 << 20);
    world.put_to(&session, "mail-1", &[large.as_str(); 12]).await;
    let (gate, opened) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (began, may_end) = (gate.clone(), opened.clone());
    let worker = world.start(&session, options("w1", &["mail"]), move |_: Work| {
        let (began, may_end) = (began.clone(), may_end.clone());
        async move {
            began.notify_one();
            may_end.notified().await;
            vec![Outcome::Done]
        }
    });
    for _ in 0..12 {
        gate.notified().await;
        let cached: usize = worker.view().await.partitions.iter().map(|lane| lane.cached).sum();
        assert!(cached <= 2, "{cached} messages of a megabyte were read ahead");
        opened.notify_one();
    }
    world.drained(&session, "mail", 1).await;
    worker.finish().await;
}

#[tokio::test]
async fn a_message_that_expires_before_its_turn_is_skipped() {
    let world = World::new("outlived");
    let session = world.session().await;
    world.create(&session, "mail", 1).await;
    let (log, gate) = (Log::default(), Arc::new(Notify::new()));
    let (noted, opened) = (log.clone(), gate.clone());
    let mut options = options("w1", &["mail"]);
    options.batch = 10;
    let worker = world.start(&session, options, move |work: Work| {
        let (entry, gate) = (noted.begin("w1", &work), opened.clone());
        async move {
            let _entry = entry;
            gate.notified().await;
            vec![Outcome::Done; work.messages.len()]
        }
    });
    worker.has(1).await;
    world.put_to(&session, "mail-1", &["first"]).await;
    eventually_async("the first one runs", async || (!log.handled().is_empty()).then_some(())).await;
    // Long enough to be read ahead even on a slow machine.
    let ttl = Duration::from_secs(10);
    let short = |body: &'static str| NewMessage { ttl: Some(ttl), ..NewMessage::new(body) };
    let messages = [short("a"), NewMessage::new("b"), short("c"), NewMessage::new("d")];
    let messages = messages.map(|message| (Destination::Partition(1), message)).into();
    world.putter(&session, "mail").await.put(messages).await.unwrap();
    eventually_async("the others are read", async || {
        (worker.view().await.partitions[0].cached == 4).then_some(())
    })
    .await;
    let end = Ticks::now().plus(ttl);
    eventually_async("their time is over", async || (Ticks::now() > end).then_some(())).await;
    for begun in 1..=3 {
        eventually_async("one runs", async || (log.handled().len() == begun).then_some(())).await;
        gate.notify_one();
    }
    world.drained(&session, "mail", 1).await;
    assert_eq!(log.bodies(), ["first", "b", "d"]);
    let counted = r#"menagerie_worker_messages_total{queue="mail",outcome="expired"} 2"#;
    assert!(worker.metrics().contains(counted), "{}", worker.metrics());
    worker.finish().await;
}

async fn pause(session: &menagerie_kernel::Session, scope: &str) {
    let term = session.term();
    menagerie_kernel::retry::ensure(&term, queues::pauses().path(), b"").await.unwrap();
    let payload = Pause { by: "a test".to_owned(), reason: None }.encode();
    let path = format!("{}/{scope}", queues::pauses().path());
    term.create(&path, &payload, Kind::Persistent, IfLate::Report).await.unwrap();
}

async fn resume(session: &menagerie_kernel::Session, scope: &str) {
    let path = format!("{}/{scope}", queues::pauses().path());
    session.term().delete(&path, None).await.unwrap();
}

#[tokio::test]
async fn a_paused_queue_keeps_its_worker_and_continues_when_resumed() {
    let world = World::new("pause");
    let session = world.session().await;
    for queue in ["mail", "other"] {
        world.create(&session, queue, 1).await;
    }
    let log = Log::default();
    let worker = world.start(&session, options("w1", &["mail", "other"]), log.task("w1"));
    let before = worker.has(2).await;
    pause(&session, "queue:mail").await;
    // The worker sees pauses in order.
    world.put_to(&session, "other-1", &["o1"]).await;
    world.drained(&session, "other", 1).await;
    pause(&session, "worker:w1").await;
    eventually_async("the worker knows", async || worker.view().await.paused.then_some(())).await;
    world.put_to(&session, "mail-1", &["m1"]).await;
    world.put_to(&session, "other-1", &["o2"]).await;
    resume(&session, "worker:w1").await;
    world.drained(&session, "other", 1).await;
    assert_eq!(log.bodies(), ["o1", "o2"]);
    let after = worker.view().await;
    assert_eq!(
        before.partitions.iter().map(|lane| &lane.fence).collect::<Vec<_>>(),
        after.partitions.iter().map(|lane| &lane.fence).collect::<Vec<_>>(),
        "it has kept its partitions"
    );
    eventually_async("what waits in it is counted", async || {
        worker.metrics().contains(r#"menagerie_worker_lag{queue="mail",partition="1"} 1"#).then_some(())
    })
    .await;
    resume(&session, "queue:mail").await;
    world.drained(&session, "mail", 1).await;
    assert_eq!(log.bodies(), ["o1", "o2", "m1"]);
    worker.finish().await;
}

#[tokio::test]
async fn new_queues_and_partitions_are_seen_at_run_time() {
    let world = World::new("new-queues");
    let session = world.session().await;
    let log = Log::default();
    let worker = world.start(&session, options("w1", &["mail", "late"]), log.task("w1"));
    world.create(&session, "mail", 1).await;
    worker.has(1).await;
    world.create(&session, "late", 3).await;
    worker.has(4).await;
    // Nobody serves this one.
    world.create(&session, "foreign", 1).await;
    world.put(&session, "late", 0..9).await;
    world.drained(&session, "late", 3).await;
    assert_eq!(worker.view().await.partitions.len(), 4);
    worker.finish().await;
}

#[tokio::test]
async fn a_graceful_end_finishes_what_runs_and_an_abort_stops_it() {
    let world = World::new("endings");
    let session = world.session().await;
    world.create(&session, "mail", 1).await;
    world.put_to(&session, "mail-1", &["one", "two"]).await;
    let log = Log::default();
    let worker = world.start(&session, options("w1", &["mail"]), log.endless("w1", true));
    eventually_async("it runs", async || (!log.handled().is_empty()).then_some(())).await;
    assert_eq!(worker.abort().await, Ended::AskedToStop);
    let first = log.handled().remove(0);
    assert!(first.ended.is_some(), "it was stopped");
    // The stopped attempt does not count: the next worker starts with the same message, and the task sees that it may
    // have run.
    let gate = Arc::new(Notify::new());
    let (opened, noted) = (gate.clone(), log.clone());
    let worker = world.start(&session, options("w2", &["mail"]), move |work: Work| {
        let entry = noted.begin("w2", &work);
        let gate = opened.clone();
        async move {
            gate.notified().await;
            drop(entry);
            vec![Outcome::Done]
        }
    });
    eventually_async("the next one runs", async || (log.handled().len() == 2).then_some(())).await;
    worker.orders.send(Order::Finish).await.unwrap();
    gate.notify_one();
    assert_eq!(worker.run.await.unwrap().unwrap(), Ended::AskedToStop);
    let handled: Vec<_> = log.handled().into_iter().map(|handled| (handled.body, handled.attempt)).collect();
    assert_eq!(handled, [("one".to_owned(), 1), ("one".to_owned(), 2)]);
    let messages = world.messages("mail", 1).await;
    let stored = crate::world::cursor_of(&session, &"mail-1".parse().unwrap()).await;
    assert_eq!(stored.to_string(), messages[0].id.seconds(), "what was finished is recorded");
}

#[tokio::test]
async fn batches_and_rarer_records_lose_nothing() {
    let world = World::new("batches");
    let session = world.session().await;
    for (queue, commit, ack, batch) in [
        ("batched", Commit::EACH, Ack::After, 7),
        ("counted", Commit::Count(NonZeroU32::new(10).unwrap()), Ack::After, 1),
        ("timed", Commit::Every(Duration::from_millis(20)), Ack::After, 3),
        ("before", Commit::EACH, Ack::Before, 1),
        ("before-all-the-same", Commit::Count(NonZeroU32::new(10).unwrap()), Ack::Before, 4),
    ] {
        world.create(&session, queue, 2).await;
        world.put(&session, queue, 0..95).await;
        let log = Log::default();
        let mut options = options(&format!("w-{queue}"), &[queue]);
        (options.commit, options.ack, options.batch, options.concurrency) = (commit, ack, batch, 2);
        let worker = world.start(&session, options, log.task(queue));
        world.drained(&session, queue, 2).await;
        eventually_async("all is done", async || (worker.view().await.stats.done == 95).then_some(())).await;
        worker.finish().await;
        let bodies = log.bodies().join(",");
        let mut numbers: Vec<u32> = bodies.split(',').map(|body| body.parse().unwrap()).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (0..95).collect::<Vec<_>>(), "{queue}");
    }
}

#[tokio::test]
async fn bodies_of_any_kind_and_names_with_dashes_pass() {
    let world = World::new("bodies");
    let session = world.session().await;
    world.create(&session, "a-b-3", 1).await;
    let mut putter = world.putter(&session, "a-b-3").await;
    let big = vec![7; 10 << 20];
    for body in [Vec::new(), vec![0xff, 0xfe, 0], big] {
        let message = menagerie_journal::NewMessage::new(body);
        putter.put(vec![(menagerie_queues::admin::Destination::Any, message)]).await.unwrap();
    }
    let lengths = Arc::new(Mutex::new(Vec::new()));
    let seen = lengths.clone();
    let worker = world.start(&session, options("w1", &["a-b-3"]), move |work: Work| {
        seen.lock().unwrap().push(work.messages[0].body.len());
        async { vec![Outcome::Done] }
    });
    world.drained(&session, "a-b-3", 1).await;
    worker.finish().await;
    assert_eq!(*lengths.lock().unwrap(), [0, 3, 10 << 20]);
}

#[tokio::test]
async fn delayed_messages_come_when_due_and_duplicates_once() {
    let world = World::new("delayed");
    let session = world.session().await;
    world.create(&session, "mail", 1).await;
    let mut putter = world.putter(&session, "mail").await;
    let double = NewMessage { dedup: Some("order 17".into()), ..NewMessage::new("once") };
    let mut put = async |message| putter.put(vec![(Destination::Any, message)]).await.map(drop).unwrap();
    for message in [double.clone(), double, NewMessage::new("now")] {
        put(message).await;
    }
    let due = Ticks::now().plus(Duration::from_secs(2));
    put(NewMessage { due: Some(due), ..NewMessage::new("later") }).await;
    let log = Log::default();
    let worker = world.start(&session, options("w1", &["mail"]), log.task("w1"));
    eventually_async("all are handled", async || (log.handled().len() == 3).then_some(())).await;
    assert!(Ticks::now() >= due);
    worker.finish().await;
    assert_eq!(log.bodies(), ["once", "now", "later"]);
}
