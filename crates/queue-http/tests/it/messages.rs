//! Posting, reading, replacing and deleting messages.

use std::sync::Arc;

use menagerie_journal::client::Address;
use menagerie_journal::token::Token;
use menagerie_journal::{Client, NewMessage};
use menagerie_queues::Journals;
use menagerie_queues::Origin;
use menagerie_queues::admin::{Destination, Putter};
use menagerie_testkit::eventually_async;
use serde_json::{Value, json};

use crate::site::{Site, keys};
use crate::world::{JOURNAL, World};

const QUEUE: &str = "/v1/notes/mail";
const JSON: (&str, &str) = ("Content-Type", "application/json; charset=utf-8");

async fn site(name: &str, partitions: u16) -> (World, Site) {
    let world = World::new(name);
    let site = Site::new(&world).await;
    site.queue(&format!("queue_name=mail&partitions={partitions}")).await;
    (world, site)
}

#[tokio::test(flavor = "multi_thread")]
async fn one_message_is_the_body_itself() {
    let (_world, site) = site("http-post", 3).await;
    let posted =
        site.own_with("POST", QUEUE, &[("X-Partition", "2"), ("X-TTL", "60")], "grüße".as_bytes()).await;
    assert_eq!(posted.code, 201);
    let message = posted.json()["messages"][0].clone();
    assert_eq!(keys(&message), ["key", "partition", "timestamp"]);
    assert_eq!(message["partition"], 2);
    let read = site.own("GET", &format!("{QUEUE}?partitions=2"), "").await;
    let found = read.json()["messages"][0].clone();
    assert_eq!(keys(&found), ["body", "message_id", "partition", "timestamp"]);
    assert_eq!((&found["message_id"], &found["timestamp"]), (&message["key"], &message["timestamp"]));
    assert_eq!(found["body"], "grüße");
    let seconds = found["timestamp"].as_str().unwrap();
    assert_eq!(seconds.split_once('.').unwrap().1.len(), 7, "{seconds}");
    for (header, value, field, reason) in [
        ("X-TTL", "fred", "ttl", "\"fred\" is not a number"),
        ("X-TTL", "0", "ttl", "0 is less than minimum value 1"),
        ("X-TTL", "33554433", "ttl", "33554433 is greater than maximum value 33554432"),
        ("X-Partition", "4", "partition", "4 is greater than maximum value 3"),
        ("X-Partition", "0", "partition", "0 is less than minimum value 1"),
    ] {
        let refused = site.own_with("POST", QUEUE, &[(header, value)], b"x").await;
        assert_eq!((refused.code, refused.reason(field)), (400, reason.to_owned()));
    }
    assert_eq!(site.own("POST", QUEUE, "").await.reason("body"), "Required");
}

