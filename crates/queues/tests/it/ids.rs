//! One id for life.

use std::collections::HashSet;
use std::fs;
use std::time::Duration;

use bytes::Bytes;
use menagerie_journal::{Commit, Edit, Journal as _, MessageId, NewMessage, PartitionId, Ticks, Topic};
use menagerie_kernel::Session;
use menagerie_queues::admin::browse::Browser;
use menagerie_queues::admin::delayed::{DelayedMessage, DelayedMessages, DelayedName};
use menagerie_queues::admin::failed::{FailedMessage, FailedMessages};
use menagerie_queues::admin::{Destination, Put, ToPut};
use menagerie_queues::runner::exec::Exec;
use menagerie_queues::task::Outcome;
use menagerie_queues::{MessageUuid, Meta, Origin, QueueError, Via};
use menagerie_testkit::eventually_async;
use menagerie_znodes::queues::QueueName;

use crate::runners::{script, world};
use crate::world::{Log, World, options};

fn mail() -> QueueName {
    "mail".parse().unwrap()
}

async fn put(world: &World, session: &Session, message: NewMessage) -> Put {
    world.putter(session, "mail").await.put(vec![(Destination::Any, message)]).await.unwrap().remove(0)
}

fn delayed(body: &'static str, delay: Duration) -> NewMessage {
    NewMessage { due: Some(Ticks::now().plus(delay)), ..NewMessage::new(body) }
}

async fn failed(world: &World, session: &Session) -> FailedMessages {
    FailedMessages::open(session, &world.journals(), &mail()).await.unwrap()
}

async fn first_failed(world: &World, session: &Session) -> FailedMessage {
    let failed = failed(world, session).await;
    eventually_async("it has failed", async || {
        failed.after(MessageId::ZERO, 10).await.unwrap().into_iter().next()
    })
    .await
}

async fn waiting(world: &World, session: &Session) -> Vec<DelayedMessage> {
    let delayed = DelayedMessages::open(session, &world.journals(), &mail(), None).await.unwrap();
    delayed.next(10).await.unwrap()
}

/// Partitions and positions of the messages with this id.
async fn places(world: &World, session: &Session, id: MessageUuid) -> Vec<(u16, MessageId)> {
    let browser = Browser::open(session, &world.journals(), &mail()).await.unwrap();
    let found = browser.with_id(&browser.partitions(None).unwrap(), id).await.unwrap();
    found.iter().map(|found| (found.partition.number(), found.message.id)).collect()
}

#[tokio::test]
async fn one_id_names_a_message_while_it_is_delayed_due_failed_retried_and_done() {
    let world = world("one-id");
    let session = world.session().await;
    world.create(&session, "mail", 3).await;
    let mut putter = world.putter(&session, "mail").await;
    let destination = Destination::Key(b"customer-7".to_vec());
    let message = delayed("order 17", Duration::from_secs(2));
    let message = ToPut { destination, priority: 3, message };
    let put = putter.put(vec![message]).await.unwrap().remove(0);
    let id = put.id.unwrap();
    let found = waiting(&world, &session).await.remove(0);
    assert_eq!((found.name(), &found.partition), (DelayedName::Id(id), &put.partition));
    assert_eq!(places(&world, &session, id).await, [], "it is not due");

    let folder = tempfile::tempdir().unwrap();
    let task = r#"echo "$MENAGERIE_MESSAGE_ID" >> "$1/log"; [ -e "$1/mended" ] || exit 65"#;
    let worker = world.start(&session, options("w1", &["mail"]), Exec::new(script(task, folder.path())));
    let failure = first_failed(&world, &session).await;
    let record = failure.record.clone().unwrap();
    assert_eq!((failure.id, record.id, &record.origin), (id, Some(id), &put.partition));
    let due = places(&world, &session, id).await;
    assert_eq!(due.len(), 1);
    assert!(due[0].1.0 >= put.due.unwrap(), "its position is from when it was due");

    fs::write(folder.path().join("mended"), "").unwrap();
    let failed = failed(&world, &session).await;
    assert_eq!(failed.find(id).await.unwrap().map(|found| found.position), Some(failure.position));
    assert!(failed.retry(&failure).await.unwrap());
    assert_eq!(failed.find(id).await.unwrap(), None);
    world.drained(&session, "mail", 3).await;
    worker.finish().await;
    let log = fs::read_to_string(folder.path().join("log")).unwrap();
    assert_eq!(log.lines().collect::<Vec<_>>(), [id.to_string(), id.to_string()]);
    let messages = world.messages("mail", put.partition.number().into()).await;
    let last = messages.last().unwrap();
    let (meta, position) = (Meta::of(last), (put.partition.number(), last.id));
    assert_eq!(places(&world, &session, id).await, [position], "where it stands now");
    assert_eq!((meta.id, meta.via), (Some(id), Some(Via::Library)));
    assert!(meta.put.is_some_and(|put| put < id.time()), "its id says when it was due");
    assert_eq!((meta.key.as_deref(), meta.priority, meta.retries), (Some("customer-7"), 3, 1));
}

