//! Messages that fail.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use menagerie_journal::{Commit as JournalCommit, Journal as _, MessageId, NewMessage, PartitionId, Topic};
use menagerie_queues::MessageUuid;
use menagerie_queues::admin::Destination;
use menagerie_queues::admin::failed::FailedMessages;
use menagerie_queues::core::failure::OnFailure;
use menagerie_queues::core::ledger::{Ack, Commit};
use menagerie_queues::failed::FailureRecord;
use menagerie_queues::task::{Failed, Outcome, Work};
use menagerie_queues::worker::Ended;
use menagerie_testkit::eventually_async;

use crate::world::{Log, World, options};

fn handled(log: &Log) -> Vec<(String, u32)> {
    log.handled().into_iter().map(|handled| (handled.body, handled.attempt)).collect()
}

fn attempts(list: &[(&str, u32)]) -> Vec<(String, u32)> {
    list.iter().map(|(body, attempt)| ((*body).to_owned(), *attempt)).collect()
}

/// Number of timed calls to a journal.
fn timed(metrics: &str, call: &str) -> u64 {
    let name = format!(r#"menagerie_worker_journal_seconds_count{{call="{call}"}} "#);
    metrics.lines().find_map(|line| line.strip_prefix(&name)?.parse().ok()).unwrap_or_default()
}

#[tokio::test]
async fn a_failing_message_blocks_its_partition_until_it_is_given_up_and_stored() {
    let world = World::new("failing");
    let session = world.session().await;
    world.create(&session, "mail", 1).await;
    world.put_to(&session, "mail-1", &["good", "bad", "hopeless", "last"]).await;
    let log = Log::default();
    let mut options = options("w1", &["mail"]);
    options.failure.attempts = NonZeroU32::new(3);
    let task = log.task_with("w1", |body| match body {
        "bad" => Outcome::Failed(Failed {
            error: "it is bad".to_owned(),
            output: b"what it printed".to_vec(),
            retry: true,
        }),
        "hopeless" => Outcome::failed("it never works"),
        _ => Outcome::Done,
    });
    let worker = world.start(&session, options, task);
    world.drained(&session, "mail", 1).await;
    let stats = worker.view().await.stats;
    assert_eq!((stats.done, stats.retried, stats.given_up), (2, 2, 2));
    let metrics = worker.metrics();
    for (outcome, count) in [("done", 2), ("retried", 2), ("given_up", 2)] {
        let line = format!(r#"menagerie_worker_messages_total{{queue="mail",outcome="{outcome}"}} {count}"#);
        assert!(metrics.contains(&line), "{metrics}");
    }
    assert!(metrics.contains(r#"menagerie_worker_rebalances_total{reason="joined"} 1"#), "{metrics}");
    // One claim, two failures to retry, two messages given up. The number of reads and reports is open.
    assert!(timed(&metrics, "commit") >= 5 && timed(&metrics, "read") >= 1, "{metrics}");
    eventually_async("nothing waits", async || {
        worker.metrics().contains(r#"menagerie_worker_lag{queue="mail",partition="1"} 0"#).then_some(())
    })
    .await;
    worker.finish().await;
    let expected = attempts(&[("good", 1), ("bad", 1), ("bad", 2), ("bad", 3), ("hopeless", 1), ("last", 1)]);
    assert_eq!(handled(&log), expected);
    let failed = world.messages("mail.failed", 1).await;
    let record: FailureRecord = serde_json::from_slice(&failed[0].meta).unwrap();
    assert_eq!((&failed[0].body[..], record.attempts), (&b"bad"[..], 3));
    assert_eq!((record.error.as_str(), record.output.as_str()), ("it is bad", "what it printed"));
    assert_eq!(record.origin, "mail-1".parse().unwrap());
    assert_eq!((failed.len(), &failed[1].body[..]), (2, &b"hopeless"[..]));
}

#[tokio::test]
async fn the_next_owner_continues_to_count_attempts() {
    let world = World::new("counting");
    let session = world.session().await;
    world.create(&session, "mail", 1).await;
    world.put_to(&session, "mail-1", &["bad"]).await;
    let log = Log::default();
    let mut first = options("w1", &["mail"]);
    first.failure.backoff = Some(std::time::Duration::from_secs(600));
    first.failure.backoff_max = Some(std::time::Duration::from_secs(600));
    let worker = world.start(&session, first, log.task_with("w1", |_| Outcome::retry("no")));
    eventually_async("it has failed once", async || (worker.view().await.stats.retried == 1).then_some(()))
        .await;
    worker.finish().await;
    let worker = world.start(&session, options("w2", &["mail"]), log.task("w2"));
    world.drained(&session, "mail", 1).await;
    worker.finish().await;
    assert_eq!(handled(&log), attempts(&[("bad", 1), ("bad", 2)]));
}

#[tokio::test]
async fn a_message_that_kills_its_workers_is_given_up_in_the_end() {
    let world = World::new("poison");
    let session = world.session().await;
    world.create(&session, "mail", 1).await;
    world.put_to(&session, "mail-1", &["good", "poison", "last"]).await;
    let log = Log::default();
    let deaths = Arc::new(AtomicU32::new(0));
    for round in 1.. {
        let own = world.session().await;
        let mut options = options(&format!("w{round}"), &["mail"]);
        options.failure.attempts = NonZeroU32::new(3);
        let (noted, died) = (log.clone(), Arc::new(tokio::sync::Notify::new()));
        let dying = died.clone();
        let worker = world.start(&own, options, move |work: Work| {
            let (entry, dying) = (noted.begin("w", &work), dying.clone());
            async move {
                let _entry = entry;
                if work.messages[0].body == "poison" {
                    dying.notify_one();
                    std::future::pending::<()>().await;
                }
                vec![Outcome::Done]
            }
        });
        tokio::select! {
            () = died.notified() => {
                deaths.fetch_add(1, Ordering::Relaxed);
                worker.kill().await;
            }
            () = world.drained(&session, "mail", 1) => {
                worker.finish().await;
                break;
            }
        }
        assert!(round < 10, "it is never given up");
    }
    // Once per attempt, and once more if the first could not be told apart from the message before it.
    let deaths = deaths.load(Ordering::Relaxed);
    assert!((3..=4).contains(&deaths), "{deaths}");
    let poisoned: Vec<u32> = log
        .handled()
        .into_iter()
        .filter(|handled| handled.body == "poison")
        .map(|handled| handled.attempt)
        .collect();
    assert_eq!(poisoned[0], 1);
    assert!(poisoned.last().unwrap() >= &3, "{poisoned:?}");
    let failed = world.messages("mail.failed", 1).await;
    assert_eq!(failed.len(), 1);
    assert_eq!(log.bodies().last().unwrap(), "last");
}

#[tokio::test]
async fn after_a_failure_a_worker_stops_or_continues_by_policy() {
    let world = World::new("on-failure");
    let session = world.session().await;
    let cases = [
        ("stop", OnFailure::Stop, Ack::After),
        ("stop-once", OnFailure::Stop, Ack::Before),
        ("log", OnFailure::Log, Ack::After),
    ];
    for (queue, on_failure, ack) in cases {
        world.create(&session, queue, 1).await;
        world.put_to(&session, &format!("{queue}-1"), &["bad", "good"]).await;
        let log = Log::default();
        let mut options = options(&format!("w-{queue}"), &[queue]);
        options.failure.on_failure = on_failure;
        options.ack = ack;
        let task = log.task_with("w", |body| match body {
            "bad" => Outcome::failed("it is bad"),
            _ => Outcome::Done,
        });
        let worker = world.start(&session, options, task);
        match on_failure {
            OnFailure::Stop => {
                let ended = worker.run.await.unwrap().unwrap();
                assert!(matches!(ended, Ended::Failed(why) if why.error == "it is bad"));
                assert_eq!(log.bodies(), ["bad"]);
            }
            OnFailure::Log | OnFailure::Queue => {
                world.drained(&session, queue, 1).await;
                worker.finish().await;
                assert_eq!(log.bodies(), ["bad", "good"]);
            }
        }
        assert!(world.messages(&format!("{queue}.failed"), 1).await.is_empty());
    }
}

#[tokio::test]
async fn a_panicking_task_has_failed_and_the_worker_continues() {
    let world = World::new("panics");
    let session = world.session().await;
    world.create(&session, "mail", 1).await;
    world.put_to(&session, "mail-1", &["one", "two"]).await;
    let log = Log::default();
    let noted = log.clone();
    let worker = world.start(&session, options("w1", &["mail"]), move |work: Work| {
        let entry = noted.begin("w1", &work);
        async move {
            let _entry = entry;
            assert!(work.attempt_of(0) > 1, "a bug in the task");
            vec![Outcome::Done]
        }
    });
    world.drained(&session, "mail", 1).await;
    worker.finish().await;
    assert_eq!(handled(&log), attempts(&[("one", 1), ("one", 2), ("two", 1), ("two", 2)]));
}

#[tokio::test]
async fn of_a_batch_the_done_prefix_is_recorded_and_the_rest_runs_again() {
    let world = World::new("batch-failure");
    let session = world.session().await;
    world.create(&session, "mail", 1).await;
    world.put_to(&session, "mail-1", &["a", "b", "bad", "c"]).await;
    let log = Log::default();
    let mut options = options("w1", &["mail"]);
    options.batch = 10;
    let once = AtomicU32::new(0);
    let task = log.task_with("w1", move |body| match body {
        "bad" if once.fetch_add(1, Ordering::Relaxed) == 0 => Outcome::retry("not yet"),
        _ => Outcome::Done,
    });
    let worker = world.start(&session, options, task);
    world.drained(&session, "mail", 1).await;
    worker.finish().await;
    assert_eq!(handled(&log), attempts(&[("a,b,bad,c", 1), ("bad,c", 2)]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_leaves_no_room_for_its_failure_record_is_given_up_with_a_shorter_one() {
    let world = World::new("no-room");
    let session = world.session().await;
    let max = menagerie_journal::Config::new("".into()).message_bytes_max as usize;
    let task = |worker: &str| Log::default().task_with(worker, |_| Outcome::failed("no ".repeat(1 << 20)));
    for (queue, room, stored) in
        [("long", 100 << 10, Some(4096)), ("short", 2000, Some(128)), ("id", 80, None), ("none", 0, None)]
    {
        world.create(&session, queue, 1).await;
        let message = NewMessage::new(vec![b'x'; max - room]);
        // Only what an older version put, without metadata, fills all the room.
        let partition = PartitionId::new(Topic::new(queue).unwrap(), 1);
        match room {
            0 => drop(world.store().commit(JournalCommit::append(partition, message)).await.unwrap()),
            _ => drop(
                world.putter(&session, queue).await.put(vec![(Destination::Any, message)]).await.unwrap(),
            ),
        }
        let worker = world.start(&session, options(queue, &[queue]), task(queue));
        world.drained(&session, queue, 1).await;
        worker.finish().await;
        let failed = world.messages(&format!("{queue}.failed"), 1).await;
        assert_eq!((failed.len(), failed[0].body.len()), (1, max - room), "{queue}");
        let record: Option<FailureRecord> = serde_json::from_slice(&failed[0].meta).ok();
        assert_eq!(record.map(|record| record.error.len()), stored, "{queue}");
        let id = MessageUuid::of(&format!("{queue}-1").parse().unwrap(), &world.messages(queue, 1).await[0]);
        let failures =
            FailedMessages::open(&session, &world.journals(), &queue.parse().unwrap()).await.unwrap();
        let found = failures.find(id).await.unwrap();
        assert_eq!(found.is_some(), room > 0, "{queue} keeps its id if there is room for it");
        let found = failures.after(MessageId::ZERO, 1).await.unwrap().remove(0);
        assert!(failures.retry(&found).await.unwrap(), "{queue} can be retried");
    }
}

#[tokio::test]
async fn finished_messages_are_recorded_in_time_even_while_an_attempt_runs() {
    let world = World::new("timer");
    let session = world.session().await;
    world.create(&session, "mail", 1).await;
    world.put_to(&session, "mail-1", &["good", "slow"]).await;
    let mut options = options("w1", &["mail"]);
    options.commit = Commit::Every(std::time::Duration::from_secs(3));
    let worker = world.start(&session, options, |work: Work| async move {
        match (&work.messages[0].body[..], work.attempt_of(0)) {
            (b"slow", 1) => vec![Outcome::retry("not yet")],
            (b"slow", _) => {
                work.lease.stopped().await;
                vec![Outcome::Stopped]
            }
            _ => vec![Outcome::Done],
        }
    });
    eventually_async("the first is recorded while the second runs", async || {
        let view = worker.view().await;
        let runs = view.partitions.first().is_some_and(|partition| partition.running.len() == 1);
        (runs && view.stats.records == 1 && view.stats.retried == 1).then_some(())
    })
    .await;
    worker.abort().await;
}

#[tokio::test]
async fn a_task_that_stops_unasked_is_not_restarted_at_once() {
    let world = World::new("spin");
    let session = world.session().await;
    world.create(&session, "mail", 1).await;
    world.put_to(&session, "mail-1", &["one"]).await;
    let log = Log::default();
    let stops = AtomicU32::new(0);
    let task = log.task_with("w1", move |_| match stops.fetch_add(1, Ordering::Relaxed) {
        0..2 => Outcome::Stopped,
        _ => Outcome::Done,
    });
    let worker = world.start(&session, options("w1", &["mail"]), task);
    world.drained(&session, "mail", 1).await;
    worker.finish().await;
    assert_eq!(handled(&log), attempts(&[("one", 1), ("one", 2), ("one", 2)]));
    let began: Vec<_> = log.handled().into_iter().map(|handled| handled.began).collect();
    assert!(began[2] - began[0] >= std::time::Duration::from_secs(2));
}

#[tokio::test]
async fn at_most_once_means_one_attempt_whatever_its_outcome() {
    let world = World::new("once");
    let session = world.session().await;
    world.create(&session, "mail", 1).await;
    world.put_to(&session, "mail-1", &["bad", "endless", "last"]).await;
    let log = Log::default();
    let once = |worker: &str| {
        let mut options = options(worker, &["mail"]);
        options.ack = Ack::Before;
        options
    };
    let noted = log.clone();
    let worker = world.start(&session, once("w1"), move |work: Work| {
        let entry = noted.begin("w1", &work);
        async move {
            let _entry = entry;
            match &work.messages[0].body[..] {
                b"endless" => {
                    work.lease.stopped().await;
                    vec![Outcome::Stopped]
                }
                _ => vec![Outcome::retry("it is bad")],
            }
        }
    });
    eventually_async("the second runs", async || (log.handled().len() == 2).then_some(())).await;
    worker.abort().await;
    let worker = world.start(&session, once("w2"), log.task("w2"));
    eventually_async("the last is handled", async || (log.handled().len() == 3).then_some(())).await;
    worker.finish().await;
    assert_eq!(handled(&log), attempts(&[("bad", 1), ("endless", 1), ("last", 1)]));
    assert_eq!(world.messages("mail.failed", 1).await.len(), 1);
}
