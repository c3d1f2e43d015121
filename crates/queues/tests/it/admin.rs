//! What operators do with queues.

use std::fs;
use std::time::Duration;

use menagerie_journal::{
    Commit, Journal as _, JournalError, MessageId, NewMessage, PartitionId, Ticks, Topic,
};
use menagerie_kernel::recipes::settle::Rule;
use menagerie_queues::QueueError;
use menagerie_queues::admin::delayed::{DelayedMessage, DelayedMessages, DelayedName};
use menagerie_queues::admin::failed::FailedMessages;
use menagerie_queues::admin::show::{list, show, workers};
use menagerie_queues::admin::{self, Change, Created, Destination, HandlingChange, Scope, Unhandled};
use menagerie_queues::task::Outcome;
use menagerie_testkit::eventually_async;
use menagerie_znodes::queues::{self, Order, Pause, QueueName};

use crate::world::{JOURNAL, Log, World, name, options};

fn queue(name: &str) -> QueueName {
    name.parse().unwrap()
}

#[tokio::test]
async fn a_queue_is_created_once_and_a_different_one_of_that_name_is_refused() {
    let world = World::new("create");
    let session = world.session().await;
    let create = |partitions| {
        let (session, journals) = (session.clone(), world.journals());
        async move { admin::create(&session, &journals, &queue("mail"), partitions, JOURNAL).await }
    };
    assert_eq!(create(3).await.unwrap(), Created::Fresh);
    assert_eq!(create(3).await.unwrap(), Created::Existed);
    assert_eq!(create(4).await, Err(QueueError::Exists { queue: queue("mail"), partitions: 3 }));
    assert_eq!(create(0).await, Err(QueueError::Partitions { partitions: 0 }));
    let failed = admin::create(&session, &world.journals(), &queue("mail.failed"), 1, JOURNAL).await;
    assert_eq!(failed, Err(QueueError::Reserved { queue: queue("mail.failed") }));
    assert_eq!(list(&session).await.unwrap().into_iter().collect::<Vec<_>>(), [queue("mail")]);
    let unknown = admin::Putter::open(
        &session,
        &world.journals(),
        &queue("unknown"),
        0,
        menagerie_queues::Origin::library(),
    )
    .await;
    assert_eq!(unknown.err(), Some(QueueError::NoQueue { queue: queue("unknown") }));
}

#[tokio::test]
async fn a_queue_is_not_created_with_fewer_partitions_than_its_journal_has() {
    let world = World::new("narrow");
    let session = world.session().await;
    world.create(&session, "mail", 4).await;
    world.put(&session, "mail", 0..4).await;
    // The queue is gone, and its messages are still there.
    admin::abandon(&session, &queue("mail")).await.unwrap();
    let create = async |partitions| {
        admin::create(&session, &world.journals(), &queue("mail"), partitions, JOURNAL).await
    };
    let narrow =
        QueueError::Narrow { queue: queue("mail"), journal: JOURNAL.to_owned(), partitions: 2, wide: 4 };
    assert_eq!(create(2).await, Err(narrow));
    assert!(list(&session).await.unwrap().is_empty(), "nothing was made");
    assert!(session.term().children(queues::cursors().path()).await.unwrap().is_empty());
    assert_eq!(create(4).await.unwrap(), Created::Fresh);
    assert_eq!(show(&session, &world.journals(), &queue("mail")).await.unwrap().lag(), 4);
    admin::abandon(&session, &queue("mail")).await.unwrap();
    assert_eq!(create(6).await.unwrap(), Created::Fresh, "more hide nothing");
    assert_eq!(create(6).await.unwrap(), Created::Existed);
    assert_eq!(show(&session, &world.journals(), &queue("mail")).await.unwrap().lag(), 4);
}

