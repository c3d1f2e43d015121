//! What a request with ids may read.

use std::time::Duration;

use menagerie_journal::{
    Append, Commit, Journal as _, MessageId, NewMessage, PartitionId, Read, Ticks, Topic,
};
use menagerie_queues::admin::failed::FailedMessages;
use menagerie_queues::admin::{Destination, Putter};
use menagerie_queues::story::{self, Act, ActKind};
use menagerie_queues::task::Outcome;
use menagerie_queues::{MessageUuid, Meta, Origin};
use menagerie_testkit::eventually_async;
use menagerie_znodes::queues::QueueName;

use crate::watched::Watched;
use crate::world::{Log, World, options};

const QUEUE: &str = "/v1/notes/mail";

fn mail() -> QueueName {
    "notes:mail".parse().unwrap()
}

/// As if operators had done this to other messages.
async fn acts(world: &World, count: usize) {
    let partition = PartitionId::new(story::topic(&mail()).unwrap(), 1);
    let act = |number: usize| {
        let id = MessageUuid::derived(&mail().partition(1), MessageId(Ticks(number as u64)));
        let (partition, act) = (mail().partition(1), ActKind::Retried);
        let act = Act { id, partition, position: None, act, by: None, meta: None };
        NewMessage::new(serde_json::to_vec(&act).unwrap())
    };
    let append = |number| Append { partition: partition.clone(), message: act(number) };
    let appends = (1..=count).map(append).collect();
    world.store().commit(Commit { appends, ..Commit::default() }).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_reads_a_little_for_each_id() {
    let (world, journal, site) = Watched::world("http-search-reads").await;
    let mut ids = Vec::new();
    for _ in 0..50 {
        ids.push(site.post(QUEUE, 1, "x").await);
    }
    acts(&world, 6_000).await;
    let all = ids.join(",");
    journal.take_reads();
    assert_eq!(site.own("GET", &format!("{QUEUE}/{all}"), "").await.bodies().len(), 50);
    let reads = journal.take_reads();
    assert!((50..60).contains(&reads), "{reads} reads, and not what others did for each of the ids");
    assert_eq!(site.own("DELETE", &format!("{QUEUE}/{all}"), "").await.code, 200);
    let reads = journal.take_reads();
    assert!((50..60).contains(&reads), "{reads} reads");
    assert!(site.own("GET", QUEUE, "").await.bodies().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_may_have_been_put_back_is_not_mistaken() {
    let (world, journal, site) = Watched::world("http-search-retried").await;
    let id = site.post(QUEUE, 1, "bad").await;
    let task = Log::default().task_with("w1", |_| Outcome::failed("no"));
    let worker = world.start(&site.session, options("w1", &["notes:mail"]), task);
    let failed = FailedMessages::open(&site.session, &world.journals(), &mail()).await.unwrap();
    let found =
        eventually_async("it has failed", async || failed.find(id.parse().unwrap()).await.unwrap()).await;
    world.drained(&site.session, "notes:mail", 1).await;
    worker.finish().await;
    assert!(failed.retry(&found).await.unwrap());
    // More than a request reads in search of it.
    acts(&world, 100).await;
    for _ in 0..50 {
        site.post(QUEUE, 1, "x").await;
    }
    journal.limit_batches(1);
    let path = format!("{QUEUE}/{id}");
    for method in ["DELETE", "PUT"] {
        journal.take_reads();
        let refused = site.own(method, &path, "better").await;
        assert_eq!(refused.code, 409, "{method} {refused:?}");
        assert!(refused.reason("InvalidMessageID").contains("were not changed"));
        assert!(journal.take_reads() < 200);
    }
    journal.limit_batches(u32::MAX);
    assert_eq!(world.messages("notes:mail", 1).await.len(), 52, "nothing was changed");
    assert_eq!(site.own("DELETE", &path, "").await.code, 200);
    let left = world.messages("notes:mail", 1).await;
    assert!(left.len() == 51 && left[0].body == "bad", "the copy that was put back is gone");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_copy_that_was_put_back_together_with_many_others_is_the_one_that_is_deleted() {
    let (world, _journal, site) = Watched::world("http-search-crowd").await;
    let id: MessageUuid = site.post(QUEUE, 1, "first").await.parse().unwrap();
    let (partition, act) = (mail().partition(1), ActKind::Retried);
    let note = Act { id, partition, position: None, act, by: None, meta: None };
    let meta = Meta { id: Some(id), retries: 1, ..Origin::library().meta() };
    let copy = NewMessage { meta: meta.encode(), ..NewMessage::new("copy") };
    let notes = PartitionId::new(story::topic(&mail()).unwrap(), 1);
    let messages = PartitionId::new(Topic::new("notes:mail").unwrap(), 1);
    let mut appends =
        vec![Append { partition: notes, message: NewMessage::new(serde_json::to_vec(&note).unwrap()) }];
    let others = std::iter::repeat_n(NewMessage::new("other"), 1_500);
    appends.extend(others.chain([copy]).map(|message| Append { partition: messages.clone(), message }));
    let stored = world.store().commit(Commit { appends, ..Commit::default() }).await.unwrap();
    let copy = stored.appends.last().unwrap().id().unwrap();
    assert_eq!(site.own("DELETE", &format!("{QUEUE}/{}", id.hex()), "").await.code, 200);
    let is_there = async |position| {
        let read = Read::one(messages.clone(), position);
        !world.store().read(read).await.unwrap().messages.is_empty()
    };
    assert!(!is_there(copy).await);
    assert!(is_there(MessageId(id.time())).await, "it was handled");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delayed_message_among_too_many_is_not_taken_for_none() {
    let (world, journal, site) = Watched::world("http-search-delayed").await;
    let due = Some(Ticks::now().plus(Duration::from_secs(3_600)));
    let queue = mail();
    let mut putter =
        Putter::open(&site.session, &world.journals(), &queue, 0, Origin::library()).await.unwrap();
    let message = |_| (Destination::Partition(1), NewMessage { due, ..NewMessage::new("later") });
    let put = putter.put((0..100).map(message).collect()).await.unwrap();
    let ids: Vec<String> = put.iter().map(|put| put.id.unwrap().hex()).collect();
    journal.limit_batches(1);
    let last = format!("{QUEUE}/{}", ids[99]);
    for method in ["DELETE", "PUT"] {
        let refused = site.own(method, &last, "x").await;
        assert!(refused.reason("InvalidMessageID").contains("were not changed"), "{method}");
    }
    journal.limit_batches(u32::MAX);
    journal.take_reads();
    assert_eq!(site.own("DELETE", &format!("{QUEUE}/{}", ids.join(",")), "").await.code, 200);
    assert!(journal.take_reads() < 5, "one read finds all of them");
    let delayed =
        menagerie_queues::admin::show::show(&site.session, &world.journals(), &queue).await.unwrap();
    assert_eq!(delayed.delayed(), 0);
}