#[tokio::test]
async fn a_message_that_is_retried_again_and_again_stays_the_same() {
    let world = World::new("same-id");
    let session = world.session().await;
    world.create(&session, "mail", 2).await;
    let put = put(&world, &session, NewMessage::new("bad")).await;
    let position = put.position.unwrap();
    assert_eq!(put.id, Some(MessageUuid::derived(&put.partition, position)));
    let log = Log::default();
    let task = log.task_with("w1", |_| Outcome::failed("no"));
    let worker = world.start(&session, options("w1", &["mail"]), task);
    for retries in 0..3 {
        let failure = first_failed(&world, &session).await;
        let record = failure.record.clone().unwrap();
        assert_eq!((Some(failure.id), record.put, record.retries), (put.id, Some(position.0), retries));
        assert!(failed(&world, &session).await.retry(&failure).await.unwrap());
    }
    first_failed(&world, &session).await;
    worker.finish().await;
}

#[tokio::test]
async fn messages_of_an_older_version_keep_their_ids() {
    let world = world("old-ids");
    let session = world.session().await;
    world.create(&session, "mail", 2).await;
    let append = async |topic: &str, message: NewMessage| {
        let partition = PartitionId::new(Topic::new(topic).unwrap(), 1);
        world.store().commit(Commit::append(partition, message)).await.unwrap().appends[0]
    };
    // Older versions stored no metadata; the id was the position as a UUID.
    let position = append("mail", NewMessage::new("old")).await.id().unwrap();
    let old: MessageUuid = position.to_string().parse().unwrap();
    assert_eq!(places(&world, &session, old).await, [(1, position)]);
    // What they delayed has another id while it is delayed.
    append("mail", delayed("later", Duration::from_secs(3_600))).await;
    let found = waiting(&world, &session).await.remove(0);
    let delayed = DelayedMessages::open(&session, &world.journals(), &mail(), None).await.unwrap();
    assert_eq!(found.name().to_string(), found.place.to_string());
    assert!(delayed.cancel(found.place.to_string().parse().unwrap()).await.unwrap());

    let folder = tempfile::tempdir().unwrap();
    let task = script(r#"echo "$MENAGERIE_MESSAGE_ID" >> "$1/log"; exit 65"#, folder.path());
    let worker = world.start(&session, options("w1", &["mail"]), Exec::new(task));
    let failure = first_failed(&world, &session).await;
    assert_eq!(failure.id, old);
    assert!(failed(&world, &session).await.retry(&failure).await.unwrap());
    assert_eq!(first_failed(&world, &session).await.id, old);
    worker.finish().await;
    let log = fs::read_to_string(folder.path().join("log")).unwrap();
    assert_eq!(log.lines().collect::<Vec<_>>(), [old.to_string(), old.to_string()]);

    // A record of theirs has no id: then it is the one under which they listed it.
    let record = format!(
        r#"{{"origin":"mail-2","message":"{position}","error":"no","attempts":2,"retries":4,"output":""}}"#
    );
    let message = NewMessage { meta: Bytes::from(record), ..NewMessage::new("failed") };
    let position_failed = append("mail.failed", message).await.id().unwrap();
    let id: MessageUuid = position_failed.to_string().parse().unwrap();
    let failed = failed(&world, &session).await;
    let found = failed.find(id).await.unwrap().unwrap();
    assert_eq!(found.record.as_ref().map(|record| record.retries), Some(4));
    assert!(failed.retry(&found).await.unwrap());
    let retried = world.messages("mail", 2).await.remove(0);
    let meta = Meta::of(&retried);
    assert_eq!((meta.id, meta.put, meta.retries), (Some(id), Some(position.0), 5));
    assert_eq!(places(&world, &session, id).await, [(2, retried.id)]);
}

#[tokio::test]
async fn an_id_that_a_client_chose_is_found_and_those_of_other_queues_are_not() {
    let world = World::new("foreign-ids");
    let session = world.session().await;
    world.create(&session, "mail", 2).await;
    world.create(&session, "news", 1).await;
    let own: MessageUuid = "6ba7b810-9dad-11d1-80b4-00c04fd430c8".parse().unwrap();
    let meta = Meta { id: Some(own), ..Origin::new("notes", Via::Http).meta() };
    let message = NewMessage { meta: meta.encode(), ..NewMessage::new("theirs") };
    let partition = PartitionId::new(Topic::new("mail").unwrap(), 2);
    let edits = vec![Edit::Replace { partition, id: MessageId(own.time()), message }];
    world.store().commit(Commit { edits, ..Commit::default() }).await.unwrap();
    assert_eq!(places(&world, &session, own).await, [(2, MessageId(own.time()))]);
    let alike: MessageUuid = "6ba7b810-9dad-11d1-80b4-00c04fd430c9".parse().unwrap();
    assert_eq!(places(&world, &session, alike).await, []);
    let news = world.putter(&session, "news").await.put(vec![(Destination::Any, NewMessage::new("n"))]).await;
    assert_eq!(places(&world, &session, news.unwrap()[0].id.unwrap()).await, []);
}

#[tokio::test]
async fn a_duplicate_is_answered_with_the_id_of_the_first() {
    let world = World::new("duplicate-ids");
    let session = world.session().await;
    world.create(&session, "mail", 3).await;
    let again = async |message: NewMessage, dedup: &'static str| {
        let message = NewMessage { dedup: Some(Bytes::from_static(dedup.as_bytes())), ..message };
        put(&world, &session, message).await
    };
    // One putter after the other begins at the same partition: these do not.
    let mut putter = world.putter(&session, "mail").await;
    let message = |partition| {
        let message = NewMessage { dedup: Some("one".into()), ..NewMessage::new("a") };
        (Destination::Partition(partition), message)
    };
    let both = putter.put(vec![message(3), message(1)]).await.unwrap();
    assert!(!both[0].duplicate && both[0].partition == mail().partition(3));
    assert_eq!(both[1], Put { duplicate: true, ..both[0].clone() });
    assert_eq!(again(NewMessage::new("other"), "one").await, both[1], "whatever it says");
    // Of a delayed message, before and after it is due.
    let first = again(delayed("b", Duration::from_secs(2)), "two").await;
    assert!(!first.duplicate && first.position.is_none() && first.id.is_some());
    let second = again(delayed("b", Duration::from_secs(9)), "two").await;
    assert_eq!(second, Put { duplicate: true, ..first.clone() });
    let due = eventually_async("it is due", async || {
        let second = again(NewMessage::new("b"), "two").await;
        second.position.is_some().then_some(second)
    })
    .await;
    assert_eq!((due.id, &due.partition, due.duplicate), (first.id, &first.partition, true));
    // Of one that was cancelled, nobody knows the id any more.
    let gone = again(delayed("c", Duration::from_secs(3_600)), "three").await;
    let waiting = DelayedMessages::open(&session, &world.journals(), &mail(), None).await.unwrap();
    assert!(waiting.cancel(DelayedName::Id(gone.id.unwrap())).await.unwrap());
    let again = again(NewMessage::new("c"), "three").await;
    assert_eq!((again.id, again.duplicate), (None, true));
}