#[tokio::test]
async fn the_order_of_a_queue_does_not_change_under_its_messages() {
    let world = World::new("order");
    let session = world.session().await;
    world.create(&session, "mail", 2).await;
    let change = async |order| {
        let handling = HandlingChange { order: Some(order), ..HandlingChange::default() };
        let change = Change { handling, ..Change::default() };
        admin::change(&session, &world.journals(), &queue("mail"), &change).await
    };
    let order = async || admin::settings(&session, &queue("mail")).await.unwrap().handling.order;
    change(Order::Key).await.unwrap();
    assert_eq!(order().await, Order::Key);
    world.put(&session, "mail", 0..3).await;
    assert_eq!(change(Order::None).await, Err(QueueError::Waiting { queue: queue("mail"), waiting: 3 }));
    change(Order::Key).await.expect("that is no change");
    let log = Log::default();
    let worker = world.start(&session, options("w1", &["mail"]), log.task("w1"));
    world.drained(&session, "mail", 2).await;
    worker.finish().await;
    let left = admin::unhandled(&session, &world.journals(), &queue("mail")).await.unwrap();
    assert_eq!(left, Unhandled::default());
    change(Order::None).await.unwrap();
    assert_eq!(order().await, Order::None);
}

#[tokio::test]
async fn lag_and_owners_are_shown() {
    let world = World::new("show");
    let session = world.session().await;
    world.create(&session, "mail", 2).await;
    world.put(&session, "mail", 0..10).await;
    let view = show(&session, &world.journals(), &queue("mail")).await.unwrap();
    assert_eq!((view.lag(), view.messages(), view.failed), (10, 10, 0));
    assert!(view.oldest_ms().is_some());
    assert_eq!(view.partitions[0].owner, None);
    let log = Log::default();
    let worker = world.start(&session, options("w1", &["mail"]), log.task("w1"));
    world.drained(&session, "mail", 2).await;
    let seen = eventually_async("its owner is seen", async || {
        let view = show(&session, &world.journals(), &queue("mail")).await.unwrap();
        view.partitions.iter().all(|partition| partition.owner.is_some()).then_some(view)
    })
    .await;
    assert_eq!((seen.lag(), seen.messages(), seen.oldest_ms()), (0, 10, None));
    assert_eq!(workers(&session).await.unwrap()[0].partitions.len(), 2);
    let scope = Scope::Queue(queue("mail"));
    let why = Pause { by: "me".to_owned(), reason: Some("an upgrade".to_owned()) };
    admin::pause(&session, &scope, &why).await.unwrap();
    admin::pause(&session, &scope, &Pause { by: "another".to_owned(), reason: None }).await.unwrap();
    assert_eq!(show(&session, &world.journals(), &queue("mail")).await.unwrap().paused, Some(why));
    assert!(admin::resume(&session, &scope).await.unwrap());
    assert!(!admin::resume(&session, &scope).await.unwrap());
    let (there, gone) = (Scope::Worker(worker.name.clone()), name("nobody"));
    admin::pause(&session, &there, &Pause { by: "me".to_owned(), reason: None }).await.unwrap();
    eventually_async("it is paused", async || worker.view().await.paused.then_some(())).await;
    assert!(admin::resume(&session, &there).await.unwrap());
    let nobody = Scope::Worker(gone.clone());
    let refused = admin::pause(&session, &nobody, &Pause { by: "me".to_owned(), reason: None }).await;
    assert_eq!(refused, Err(QueueError::NoWorker { worker: gone }));
    worker.finish().await;
    assert!(workers(&session).await.unwrap().is_empty());
}

