//! Two servers, one of them killed while clients post.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use menagerie_testkit::eventually;
use serde_json::Value;

use super::{Client, Server};
use crate::queues::Fleet;

const PARTITIONS: u64 = 3;
const POSTERS: usize = 8;

/// What was answered with 201: body, partition, id. By client, in order.
type Answered = Vec<(String, u64, String)>;

#[test]
fn every_answered_post_is_there_once_and_in_order_although_a_server_is_killed() {
    let fleet = Fleet::new("http-storm");
    let key = fleet.user.ok(&["queue", "key", "add", "notes", "--admin"]).trim().to_owned();
    let (mut doomed, survivor) = (Server::start(&fleet.user, &[]), Server::start(&fleet.user, &[]));
    let form = format!("queue_name=mail&partitions={PARTITIONS}");
    assert_eq!(doomed.ask(&key, "POST", "/v1/notes", &form).0, 201);
    let (stop, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let answered: Arc<Mutex<Vec<Answered>>> = Arc::default();
    let posters: Vec<_> = (0..POSTERS)
        .map(|poster| {
            let (key, stop, count, answered) = (key.clone(), stop.clone(), count.clone(), answered.clone());
            let servers = [doomed.address, survivor.address];
            thread::spawn(move || {
                let posted = post(poster, servers, &key, &stop, &count);
                answered.lock().expect("nobody panics").push(posted);
            })
        })
        .collect();
    let reached = |number: usize| {
        eventually("messages are posted", || (count.load(Ordering::Relaxed) >= number).then_some(()));
    };
    reached(400);
    doomed.process.kill();
    let now = count.load(Ordering::Relaxed);
    reached(now + 400);
    stop.store(true, Ordering::Relaxed);
    for poster in posters {
        poster.join().expect("nobody panics");
    }
    check(&survivor, &key, &answered.lock().expect("nobody panics"));
}

/// Posts one after the other, to the other server when one is gone; with an idempotency key, so that a post whose
/// response was lost can be retried.
fn post(
    poster: usize,
    servers: [SocketAddr; 2],
    key: &str,
    stop: &AtomicBool,
    count: &AtomicUsize,
) -> Answered {
    let mut answered = Vec::new();
    let mut server = poster % 2;
    let mut client = Client::open(servers[server], key).ok();
    for number in 0.. {
        let body = format!("{poster}-{number}");
        let headers = format!("X-Partition: {}\r\nIdempotency-Key: {body}\r\n", number % PARTITIONS + 1);
        loop {
            let asked = client.as_mut().map(|client| client.ask("POST", "/v1/notes/mail", &headers, &body));
            match asked {
                Some(Ok((201, reply))) => {
                    let message = &reply["messages"][0];
                    let id = message["key"].as_str().expect("it has an id").to_owned();
                    answered.push((body, message["partition"].as_u64().expect("a number"), id));
                    count.fetch_add(1, Ordering::Relaxed);
                    break;
                }
                Some(Ok(other)) => panic!("{other:?}"),
                Some(Err(_)) | None => {
                    server = 1 - server;
                    client = Client::open(servers[server], key).ok();
                }
            }
        }
        if stop.load(Ordering::Relaxed) {
            break;
        }
    }
    answered
}

fn check(server: &Server, key: &str, answered: &[Answered]) {
    let mut found: BTreeMap<String, (u64, String)> = BTreeMap::new();
    let mut order: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    for partition in 1..=PARTITIONS {
        let (code, read) = server.ask(key, "GET", &format!("/v1/notes/mail?partitions={partition}"), "");
        assert_eq!(code, 200);
        let messages = read["messages"].as_array().expect("a list");
        let text = |message: &Value, field: &str| message[field].as_str().expect("a text").to_owned();
        let times: Vec<String> = messages.iter().map(|message| text(message, "timestamp")).collect();
        assert!(times.is_sorted(), "partition {partition} is in order");
        assert_eq!(times.iter().collect::<BTreeSet<_>>().len(), times.len(), "no id is there twice");
        for message in messages {
            let (body, id) = (text(message, "body"), text(message, "message_id"));
            order.entry(partition).or_default().push(body.clone());
            assert_eq!(found.insert(body.clone(), (partition, id)), None, "{body} is there twice");
        }
    }
    assert_eq!(answered.iter().map(Vec::len).sum::<usize>(), found.len());
    for (body, partition, id) in answered.iter().flatten() {
        assert_eq!(found.get(body), Some(&(*partition, id.clone())), "{body}");
    }
    // A client that posts sequentially finds its messages in that order.
    for bodies in order.values() {
        let mut last: BTreeMap<&str, u64> = BTreeMap::new();
        for body in bodies {
            let (poster, number) = body.split_once('-').expect("a poster and a number");
            let number = number.parse().expect("a number");
            assert!(
                last.insert(poster, number).is_none_or(|before| before < number),
                "{body} is out of order"
            );
        }
    }
}