#[tokio::test]
async fn who_put_a_message_and_its_key_are_stored_and_a_long_key_is_refused() {
    let world = World::new("origin");
    let session = world.session().await;
    world.create(&session, "mail", 1).await;
    let mut putter = world.putter(&session, "mail").await;
    let keyed = |bytes: usize| vec![(Destination::Key(vec![b'k'; bytes]), NewMessage::new("a"))];
    let refused = putter.put(keyed(1025)).await;
    assert_eq!(refused, Err(QueueError::LongKey { bytes: 1025 }));
    putter.put(keyed(1024)).await.unwrap();
    let messages = world.messages("mail", 1).await;
    let meta = Meta::of(&messages[0]);
    assert_eq!(
        (messages.len(), meta.key.map(|key| key.len()), meta.via),
        (1, Some(1024), Some(Via::Library))
    );
}

/// A million, of which each twentieth is delayed: these have ids that are chosen, not counted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ids_are_unique_over_a_million_puts_of_four_clients() {
    const CLIENTS: usize = 4;
    const BATCHES: usize = 50;
    const BATCH: usize = 5_000;
    let world = World::new("unique-ids");
    let session = world.session().await;
    world.create(&session, "mail", 8).await;
    world.create(&session, "news", 2).await;
    let mut clients = Vec::new();
    for number in 0..CLIENTS {
        let mut putters = [world.putter(&session, "mail").await, world.putter(&session, "news").await];
        clients.push(tokio::spawn(async move {
            let due = Ticks::now().plus(Duration::from_secs(3_600));
            let message = |index: usize| {
                let due = (index % 20 == number).then_some(due);
                (Destination::Any, NewMessage { due, ..NewMessage::default() })
            };
            let mut ids = Vec::with_capacity(BATCHES * BATCH);
            for batch in 0..BATCHES {
                let put = putters[batch % 2].put((0..BATCH).map(message).collect()).await.unwrap();
                ids.extend(put.into_iter().map(|put| put.id.unwrap()));
            }
            ids
        }));
    }
    let mut all = HashSet::with_capacity(CLIENTS * BATCHES * BATCH);
    for client in clients {
        all.extend(client.await.unwrap());
    }
    assert_eq!(all.len(), 1_000_000);
    // The messages themselves say the same.
    let partition = mail().partition(1);
    let stored = world.messages("mail", 1).await;
    assert!(!stored.is_empty());
    assert!(stored.iter().all(|message| all.contains(&MessageUuid::of(&partition, message))));
}