#[tokio::test]
async fn failed_messages_come_back_once_and_may_fail_again() {
    let world = World::new("retry");
    let session = world.session().await;
    world.create(&session, "mail", 2).await;
    let hour = Duration::from_secs(3_600);
    let bad = NewMessage { ttl: Some(hour), ..NewMessage::new("bad") };
    world.putter(&session, "mail").await.put(vec![(admin::Destination::Partition(2), bad)]).await.unwrap();
    world.put_to(&session, "mail-2", &["good"]).await;
    let log = Log::default();
    let hopeless = |body: &str| if body == "bad" { Outcome::failed("no") } else { Outcome::Done };
    let worker = world.start(&session, options("w1", &["mail"]), log.task_with("w1", hopeless));
    world.drained(&session, "mail", 2).await;
    let failed = FailedMessages::open(&session, &world.journals(), &queue("mail")).await.unwrap();
    for retries in 0..2 {
        let all = eventually_async("it has failed", async || {
            let all = failed.after(MessageId::ZERO, 10).await.unwrap();
            (all.len() == 1).then_some(all)
        })
        .await;
        let record = all[0].record.clone().unwrap();
        assert_eq!((record.origin.to_string(), record.retries), ("mail-2".to_owned(), retries));
        assert_eq!(record.ttl, Some(hour), "it is to live as long as at first, each time");
        // A client's dedup id is never taken for that of the retried message.
        let theirs = NewMessage {
            dedup: Some(format!("retry/{}", all[0].position).into()),
            ..NewMessage::new("good")
        };
        let mut putter = world.putter(&session, "mail").await;
        putter.put(vec![(admin::Destination::Partition(2), theirs)]).await.unwrap();
        assert!(failed.retry(&all[0]).await.unwrap());
        assert!(!failed.retry(&all[0]).await.unwrap(), "it is gone from here");
    }
    eventually_async("it has failed for the third time", async || {
        (failed.after(MessageId::ZERO, 10).await.unwrap().len() == 1).then_some(())
    })
    .await;
    worker.finish().await;
    assert_eq!(log.bodies(), ["bad", "good", "good", "bad", "good", "bad"]);
    let view = admin::show::show(&session, &world.journals(), &queue("mail")).await.unwrap();
    let by_partition: Vec<_> = view.partitions.iter().map(|partition| partition.failed).collect();
    assert_eq!((view.failed, view.failed_uncounted, by_partition), (1, 0, vec![0, 1]));
    let last = failed.after(MessageId::ZERO, 10).await.unwrap().remove(0);
    assert!(failed.forget(&last).await.unwrap());
    assert!(!failed.forget(&last).await.unwrap());
}

/// Two operators act on the same failed message.
#[tokio::test]
async fn a_dropped_message_is_not_retried_and_a_retried_one_comes_back_once() {
    let world = World::new("retry-race");
    let session = world.session().await;
    world.create(&session, "mail", 1).await;
    let place = PartitionId::new(Topic::new("mail.failed").unwrap(), 1);
    let failed = FailedMessages::open(&session, &world.journals(), &queue("mail")).await.unwrap();
    for round in 0..20 {
        let put = Commit::append(place.clone(), NewMessage::new(round.to_string()));
        let id = world.store().commit(put).await.unwrap().appends[0].id().unwrap();
        let message = failed.after(MessageId(Ticks(id.0.0 - 1)), 1).await.unwrap().remove(0);
        let before = world.messages("mail", 1).await.len();
        // In one group, as the first polls follow one another.
        let (first, second, forgotten) =
            tokio::join!(failed.retry(&message), failed.retry(&message), failed.forget(&message));
        assert_eq!((first.unwrap(), second.unwrap(), forgotten.unwrap()), (true, false, false));
        assert_eq!(world.messages("mail", 1).await.len(), before + 1);
        let put = Commit::append(place.clone(), NewMessage::new("gone"));
        let id = world.store().commit(put).await.unwrap().appends[0].id().unwrap();
        let message = failed.after(MessageId(Ticks(id.0.0 - 1)), 1).await.unwrap().remove(0);
        let (forgotten, back) = tokio::join!(failed.forget(&message), failed.retry(&message));
        assert_eq!((forgotten.unwrap(), back.unwrap()), (true, false));
        assert_eq!(world.messages("mail", 1).await.len(), before + 1, "it was forgotten");
    }
}

