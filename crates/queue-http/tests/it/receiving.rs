//! Receiving messages, and saying what became of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use menagerie_kernel::State;
use menagerie_queue_http::keys::{self, Hash};
use menagerie_queue_http::receive::workers::ReceiveOptions;
use menagerie_queue_http::service::Options;
use menagerie_queues::admin::{self, Change, HandlingChange, keys as stored};
use menagerie_testkit::eventually_async;
use menagerie_znodes::queues::{Order, Pause, QueueName, Scope};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::site::{Answer, OTHER_KEY, Site, keys};
use crate::watched::Watched;
use crate::world::{LONG, Log, World, options};

const QUEUE: &str = "/v1/notes/mail";
const NAME: &str = "notes:mail";

async fn site(name: &str, partitions: u16) -> (World, Site) {
    let world = World::new(name);
    let site = Site::new(&world).await;
    site.queue(&format!("queue_name=mail&partitions={partitions}")).await;
    (world, site)
}

async fn say(site: &Site, verb: &str, body: Value) -> Answer {
    site.own("POST", &format!("{QUEUE}/{verb}"), &body.to_string()).await
}

async fn receive(site: &Site, body: Value) -> Vec<Value> {
    let answer = say(site, "receive", body).await;
    assert_eq!(answer.code, 200, "{answer:?}");
    answer.json()["messages"].as_array().unwrap().clone()
}

/// Receives one message, whatever that takes.
async fn receive_one(site: &Site) -> Value {
    receive(site, json!({"wait": 60})).await.pop().expect("there is one")
}

fn receipt(message: &Value) -> &str {
    message["receipt"].as_str().unwrap()
}

async fn ack(site: &Site, message: &Value) -> Answer {
    say(site, "ack", json!({"receipts": [receipt(message)]})).await
}

