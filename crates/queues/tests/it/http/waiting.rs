//! Readers that wait.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use super::{KEY, Site, ask};
use crate::world::World;

const QUEUE: &str = "/v1/notes/mail";

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_waits_has_the_message_when_it_is_there() {
    let world = World::new("http-wait");
    let site = Arc::new(Site::new(&world).await);
    site.queue("queue_name=mail&partitions=3").await;
    let first = site.post(QUEUE, 2, "old").await;
    let waiting = {
        let site = site.clone();
        let path = format!("{QUEUE}?partitions=1,2,3&after={first}&wait=60");
        tokio::spawn(async move { site.own("GET", &path, "").await.bodies() })
    };
    // Whether it waits already or not: it has the message.
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
    // Others are served meanwhile.
    for partition in 1..=4 {
        assert_eq!(site.own("GET", "/v1/notes", "").await.code, 200);
        site.post(QUEUE, partition, "at last").await;
    }
    while let Some(bodies) = readers.join_next().await {
        assert_eq!(bodies.unwrap(), ["at last"]);
    }
}