#[tokio::test]
async fn nobody_works_on_a_deleted_queue() {
    let world = World::new("delete");
    let session = world.session().await;
    for name in ["mail", "other"] {
        world.create(&session, name, 2).await;
    }
    let log = Log::default();
    let worker = world.start(&session, options("w1", &["mail", "other"]), log.task("w1"));
    worker.has(4).await;
    admin::delete(&session, &world.journals(), &queue("mail")).await.unwrap();
    worker.has(2).await;
    let gone = admin::delete(&session, &world.journals(), &queue("mail")).await;
    assert_eq!(gone, Err(QueueError::NoQueue { queue: queue("mail") }));
    assert_eq!(session.term().children(queues::cursors().path()).await.unwrap().len(), 2);
    // Its worker has contended for it again before it noticed.
    eventually_async("its locks are gone", async || {
        (session.term().children(queues::locks().path()).await.unwrap().len() == 2).then_some(())
    })
    .await;
    world.put(&session, "other", 0..4).await;
    world.drained(&session, "other", 2).await;
    // A queue of the same name starts from scratch.
    world.create(&session, "mail", 1).await;
    worker.has(3).await;
    world.put_to(&session, "mail-1", &["anew"]).await;
    world.drained(&session, "mail", 1).await;
    worker.finish().await;
}

#[tokio::test]
async fn a_queue_recreated_before_anybody_noticed_is_worked_on() {
    let world = World::new("delete-create");
    let session = world.session().await;
    world.create(&session, "mail", 2).await;
    let log = Log::default();
    // Settles so slowly that the assignment is the same before and after.
    let mut slow = options("w1", &["mail"]);
    slow.settle = Rule { quiet: Duration::from_secs(4), cap: Duration::from_secs(60) };
    let worker = world.start(&session, slow, log.task("w1"));
    worker.has(2).await;
    admin::delete(&session, &world.journals(), &queue("mail")).await.unwrap();
    eventually_async("it has noticed", async || (worker.view().await.stats.lost == 2).then_some(())).await;
    world.create(&session, "mail", 2).await;
    world.put(&session, "mail", 0..4).await;
    world.drained(&session, "mail", 2).await;
    worker.finish().await;
    assert_eq!(log.handled().len(), 4);
}

#[tokio::test]
async fn a_purged_queue_is_empty_and_still_works() {
    let world = World::new("purge");
    let session = world.session().await;
    world.create(&session, "mail", 2).await;
    world.put(&session, "mail", 0..10).await;
    assert_eq!(admin::purge(&session, &world.journals(), &queue("mail")).await.unwrap(), 10);
    assert_eq!(show(&session, &world.journals(), &queue("mail")).await.unwrap().lag(), 0);
    world.put(&session, "mail", 10..12).await;
    let log = Log::default();
    let worker = world.start(&session, options("w1", &["mail"]), log.task("w1"));
    world.drained(&session, "mail", 2).await;
    worker.finish().await;
    let mut bodies = log.bodies();
    bodies.sort();
    assert_eq!(bodies, ["10", "11"]);
}