/// Why the first receipt of a request is refused.
fn refusal(answer: &Answer) -> String {
    assert_eq!(answer.code, 409, "{answer:?}");
    answer.reason("receipts.0")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_is_received_acknowledged_and_done() {
    let (world, site) = site("http-receive", 1).await;
    let id = site.post(QUEUE, 1, "hello").await;
    let message = receive_one(&site).await;
    let all = ["attempt", "body", "message_id", "partition", "receipt", "timestamp"];
    assert_eq!(keys(&message), all);
    assert_eq!((&message["body"], &message["message_id"]), (&json!("hello"), &json!(id)));
    assert_eq!((&message["attempt"], &message["partition"]), (&json!(1), &json!(1)));
    assert!(receive(&site, json!({})).await.is_empty(), "it is invisible to others");
    let done = ack(&site, &message).await;
    assert_eq!((done.code, done.json()), (200, json!({"status": "ok"})));
    world.drained(&site.session, NAME, 1).await;
    for verb in ["ack", "nack", "extend"] {
        let twice = say(&site, verb, json!({"receipts": [receipt(&message)]})).await;
        assert_eq!(refusal(&twice), "it was used already", "{verb}");
    }
    // What runs, and how it ended, is told a moment later.
    eventually_async("its state is known", async || {
        let state = site.own("GET", &format!("{QUEUE}/messages/{id}"), "").await.json();
        (state["message"]["state"] == "done").then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_of_a_partition_come_in_order_one_at_a_time() {
    let (world, site) = site("http-receive-order", 2).await;
    for (partition, body) in [(1, "a"), (1, "b"), (2, "z"), (1, "c")] {
        site.post(QUEUE, partition, body).await;
    }
    let mut seen = Vec::new();
    while seen.len() < 4 {
        let messages = receive(&site, json!({"max": 100, "wait": 60})).await;
        let mut partitions: Vec<_> = messages.iter().map(|message| message["partition"].as_u64()).collect();
        partitions.dedup();
        assert_eq!(partitions.len(), messages.len(), "one of each partition: {messages:?}");
        let receipts: Vec<&str> = messages.iter().map(receipt).collect();
        assert_eq!(say(&site, "ack", json!({"receipts": receipts})).await.code, 200);
        seen.extend(messages.iter().map(|message| message["body"].as_str().unwrap().to_owned()));
    }
    seen.retain(|body| body != "z");
    assert_eq!(seen, ["a", "b", "c"]);
    world.drained(&site.session, NAME, 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_refused_comes_again_and_what_is_refused_for_good_has_failed() {
    let (world, site) = site("http-nack", 1).await;
    let id = site.post(QUEUE, 1, "x").await;
    let first = receive_one(&site).await;
    let refused = say(&site, "nack", json!({"receipts": [receipt(&first)], "error": "not today"})).await;
    assert_eq!(refused.code, 200);
    let second = receive_one(&site).await;
    assert_eq!((&second["attempt"], &second["message_id"]), (&json!(2), &json!(id)));
    assert_ne!(receipt(&first), receipt(&second));
    assert_eq!(refusal(&ack(&site, &first).await), "it was used already");
    let for_good = json!({"receipts": [receipt(&second)], "error": "never", "retry": false});
    assert_eq!(say(&site, "nack", for_good).await.code, 200);
    eventually_async("it has failed", async || {
        let state = site.own("GET", &format!("{QUEUE}/messages/{id}"), "").await.json();
        (state["message"]["state"] == "failed").then_some(())
    })
    .await;
    let queue: QueueName = NAME.parse().unwrap();
    let failed = admin::failed::FailedMessages::open(&site.session, &world.journals(), &queue).await.unwrap();
    let failed = failed.after(menagerie_journal::MessageId::ZERO, 9).await.unwrap();
    let record = failed[0].record.as_ref().unwrap();
    assert_eq!((record.error.as_str(), record.attempts), ("never", 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_nobody_acknowledges_comes_again() {
    let (_world, site) = site("http-late", 1).await;
    site.post(QUEUE, 1, "x").await;
    let late = receive(&site, json!({"wait": 60, "visible_after": 1})).await.remove(0);
    // Others wait for it.
    let again = receive_one(&site).await;
    assert_eq!(again["attempt"], 2);
    assert_eq!(refusal(&ack(&site, &late).await), "its time has passed, and the message comes again");
    // An extension counts from now on: with one of a second, it comes back long before its first time ends.
    let began = Instant::now();
    let longer = json!({"receipts": [receipt(&again)], "visible_after": "1s"});
    assert_eq!(say(&site, "extend", longer).await.code, 200);
    assert_eq!(receive_one(&site).await["attempt"], 3);
    assert!(began.elapsed() < Duration::from_secs(25), "the default is 30 s");
}

#[tokio::test(flavor = "multi_thread")]
async fn receipts_are_accepted_one_by_one() {
    let (_world, site) = site("http-mixed", 1).await;
    site.post(QUEUE, 1, "x").await;
    let message = receive_one(&site).await;
    for (body, field) in [
        (json!({"receipts": [receipt(&message), "nonsense"]}), "receipts.1"),
        (json!({"receipts": []}), "receipts"),
        (json!({}), "receipts"),
        (json!({"receipts": [receipt(&message)], "colour": 1}), "colour"),
    ] {
        let refused = say(&site, "ack", body).await;
        assert_eq!(refused.code, 400, "{refused:?}");
        refused.reason(field);
    }
    let twice = say(&site, "ack", json!({"receipts": [receipt(&message), receipt(&message)]})).await;
    assert_eq!((twice.code, twice.reason("receipts.1")), (409, "it was used already".into()));
    assert_eq!(keys(&twice.json()["error_msg"]), ["receipts.1"], "the first was accepted");
    for (body, field) in [
        (json!({"max": 0}), "max"),
        (json!({"max": 101}), "max"),
        (json!({"wait": 61}), "wait"),
        (json!({"visible_after": 0}), "visible_after"),
        (json!({"visible_after": "13h"}), "visible_after"),
        (json!({"limit": 1}), "limit"),
    ] {
        let refused = say(&site, "receive", body).await;
        assert_eq!(refused.code, 400, "{field}");
        refused.reason(field);
    }
    let large = format!("{{\"receipts\":[\"{}\"]}}", "x".repeat(300 << 10));
    assert_eq!(site.own("POST", &format!("{QUEUE}/ack"), &large).await.code, 413);
}

#[tokio::test(flavor = "multi_thread")]
async fn handling_needs_a_key_that_reads_and_writes() {
    let (_world, site) = site("http-handle-keys", 1).await;
    site.queue("queue_name=open&type=public").await;
    let mut codes = Vec::new();
    for scopes in [vec![Scope::Read], vec![Scope::Write], vec![Scope::Read, Scope::Write]] {
        let key = keys::generate().unwrap();
        let kept = keys::stored("notes", &Hash::of(&key), scopes, 0, None);
        assert!(stored::add(&site.session, &kept).await.unwrap());
        let authorization = format!("Bearer {key}");
        let headers = [("Authorization", authorization.as_str())];
        codes.push(site.ask("POST", &format!("{QUEUE}/receive"), &headers, b"").await.code);
    }
    assert_eq!(codes, [403, 403, 200]);
    let other = format!("Application {OTHER_KEY}");
    for queue in ["mail", "open"] {
        for verb in ["receive", "ack", "nack", "extend"] {
            let path = format!("/v1/notes/{queue}/{verb}");
            assert_eq!(site.ask("POST", &path, &[], b"").await.code, 403, "{path}");
            assert_eq!(site.ask("POST", &path, &[("Authorization", &other)], b"").await.code, 403, "{path}");
        }
    }
    for verb in ["receive", "ack", "nack", "extend"] {
        assert_eq!(site.own("POST", &format!("/v1/notes/none/{verb}"), "").await.code, 404);
        for method in ["GET", "PUT", "DELETE"] {
            assert_eq!(site.own(method, &format!("{QUEUE}/{verb}"), "").await.code, 404, "{method} {verb}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn receipts_end_with_the_server_that_gave_them() {
    let (world, first) = site("http-receive-failover", 1).await;
    let second = Site::new(&world).await;
    first.post(QUEUE, 1, "x").await;
    let before = receive_one(&first).await;
    // Another server does not know it, whether the first is alive or not.
    assert!(refusal(&ack(&second, &before).await).contains("another server has given it"));
    // The first one dies, as ZooKeeper sees it; the second gets the partition and the message.
    first.session.close().await;
    let after = receive_one(&second).await;
    assert_eq!((&after["message_id"], &after["attempt"]), (&before["message_id"], &json!(2)));
    assert!(refusal(&ack(&second, &before).await).contains("another server has given it"));
    assert_eq!(ack(&second, &after).await.code, 200);
    world.drained(&second.session, NAME, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_has_lost_the_partition_refuses_its_own_receipts() {
    let (world, site) = site("http-receive-lost", 1).await;
    site.post(QUEUE, 1, "x").await;
    let before = receive_one(&site).await;
    // Somebody takes the lock away.
    let term = site.session.term();
    let lock = menagerie_znodes::queues::lock(&"notes:mail-1".parse().unwrap());
    for contender in term.children(lock.path()).await.unwrap() {
        term.delete(&format!("{}/{contender}", lock.path()), None).await.unwrap();
    }
    eventually_async("it is refused", async || {
        let answer = say(&site, "extend", json!({"receipts": [receipt(&before)]})).await;
        (answer.code == 409).then(|| refusal(&answer))
    })
    .await;
    let after = receive_one(&site).await;
    assert_eq!(after["message_id"], before["message_id"]);
    assert!(refusal(&ack(&site, &before).await).contains("partition was lost"));
    assert_eq!(ack(&site, &after).await.code, 200);
    world.drained(&site.session, NAME, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_get_the_partitions_back_when_nobody_receives() {
    let world = World::new("http-receive-idle");
    let receive_options = ReceiveOptions { idle: Duration::from_millis(300), ..ReceiveOptions::default() };
    let options_of = Options { receive: receive_options, ..Options::default() };
    let site = Site::start(&world, world.journals(), options_of).await;
    site.queue("queue_name=mail&partitions=4").await;
    for partition in 1..=4 {
        for number in 1..=2 {
            site.post(QUEUE, partition, &format!("{partition}/{number}")).await;
        }
    }
    let message = receive_one(&site).await;
    let log = Log::default();
    let worker = world.start(&site.session, options("w1", &[NAME]), log.task("w1"));
    let workers = admin::show::workers(&site.session).await.unwrap();
    assert!(workers.iter().any(|entry| entry.worker.as_str().contains("-http-")), "{workers:?}");
    assert_eq!(ack(&site, &message).await.code, 200);
    worker.has(4).await;
    world.drained(&site.session, NAME, 4).await;
    let mut bodies = log.bodies();
    bodies.sort();
    let handled = message["body"].as_str().unwrap();
    let all = (1..=4).flat_map(|partition| [format!("{partition}/1"), format!("{partition}/2")]);
    assert_eq!(bodies, all.filter(|body| body != handled).collect::<Vec<_>>(), "each of them once");
    eventually_async("its worker is gone", async || {
        let workers = admin::show::workers(&site.session).await.unwrap();
        (workers.len() == 1).then_some(())
    })
    .await;
    worker.finish().await;
    // Whoever receives again gets a new one.
    site.post(QUEUE, 1, "again").await;
    assert_eq!(receive_one(&site).await["body"], "again");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_received_from_a_paused_queue() {
    let (_world, site) = site("http-receive-paused", 1).await;
    site.post(QUEUE, 1, "a").await;
    let first = receive_one(&site).await;
    site.post(QUEUE, 1, "b").await;
    let scope = admin::Scope::Queue(NAME.parse().unwrap());
    admin::pause(&site.session, &scope, &Pause { by: "me".into(), reason: None }).await.unwrap();
    assert_eq!(ack(&site, &first).await.code, 200, "what is out can be finished");
    // The server hears of the pause a moment later, and may have taken the next one before.
    eventually_async("nothing is received", async || {
        let received = receive(&site, json!({"wait": 0.5})).await;
        for early in &received {
            ack(&site, early).await;
            site.post(QUEUE, 1, "b").await;
        }
        received.is_empty().then_some(())
    })
    .await;
    let address = site.address;
    let waiting = tokio::spawn(async move {
        let authorization = format!("Application {}", crate::site::KEY);
        let path = format!("{QUEUE}/receive");
        crate::site::ask(address, "POST", &path, &[("Authorization", &authorization)], br#"{"wait":60}"#)
            .await
    });
    admin::resume(&site.session, &scope).await.unwrap();
    assert_eq!(waiting.await.unwrap().bodies(), ["b"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_what_somebody_has_received_runs_and_a_paused_worker_gives_no_more() {
    let (world, site) = site("http-receive-runs", 2).await;
    let ids = [site.post(QUEUE, 1, "a").await, site.post(QUEUE, 2, "b").await];
    let received = receive_one(&site).await;
    let index = usize::from(received["body"] == "b");
    let state_of = async |id: &str| {
        let answer = site.own("GET", &format!("{QUEUE}/messages/{id}"), "").await.json();
        answer["message"]["state"].as_str().unwrap().to_owned()
    };
    eventually_async("it runs", async || (state_of(&ids[index]).await == "running").then_some(())).await;
    assert_eq!(state_of(&ids[1 - index]).await, "waiting", "the server has it, and nobody has received it");
    let queue: QueueName = NAME.parse().unwrap();
    let view = admin::show::show(&site.session, &world.journals(), &queue).await.unwrap();
    let owner = view.partitions[0].owner.clone().unwrap();
    let scope = admin::Scope::Worker(owner);
    admin::pause(&site.session, &scope, &Pause { by: "me".into(), reason: None }).await.unwrap();
    eventually_async("the server has heard of the pause", async || {
        let received = receive(&site, json!({"wait": 0.1})).await;
        let receipts: Vec<&str> = received.iter().map(receipt).collect();
        if !receipts.is_empty() {
            say(&site, "nack", json!({"receipts": receipts})).await;
        }
        receipts.is_empty().then_some(())
    })
    .await;
    assert!(receive(&site, json!({"wait": 1})).await.is_empty());
    admin::resume(&site.session, &scope).await.unwrap();
    assert_eq!(ack(&site, &received).await.code, 200);
    assert_eq!(ack(&site, &receive_one(&site).await).await.code, 200);
    world.drained(&site.session, NAME, 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn deleting_a_queue_ends_its_receives() {
    let (_world, site) = site("http-receive-deleted", 1).await;
    let address = site.address;
    let waiting = tokio::spawn(async move {
        let authorization = format!("Application {}", crate::site::KEY);
        let path = format!("{QUEUE}/receive");
        crate::site::ask(address, "POST", &path, &[("Authorization", &authorization)], br#"{"wait":3}"#).await
    });
    eventually_async("it waits", async || (site.open_requests() == 1).then_some(())).await;
    assert_eq!(site.own("DELETE", QUEUE, "").await.code, 200);
    assert_eq!(waiting.await.unwrap().code, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn several_clients_share_a_queue_and_each_message_is_handled_once() {
    let (world, site) = site("http-receive-many", 4).await;
    for number in 0..40_u16 {
        site.post(QUEUE, number % 4 + 1, &number.to_string()).await;
    }
    let (site, count) = (Arc::new(site), Arc::new(AtomicUsize::new(0)));
    let mut clients = JoinSet::new();
    for _ in 0..5 {
        let (site, count) = (site.clone(), count.clone());
        clients.spawn(async move {
            let mut handled = Vec::new();
            while count.load(Ordering::Relaxed) < 40 {
                for message in receive(&site, json!({"max": 3, "wait": 0.2})).await {
                    assert_eq!(message["attempt"], 1);
                    assert_eq!(ack(&site, &message).await.code, 200);
                    handled.push(message["body"].as_str().unwrap().parse::<u16>().unwrap());
                    count.fetch_add(1, Ordering::Relaxed);
                }
            }
            handled
        });
    }
    let mut all = clients.join_all().await.concat();
    world.drained(&site.session, NAME, 4).await;
    all.sort_unstable();
    assert_eq!(all, (0..40).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_that_is_received_from_is_read_ahead_by_its_share_of_the_memory() {
    let world = World::new("http-receive-share");
    let (journal, site) = Watched::site(&world).await;
    site.queue("queue_name=mail&partitions=1").await;
    // Such queues are read ahead furthest.
    let handling = HandlingChange { order: Some(Order::None), ..HandlingChange::default() };
    let change = Change { handling, ..Change::default() };
    admin::change(&site.session, &world.journals(), &NAME.parse().unwrap(), &change).await.unwrap();
    site.post(QUEUE, 1, "x").await;
    let message = receive_one(&site).await;
    assert_eq!(ack(&site, &message).await.code, 200);
    assert_eq!(journal.largest_read(), 4 << 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_acknowledged_while_it_cannot_be_recorded() {
    let world = World::new("http-receive-cut-off");
    let (session, zookeeper) = world.session_through_proxy(LONG).await;
    let site = Site::start_in(session, world.journals(), Options::default()).await;
    site.queue("queue_name=mail&partitions=1").await;
    site.post(QUEUE, 1, "x").await;
    let message = receive_one(&site).await;
    zookeeper.cut();
    let mut state = site.session.term().state();
    state.wait_for(|state| *state == State::Suspended).await.unwrap();
    let refused = ack(&site, &message).await;
    assert_eq!((refused.code, refused.reason("storage")), (500, "ZooKeeper does not answer".into()));
}