#[tokio::test(flavor = "multi_thread")]
async fn several_messages_are_all_or_none() {
    let (_world, site) = site("http-several", 2).await;
    let body = br#"{"messages":[{"body":"a","partition":2},{"body":"b","partition":1,"ttl":9},{"body":"c","partition":2}]}"#;
    let posted = site.own_with("POST", QUEUE, &[JSON], body).await;
    assert_eq!(posted.code, 201);
    let posted = posted.json();
    let partitions: Vec<&Value> =
        posted["messages"].as_array().unwrap().iter().map(|one| &one["partition"]).collect();
    assert_eq!(partitions, [2, 1, 2]);
    assert_eq!(site.own("GET", &format!("{QUEUE}?partitions=1,2"), "").await.bodies(), ["b", "a", "c"]);
    let wrong = br#"{"messages":[{"body":"d"},{"body":7,"ttl":"x"},{"body":"e","partition":3}]}"#;
    let refused = site.own_with("POST", QUEUE, &[JSON], wrong).await;
    assert_eq!(
        (refused.code, keys(&refused.json()["error_msg"])),
        (400, vec!["1.body".into(), "1.ttl".into(), "2.partition".into()])
    );
    // A client that sends a field counts on it.
    let unknown =
        br#"{"messages":[{"body":"f"},{"body":"g","delay":"10m","colour":{"deep":[1]}}],"priority":9}"#;
    let refused = site.own_with("POST", QUEUE, &[JSON], unknown).await;
    assert_eq!(
        (refused.code, keys(&refused.json()["error_msg"])),
        (400, vec!["1.colour".into(), "priority".into()])
    );
    assert!(refused.reason("1.colour").contains("delay or at, ttl, dedup"), "{refused:?}");
    for unreadable in [&b"{"[..], b"[]", b"{\"messages\":7}", b"", b"{}"] {
        let refused = site.own_with("POST", QUEUE, &[JSON], unreadable).await;
        assert_eq!(refused.reason("InvalidParameter"), "Unable to properly deserialize JSON body.");
    }
    let none = site.own_with("POST", QUEUE, &[JSON], br#"{"messages":[]}"#).await;
    assert_eq!((none.code, none.json()), (201, json!({"status": "ok", "messages": []})));
    assert_eq!(
        site.own("GET", &format!("{QUEUE}?partitions=1,2"), "").await.bodies().len(),
        3,
        "none was added"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_that_are_not_utf8_come_back_as_base64() {
    let (_world, site) = site("http-binary", 1).await;
    assert_eq!(site.own_with("POST", QUEUE, &[], b"\xff\x00").await.code, 201);
    let body = br#"{"messages":[{"body_base64":"/w=="}]}"#;
    assert_eq!(site.own_with("POST", QUEUE, &[JSON], body).await.code, 201);
    let read = site.own("GET", QUEUE, "").await.json();
    assert_eq!(
        (&read["messages"][0]["body_base64"], &read["messages"][1]["body_base64"]),
        (&json!("/wA="), &json!("/w=="))
    );
    assert_eq!(keys(&read["messages"][0]), ["body_base64", "message_id", "partition", "timestamp"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_are_read_by_partition_in_either_direction() {
    let (_world, site) = site("http-read", 3).await;
    let mut ids = Vec::new();
    for body in ["a", "b", "c", "d"] {
        ids.push(site.post(QUEUE, 1, body).await);
    }
    site.post(QUEUE, 3, "z").await;
    let read = async |query: &str| site.own("GET", &format!("{QUEUE}?{query}"), "").await.bodies().join("");
    assert_eq!(read("").await, "abcd");
    assert_eq!(read("partitions=3,1").await, "zabcd");
    assert_eq!(read("partitions=%203%20,1,9999,3").await, "zabcd", "unknown ones give nothing");
    assert_eq!(read("limit=2&partitions=1,3").await, "abz", "the limit is for each partition");
    assert_eq!(read("order=descending&limit=3").await, "dcb");
    assert_eq!(read(&format!("since={}", ids[1])).await, "bcd", "it is there itself");
    assert_eq!(read(&format!("since={}&order=descending", ids[1].to_uppercase())).await, "ba");
    assert_eq!(read(&format!("after={}", ids[1])).await, "cd");
    assert_eq!(read(&format!("after={}&order=descending", ids[1])).await, "a");
    let listed = site.own("GET", QUEUE, "").await.json();
    let time = listed["messages"][2]["timestamp"].as_str().unwrap();
    assert_eq!(read(&format!("since={time}")).await, "cd");
    assert_eq!(read("since=99999999999").await, "");
    assert_eq!(read("since=").await, "abcd");
    for (wrong, field) in [
        ("since=garbage", "since"),
        ("limit=0", "limit"),
        ("limit=1001", "limit"),
        ("order=sideways", "order"),
        ("partitions=one", "partitions"),
        ("after=1.0&since=1.0", "after"),
    ] {
        let refused = site.own("GET", &format!("{QUEUE}?{wrong}"), "").await;
        assert_eq!(refused.code, 400, "{wrong}");
        refused.reason(field);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_are_picked_by_their_ids() {
    let (_world, site) = site("http-pick", 12).await;
    let (one, twelve) = (site.post(QUEUE, 1, "one").await, site.post(QUEUE, 12, "twelve").await);
    let pick = async |ids: &str| site.own("GET", &format!("{QUEUE}/{ids}"), "").await;
    assert_eq!(pick(&one).await.bodies(), ["one"]);
    assert_eq!(pick(&format!("12:{twelve},{one}")).await.bodies(), ["twelve", "one"]);
    assert_eq!(pick(&format!("12%3A{twelve}")).await.bodies(), ["twelve"]);
    assert!(pick(&format!("2:{one}")).await.bodies().is_empty(), "missing ones are left out");
    assert!(pick("200:6ba7b8109dad11d180b400c04fd430c8").await.bodies().is_empty());
    for wrong in ["x", &format!("{one}0"), &"z".repeat(32), &format!("{one},"), &format!("1000:{one}")] {
        let refused = pick(wrong).await;
        assert_eq!(
            (refused.code, refused.reason("InvalidMessageID")),
            (400, "Invalid message id's.".into()),
            "{wrong}"
        );
    }
    let deleted = site.own("DELETE", &format!("{QUEUE}/12:{twelve},{}", "0".repeat(32)), "").await;
    assert_eq!((deleted.code, deleted.json()), (200, json!({"status": "ok"})));
    assert!(pick(&format!("12:{twelve}")).await.bodies().is_empty());
    assert_eq!(pick(&one).await.bodies(), ["one"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_malformed_id_is_refused_and_deletes_nothing() {
    let (_world, site) = site("http-delete", 2).await;
    let left = async || site.own("GET", &format!("{QUEUE}?partitions=1,2"), "").await.bodies().join("");
    let (a, b, c) =
        (site.post(QUEUE, 1, "a").await, site.post(QUEUE, 2, "b").await, site.post(QUEUE, 1, "c").await);
    let delete = async |ids: &str| site.own("DELETE", &format!("{QUEUE}/{ids}"), "").await;
    for wrong in ["nonsense", &format!("nonsense,{a}"), &format!("{a},"), &format!("{a}0"), "%20"] {
        let refused = delete(wrong).await;
        assert_eq!(
            (refused.code, refused.reason("InvalidMessageID")),
            (400, "Invalid message id's.".into()),
            "{wrong}"
        );
    }
    assert_eq!(left().await, "acb");
    // Ids without a message are no error.
    assert_eq!(delete(&format!("{a},{a},9:{c},{}", "0".repeat(32))).await.code, 200);
    assert_eq!(left().await, "cb");
    let many = delete(&vec![c.as_str(); 1_001].join(",")).await;
    assert_eq!(
        (many.code, many.reason("InvalidMessageID")),
        (400, "More than 1000 ids in one request.".into())
    );
    assert_eq!(left().await, "cb");
    assert_eq!(delete(&format!("2:{b},{c}")).await.code, 200);
    assert_eq!(left().await, "");
    // A missing id does not mean the queue.
    assert_eq!(delete("").await.code, 400);
    site.post(QUEUE, 1, "still there").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_body_is_put_under_several_ids_old_and_new_and_repeated() {
    let (_world, site) = site("http-put-several", 2).await;
    let id = site.post(QUEUE, 1, "first").await;
    let time = u32::from_str_radix(&id[..8], 16).unwrap();
    let at = |offset: u32| format!("{:08x}{}", time.wrapping_sub(1_000).wrapping_add(offset), &id[8..]);
    let (one, two) = (at(1), at(2));
    let ids = format!("2:{two},2:{one},{id},2:{two},{one}");
    let put = site.own("PUT", &format!("{QUEUE}/{ids}"), "same").await;
    assert_eq!((put.code, put.json()), (200, json!({"status": "ok"})));
    let read = site.own("GET", &format!("{QUEUE}?partitions=2,1"), "").await;
    assert_eq!(read.bodies(), ["same"; 4]);
    let read = read.json();
    let names: Vec<&Value> =
        read["messages"].as_array().unwrap().iter().map(|one| &one["message_id"]).collect();
    assert_eq!(names, [&json!(one), &json!(two), &json!(one), &json!(id)]);
    // Two ids with the same timestamp exclude each other, and then neither is stored.
    let foreign = |id: &str| format!("{}80b400c04fd430c8", &id[..16]);
    let both = format!("{},{}", at(3), foreign(&at(3)));
    assert_eq!(site.own("PUT", &format!("{QUEUE}/{both}"), "x").await.code, 409);
    assert_eq!(site.own("GET", QUEUE, "").await.bodies().len(), 2);
    let large = vec![b'x'; 9 << 20];
    let ids: Vec<String> = (10..14).map(at).collect();
    let refused = site.own_with("PUT", &format!("{QUEUE}/{}", ids.join(",")), &[], &large).await;
    assert_eq!(refused.code, 413);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_is_put_under_an_id_and_keeps_it() {
    let (_world, site) = site("http-put", 2).await;
    let id = site.post(QUEUE, 1, "first").await;
    let put = site.own("PUT", &format!("{QUEUE}/{id}"), "second").await;
    assert_eq!((put.code, put.json()), (200, json!({"status": "ok"})));
    let read = site.own("GET", QUEUE, "").await.json();
    assert_eq!(
        (&read["messages"][0]["message_id"], &read["messages"][0]["body"]),
        (&json!(id), &json!("second"))
    );
    // An id chosen by a client comes back with its clock sequence and node. The message lives from its timestamp on.
    let foreign = format!("{}80b400c04fd430c8", &id[..16]);
    let made = site.own_with("PUT", &format!("{QUEUE}/2:{foreign}"), &[("X-TTL", "3600")], b"mine").await;
    assert_eq!(made.code, 200);
    let read = site.own("GET", &format!("{QUEUE}/2:{foreign}"), "").await;
    assert_eq!(
        (read.bodies(), &read.json()["messages"][0]["message_id"]),
        (vec!["mine".to_owned()], &json!(foreign))
    );
    assert!(site.own("GET", &format!("{QUEUE}/2:{id}"), "").await.bodies().is_empty(), "that is another id");
    assert_eq!(site.own("DELETE", &format!("{QUEUE}/2:{id}"), "").await.code, 200);
    assert_eq!(site.own("GET", &format!("{QUEUE}?partitions=2"), "").await.bodies(), ["mine"]);
    assert_eq!(site.own("PUT", &format!("{QUEUE}/2:{id}"), "other").await.code, 409);
    for wrong in ["00000000000040008000000000000000".to_owned(), format!("3:{id}"), "f".repeat(32)] {
        assert_eq!(site.own("PUT", &format!("{QUEUE}/{wrong}"), "x").await.code, 400, "{wrong}");
    }
    let future = "ffffffffffff1fff80b400c04fd430c8";
    assert_eq!(site.own("PUT", &format!("{QUEUE}/{future}"), "x").await.code, 400);
    assert_eq!(site.own("PUT", &format!("{QUEUE}/{id}"), "").await.reason("body"), "Required");
}

#[tokio::test(flavor = "multi_thread")]
async fn posting_again_with_the_same_key_is_posting_once() {
    let (_world, site) = site("http-idempotent", 7).await;
    let key = ("Idempotency-Key", "order 66");
    let first = site.own_with("POST", QUEUE, &[key], b"x").await;
    let second = site.own_with("POST", QUEUE, &[key], b"x").await;
    assert_eq!((first.code, second.code, first.json()), (201, 201, second.json()));
    let several = br#"{"messages":[{"body":"a"},{"body":"b"}]}"#;
    let key = ("Idempotency-Key", "order 67");
    let first = site.own_with("POST", QUEUE, &[key, JSON], several).await.json();
    assert_eq!(first, site.own_with("POST", QUEUE, &[key, JSON], several).await.json());
    let counted = site.own("GET", "/v1/notes?include_count=1", "").await.json();
    assert_eq!(counted["queues"][0]["count"], 3);
    // The same key means something else for a single message and for a list.
    assert_eq!(site.own_with("POST", QUEUE, &[("Idempotency-Key", "order 67/0")], b"c").await.code, 201);
    let counted = site.own("GET", "/v1/notes?include_count=1", "").await.json();
    assert_eq!(counted["queues"][0]["count"], 4);
    let long = "k".repeat(201);
    let refused = site.own_with("POST", QUEUE, &[("Idempotency-Key", &long)], b"x").await;
    assert_eq!(refused.code, 400);
    // A message deleted since still counts as posted.
    let first = first["messages"][0].clone();
    let (id, partition) = (first["key"].as_str().unwrap(), first["partition"].as_u64().unwrap());
    assert_eq!(site.own("DELETE", &format!("{QUEUE}/{partition}:{id}"), "").await.code, 200);
    let again = site.own_with("POST", QUEUE, &[key, JSON], several).await.json();
    assert_eq!(again["messages"][0], first);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_line_and_http_see_the_same() {
    let (world, site) = site("http-parity", 2).await;
    let queue = "notes:mail".parse().unwrap();
    let mut putter =
        Putter::open(&site.session, &world.journals(), &queue, 0, Origin::library()).await.unwrap();
    putter.put(vec![(Destination::Partition(2), NewMessage::new("by hand"))]).await.unwrap();
    assert_eq!(site.own("GET", &format!("{QUEUE}?partitions=2"), "").await.bodies(), ["by hand"]);
    site.post(QUEUE, 2, "by http").await;
    let bodies: Vec<_> =
        world.messages("notes:mail", 2).await.into_iter().map(|message| message.body).collect();
    assert_eq!(bodies, ["by hand", "by http"]);
    world.create(&site.session, "tasks", 1).await;
    let public = site.own("GET", "/v1/default/tasks", "").await;
    assert_eq!(public.code, 403, "queues of the command line belong to the application default");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_expires_after_its_ttl() {
    let (_world, site) = site("http-ttl", 1).await;
    assert_eq!(site.own_with("POST", QUEUE, &[("X-TTL", "1")], b"brief").await.code, 201);
    assert_eq!(site.own_with("POST", QUEUE, &[("X-TTL", "3600")], b"long").await.code, 201);
    eventually_async("the brief one is gone", async || {
        (site.own("GET", QUEUE, "").await.bodies() == ["long"]).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_fail_at_once_while_the_journal_is_down() {
    let (world, site) = site("http-away", 1).await;
    let nobody = Address::plain("127.0.0.1:1", Token::new("x"));
    let journals = Journals::from([(JOURNAL.to_owned(), Arc::new(Client::new(nobody)) as _)]);
    let cut_off = Site::over(&world, journals).await;
    for (method, path) in [("POST", QUEUE), ("GET", QUEUE), ("DELETE", QUEUE)] {
        let answer = cut_off.own(method, path, "x").await;
        assert_eq!(answer.code, 500, "{method}");
        assert!(answer.reason("storage").contains("cannot reach the journal"), "{answer:?}");
    }
    assert_eq!(cut_off.own("GET", "/v1/notes", "").await.code, 200, "what needs no journal goes on");
    assert_eq!(cut_off.ask("GET", "/__heartbeat__", &[], b"").await.code, 200);
    assert_eq!(site.own("GET", QUEUE, "").await.code, 200);
}