#[tokio::test]
async fn damaged_messages_block_their_partition_until_skipped() {
    let world = World::new("skip");
    let session = world.session().await;
    world.create(&session, "mail", 2).await;
    let log = Log::default();
    // The cursor will be within what is damaged.
    world.put_to(&session, "mail-1", &["done"]).await;
    let worker = world.start(&session, options("w0", &["mail"]), log.task("w0"));
    world.drained(&session, "mail", 2).await;
    worker.finish().await;
    world.put_to(&session, "mail-1", &["lost", "lost too"]).await;
    let damaged = world.messages("mail", 1).await.last().unwrap().id;
    world.store().checkpoint().unwrap();
    for segment in fs::read_dir(world.journal.folder().join("segments")).unwrap() {
        let path = segment.unwrap().path();
        let mut bytes = fs::read(&path).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        fs::write(&path, bytes).unwrap();
    }
    world.put_to(&session, "mail-1", &["kept"]).await;
    let worker = world.start(&session, options("w1", &["mail"]), log.task("w1"));
    let error = eventually_async("it says so", async || {
        worker.view().await.partitions.into_iter().find_map(|lane| lane.damaged)
    })
    .await;
    assert!(error.contains(&damaged.to_string()), "{error}");
    // Who looks is told what there is.
    let shown = show(&session, &world.journals(), &queue("mail")).await.unwrap();
    assert!((1..=4).contains(&shown.lag()), "{}", shown.lag());
    let unhandled = admin::unhandled(&session, &world.journals(), &queue("mail")).await.unwrap();
    assert!(unhandled.waiting > 0);
    let skip = async |partition: u16, through| {
        admin::skip(&session, &world.journals(), &queue("mail").partition(partition), through).await
    };
    assert!(matches!(skip(3, damaged).await, Err(QueueError::NoPartition { .. })));
    assert!(matches!(skip(2, damaged).await, Err(QueueError::Journal(JournalError::Ahead { .. }))));
    skip(1, damaged).await.unwrap();
    world.drained(&session, "mail", 2).await;
    assert_eq!(log.bodies(), ["done", "kept"]);
    let view = worker.view().await;
    assert!(view.partitions.iter().all(|lane| lane.damaged.is_none()));
    worker.finish().await;
}

#[tokio::test]
async fn delayed_messages_are_listed_by_due_time_and_cancelled() {
    let world = World::new("cancel");
    let session = world.session().await;
    world.create(&session, "mail", 3).await;
    let mut putter = world.putter(&session, "mail").await;
    let start = Ticks::now().plus(Duration::from_secs(3600));
    let mut delay = async |partition, minutes: u64, body: &'static str| {
        let due = Some(start.plus(Duration::from_secs(60 * minutes)));
        let message = NewMessage { due, ..NewMessage::new(body) };
        let put = putter.put(vec![(Destination::Partition(partition), message)]).await.unwrap().remove(0);
        assert_eq!((put.due, put.position), (due, None));
        DelayedName::Id(put.id.unwrap())
    };
    let (third, first, second) = (delay(1, 3, "c").await, delay(2, 1, "a").await, delay(1, 2, "b").await);
    let open = async |only| DelayedMessages::open(&session, &world.journals(), &queue("mail"), only).await;
    let (all, one) = (open(None).await.unwrap(), open(Some(1)).await.unwrap());
    assert!(matches!(open(Some(4)).await, Err(QueueError::NoPartition { .. })));
    let ids = |found: Vec<DelayedMessage>| found.iter().map(DelayedMessage::name).collect::<Vec<_>>();
    let found = all.next(100).await.unwrap();
    assert_eq!(
        (&found[0].message.body[..], &found[0].partition),
        (b"a".as_slice(), &queue("mail").partition(2))
    );
    assert_eq!(ids(found), [first, second, third]);
    assert_eq!(ids(all.next(2).await.unwrap()), [first, second]);
    assert_eq!(ids(one.next(2).await.unwrap()), [second, third]);
    assert!(!one.cancel(first).await.unwrap(), "it is of another partition");
    assert!(all.cancel(first).await.unwrap());
    assert!(!all.cancel(first).await.unwrap(), "it is gone");
    let other = delay(3, 1, "d").await;
    assert_eq!(one.cancel_all(|_| {}).await.unwrap(), 2);
    assert_eq!(ids(all.next(100).await.unwrap()), [other]);
    let mut progress = Vec::new();
    assert_eq!(all.cancel_all(|cancelled| progress.push(cancelled)).await.unwrap(), 1);
    assert_eq!((progress, all.cancel_all(|_| {}).await.unwrap()), (vec![1], 0));
    let view = show(&session, &world.journals(), &queue("mail")).await.unwrap();
    assert_eq!((view.delayed(), view.messages()), (0, 0));
}
