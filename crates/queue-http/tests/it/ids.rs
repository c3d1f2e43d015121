//! Ids over HTTP: the same as everywhere else.

use std::collections::HashSet;
use std::time::Duration;

use menagerie_journal::{Commit, Journal as _, MessageId, NewMessage, PartitionId, Ticks, Topic};
use menagerie_queues::admin::failed::FailedMessages;
use menagerie_queues::admin::{Destination, Put, Putter};
use menagerie_queues::task::Outcome;
use menagerie_queues::{MessageUuid, Meta, Origin, Via};
use menagerie_testkit::eventually_async;
use menagerie_znodes::queues::QueueName;
use serde_json::{Value, json};

use crate::site::Site;
use crate::world::{Log, World, options};

const QUEUE: &str = "/v1/notes/mail";
const JSON: (&str, &str) = ("Content-Type", "application/json");

async fn site(name: &str) -> (World, Site) {
    let world = World::new(name);
    let site = Site::new(&world).await;
    site.queue("queue_name=mail&partitions=3").await;
    (world, site)
}

fn mail() -> QueueName {
    "notes:mail".parse().unwrap()
}

async fn put(world: &World, site: &Site, message: NewMessage) -> Put {
    let origin = Origin::library();
    let mut putter = Putter::open(&site.session, &world.journals(), &mail(), 0, origin).await.unwrap();
    putter.put(vec![(Destination::Partition(2), message)]).await.unwrap().remove(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn ids_are_unique_name_their_partition_and_say_who_put_them() {
    let (world, site) = site("http-ids").await;
    let messages: Vec<Value> =
        (0..60).map(|index| json!({"body": "x", "partition": index % 3 + 1})).collect();
    let body = json!({"messages": messages}).to_string();
    let posted = site.own_with("POST", QUEUE, &[JSON], body.as_bytes()).await.json();
    let posted = posted["messages"].as_array().unwrap();
    let ids: Vec<&str> = posted.iter().map(|one| one["key"].as_str().unwrap()).collect();
    assert_eq!(ids.iter().collect::<HashSet<_>>().len(), 60);
    for (id, posted) in ids.iter().zip(posted) {
        let read = site.own("GET", &format!("{QUEUE}/{id}"), "").await.json();
        assert_eq!(read["messages"][0]["message_id"], *id);
        assert_eq!(read["messages"][0]["partition"], posted["partition"], "without being told where it is");
    }
    for number in 1..=3 {
        let read = site.own("GET", &format!("{QUEUE}?partitions={number}"), "").await.json();
        let read: Vec<MessageUuid> = read["messages"].as_array().unwrap().iter().map(id_of).collect();
        assert!(read.is_sorted() && read.len() == 20, "they sort by time");
        for (message, id) in world.messages("notes:mail", number).await.iter().zip(read) {
            let partition = mail().partition(u16::try_from(number).unwrap());
            assert_eq!(MessageUuid::of(&partition, message), id, "as the command line shows it");
            let meta = Meta::of(message);
            assert_eq!(meta.via, Some(Via::Http));
            let by = meta.by.unwrap();
            assert!(by.starts_with("notes/") && !by.contains(crate::site::KEY), "{by}");
        }
    }
    let all = ids.join(",");
    assert_eq!(site.own("DELETE", &format!("{QUEUE}/{all}"), "").await.code, 200);
    assert!(site.own("GET", &format!("{QUEUE}?partitions=1,2,3"), "").await.bodies().is_empty());
}

fn id_of(message: &Value) -> MessageUuid {
    message["message_id"].as_str().unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_was_retried_is_found_replaced_and_deleted_under_its_id() {
    let (world, site) = site("http-retried").await;
    let id = site.post(QUEUE, 2, "bad").await;
    let log = Log::default();
    let task = log.task_with("w1", |_| Outcome::failed("no"));
    let worker = world.start(&site.session, options("w1", &["notes:mail"]), task);
    let failed = FailedMessages::open(&site.session, &world.journals(), &mail()).await.unwrap();
    let found =
        eventually_async("it has failed", async || failed.find(id.parse().unwrap()).await.unwrap()).await;
    worker.finish().await;
    let state = async || {
        let found = site.own("GET", &format!("{QUEUE}/messages/{id}"), "").await.json()["message"].clone();
        assert_eq!(
            (&found["message_id"], &found["partition"], &found["body"]),
            (&json!(id), &json!(2), &json!("bad"))
        );
        found["state"].clone()
    };
    assert_eq!(state().await, "failed");
    let first = world.messages("notes:mail", 2).await[0].id;
    assert!(failed.retry(&found).await.unwrap());
    assert_eq!(state().await, "waiting", "though the first one is still kept");
    // As if the queue had dropped the handled one.
    let partition = PartitionId::new(Topic::new("notes:mail").unwrap(), 2);
    world.store().trim(&partition, first).await.unwrap();
    assert_eq!(state().await, "waiting");
    let read = async || site.own("GET", &format!("{QUEUE}/{id}"), "").await;
    assert_eq!(read().await.bodies(), ["bad"]);
    assert_eq!(site.own("PUT", &format!("{QUEUE}/{id}"), "better").await.code, 200);
    assert_eq!(
        (read().await.bodies(), &read().await.json()["messages"][0]["message_id"]),
        (vec!["better".to_owned()], &json!(id))
    );
    let meta = Meta::of(&world.messages("notes:mail", 2).await[0]);
    assert_eq!((meta.retries, meta.put), (1, Some(first.0)));
    assert_eq!(site.own("DELETE", &format!("{QUEUE}/{id}"), "").await.code, 200);
    assert!(read().await.bodies().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_message_is_found_when_its_queue_no_longer_keeps_it() {
    let (world, site) = site("http-failed-id").await;
    let id = site.post(QUEUE, 2, "bad").await;
    let task = Log::default().task_with("w1", |_| Outcome::failed("no"));
    let worker = world.start(&site.session, options("w1", &["notes:mail"]), task);
    world.drained(&site.session, "notes:mail", 3).await;
    worker.finish().await;
    let partition = PartitionId::new(Topic::new("notes:mail").unwrap(), 2);
    let first = world.messages("notes:mail", 2).await[0].id;
    world.store().trim(&partition, first).await.unwrap();
    let ask = async |id: &str| site.own("GET", &format!("{QUEUE}/messages/{id}"), "").await;
    let found = ask(&id).await.json()["message"].clone();
    assert_eq!((&found["state"], &found["partition"]), (&json!("failed"), &json!(2)));
    assert_eq!((&found["message_id"], &found["body"]), (&json!(id), &json!("bad")));
    assert_eq!(ask(&format!("3:{id}")).await.code, 404, "it was in another partition");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delayed_message_is_not_there_yet_but_can_be_deleted() {
    let (world, site) = site("http-delayed-id").await;
    let due = Some(Ticks::now().plus(Duration::from_secs(3_600)));
    let put = put(&world, &site, NewMessage { due, ..NewMessage::new("later") }).await;
    let path = format!("{QUEUE}/{}", put.id.unwrap().hex());
    assert!(site.own("GET", &path, "").await.bodies().is_empty());
    let refused = site.own("PUT", &path, "x").await;
    assert_eq!(
        (refused.code, refused.reason("InvalidMessageID")),
        (409, "This message is not due yet.".to_owned())
    );
    let delayed = async || {
        let journals = world.journals();
        menagerie_queues::admin::show::show(&site.session, &journals, &mail()).await.unwrap().delayed()
    };
    assert_eq!(delayed().await, 1);
    assert_eq!(site.own("DELETE", &path, "").await.code, 200);
    assert_eq!(delayed().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_of_an_older_version_keep_their_ids() {
    let (world, site) = site("http-old-id").await;
    let partition = PartitionId::new(Topic::new("notes:mail").unwrap(), 1);
    let appended = world.store().commit(Commit::append(partition, NewMessage::new("old"))).await.unwrap();
    let position: MessageId = appended.appends[0].id().unwrap();
    let id = position.to_string().replace('-', "");
    let read = async || site.own("GET", QUEUE, "").await.json()["messages"][0].clone();
    assert_eq!(read().await["message_id"], id);
    assert_eq!(site.own("PUT", &format!("{QUEUE}/{id}"), "new").await.code, 200);
    assert_eq!((&read().await["message_id"], &read().await["body"]), (&json!(id), &json!("new")));
    assert_eq!(site.own("GET", &format!("{QUEUE}/{id}"), "").await.bodies(), ["new"]);
    assert_eq!(site.own("DELETE", &format!("{QUEUE}/{id}"), "").await.code, 200);
    assert!(site.own("GET", QUEUE, "").await.bodies().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_goes_on_after_a_message_that_was_delayed() {
    let (world, site) = site("http-marker").await;
    let due = Some(Ticks::now().plus(Duration::from_secs(1)));
    let late = put(&world, &site, NewMessage { due, ..NewMessage::new("late") }).await;
    site.post(QUEUE, 2, "a").await;
    let read =
        async |query: &str| site.own("GET", &format!("{QUEUE}?partitions=2&{query}"), "").await.bodies();
    eventually_async("it is due", async || (read("").await == ["a", "late"]).then_some(())).await;
    site.post(QUEUE, 2, "b").await;
    let id = late.id.unwrap();
    assert_eq!(read(&format!("after={id}")).await, ["b"]);
    assert_eq!(read(&format!("since={}&limit=1", id.hex())).await, ["late"]);
    assert_eq!(read(&format!("after={id}&order=descending")).await, ["a"]);
}
