//! Long polls.

use std::sync::Arc;
use std::time::{Duration, Instant};

use menagerie_queue_http::keys::{self, Hash};
use menagerie_queues::admin::keys as stored;
use menagerie_testkit::{allow_files, eventually_async};
use menagerie_znodes::queues::Scope;
use tokio::task::{JoinHandle, JoinSet};

use crate::site::{Answer, KEY, Site, ask};
use crate::world::World;

const QUEUE: &str = "/v1/notes/mail";

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_reader_gets_the_message_when_it_is_posted() {
    let world = World::new("http-wait");
    let site = Arc::new(Site::new(&world).await);
    site.queue("queue_name=mail&partitions=3").await;
    let first = site.post(QUEUE, 2, "old").await;
    let waiting = {
        let site = site.clone();
        let path = format!("{QUEUE}?partitions=1,2,3&after={first}&wait=60");
        tokio::spawn(async move { site.own("GET", &path, "").await.bodies() })
    };
    // The reader gets the message whether it waits already or not.
    site.post(QUEUE, 3, "new").await;
    assert_eq!(waiting.await.unwrap(), ["new"]);
    let began = Instant::now();
    assert!(site.own("GET", &format!("{QUEUE}?wait=0.2"), "").await.bodies().is_empty());
    assert!(began.elapsed() >= Duration::from_millis(200));
    assert_eq!(site.own("GET", &format!("{QUEUE}?partitions=2&wait=60"), "").await.bodies(), ["old"]);
    assert_eq!(site.own("GET", &format!("{QUEUE}?wait=61"), "").await.code, 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_readers_wait_at_once() {
    // This process holds both ends of each connection.
    allow_files(3_000);
    let world = World::new("http-thousand");
    let site = Site::new(&world).await;
    site.queue("queue_name=mail&partitions=4").await;
    let address = site.address;
    let mut readers = JoinSet::new();
    for number in 0..1_000 {
        let partition = number % 4 + 1;
        readers.spawn(async move {
            let authorization = format!("Application {KEY}");
            let path = format!("{QUEUE}?partitions={partition}&wait=60");
            ask(address, "GET", &path, &[("Authorization", &authorization)], b"").await.bodies()
        });
    }
    // Meanwhile the server serves others.
    for partition in 1..=4 {
        assert_eq!(site.own("GET", "/v1/notes", "").await.code, 200);
        site.post(QUEUE, partition, "at last").await;
    }
    while let Some(bodies) = readers.join_next().await {
        assert_eq!(bodies.unwrap(), ["at last"]);
    }
}

/// Starts a long poll of the longest allowed time, and returns once it is open.
async fn reader(site: &Site, authorization: Option<String>) -> JoinHandle<Answer> {
    let address = site.address;
    let waiting = tokio::spawn(async move {
        let headers: Vec<(&str, &str)> =
            authorization.iter().map(|value| ("Authorization", value.as_str())).collect();
        ask(address, "GET", &format!("{QUEUE}?wait=60"), &headers, b"").await
    });
    eventually_async("it waits", async || (site.open_requests() == 1).then_some(())).await;
    waiting
}

#[tokio::test(flavor = "multi_thread")]
async fn deleting_a_queue_ends_its_long_polls() {
    let world = World::new("http-wait-deleted");
    let (site, second) = (Site::new(&world).await, Site::new(&world).await);
    for server in [&site, &second] {
        site.queue("queue_name=mail").await;
        let began = Instant::now();
        let waiting = reader(&site, Some(format!("Application {KEY}"))).await;
        assert_eq!(server.own("DELETE", QUEUE, "").await.code, 200);
        let answer = waiting.await.unwrap();
        assert_eq!(answer.reason("InvalidQueueName"), "Queue of that name was not found.");
        assert!(began.elapsed() < Duration::from_secs(50), "it need not wait to the end");
    }
    // A recreated queue has readers of its own.
    site.queue("queue_name=mail").await;
    let waiting = reader(&site, Some(format!("Application {KEY}"))).await;
    site.post(QUEUE, 1, "new").await;
    assert_eq!(waiting.await.unwrap().bodies(), ["new"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_revoked_during_a_long_poll_reads_nothing_more() {
    let world = World::new("http-wait-revoked");
    let site = Site::new(&world).await;
    site.queue("queue_name=mail").await;
    let key = keys::generate().unwrap();
    let hash = Hash::of(&key);
    let kept = keys::stored("notes", &hash, Scope::ALL.to_vec(), 0, None);
    assert!(stored::add(&site.session, &kept).await.unwrap());
    let authorization = format!("Application {key}");
    let waiting = reader(&site, Some(authorization.clone())).await;
    assert!(stored::revoke(&site.session, &hash.id()).await.unwrap());
    eventually_async("the key is refused", async || {
        let headers = [("Authorization", authorization.as_str())];
        (site.ask("GET", "/v1/notes", &headers, b"").await.code == 401).then_some(())
    })
    .await;
    site.post(QUEUE, 1, "secret").await;
    let answer = waiting.await.unwrap();
    // The rate limit for unknown keys may answer first.
    assert!([401, 429].contains(&answer.code), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_made_private_is_closed_to_readers_that_wait() {
    let world = World::new("http-wait-private");
    let site = Site::new(&world).await;
    site.queue("queue_name=mail&type=public").await;
    let waiting = reader(&site, None).await;
    assert_eq!(site.own("PUT", QUEUE, "type=user").await.code, 200);
    eventually_async("it is private", async || {
        (site.ask("GET", QUEUE, &[], b"").await.code == 403).then_some(())
    })
    .await;
    site.post(QUEUE, 1, "secret").await;
    assert_eq!(waiting.await.unwrap().code, 403);
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_that_disconnect_leave_nothing_behind() {
    let world = World::new("http-wait-gone");
    let site = Site::new(&world).await;
    site.queue("queue_name=mail").await;
    let waiting = reader(&site, Some(format!("Application {KEY}"))).await;
    waiting.abort();
    eventually_async("it is forgotten", async || (site.open_requests() == 0).then_some(())).await;
}
