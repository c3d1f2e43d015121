//! What Queuey's clients rely on, point by point, where no other test covers it.

use std::time::Duration;

use menagerie_journal::MessageId;
use serde_json::{Value, json};

use crate::site::{KEY, OTHER_KEY, Site, keys};
use crate::world::{Log, World, options};

const QUEUE: &str = "/v1/notes/mail";
const JSON: (&str, &str) = ("Content-Type", "application/json");
/// Default time to live of a message.
const TTL: Duration = Duration::from_secs(259_200);

async fn site(name: &str, form: &str) -> (World, Site) {
    let world = World::new(name);
    let site = Site::new(&world).await;
    site.queue(&format!("queue_name=mail&{form}")).await;
    (world, site)
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_parameters_and_a_trailing_slash_are_ignored() {
    let (_world, site) = site("http-slash", "colour=blue").await;
    let json = br#"{"messages":[{"body":"a"}]}"#;
    assert_eq!(site.own_with("POST", &format!("{QUEUE}/"), &[JSON], json).await.code, 201);
    assert_eq!(site.own("GET", &format!("{QUEUE}/?colour=blue"), "").await.bodies(), ["a"]);
    assert_eq!(site.own("PUT", &format!("{QUEUE}/"), "colour=blue").await.code, 200);
    assert_eq!(site.own("GET", "/v1/notes/?colour=blue", "").await.code, 200);
    let id = site.post(QUEUE, 1, "b").await;
    assert_eq!(site.own("GET", &format!("{QUEUE}/{id}/"), "").await.bodies(), ["b"]);
    assert_eq!(site.own("PUT", &format!("{QUEUE}/{id}/"), "c").await.code, 200);
    assert_eq!(site.own("DELETE", &format!("{QUEUE}/{id}/"), "").await.code, 200);
    assert_eq!(site.own("GET", QUEUE, "").await.bodies(), ["a"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_have_one_shape() {
    let (_world, site) = site("http-shape", "").await;
    let wrong = site.ask("GET", QUEUE, &[("Authorization", "Application not-the-right-one")], b"").await;
    let expected =
        json!({"status": "error", "error_msg": {"InvalidApplicationKey": "Invalid application key"}});
    assert_eq!((wrong.code, wrong.json()), (401, expected));
    for (method, path, body, code) in [
        ("GET", "/v1/nobody", "", 404),
        ("GET", "/nowhere", "", 404),
        ("PATCH", QUEUE, "", 404),
        ("GET", "/v1/notes/none", "", 404),
        ("POST", QUEUE, "", 400),
        ("GET", "/v1/notes/mail/x", "", 400),
        ("POST", "/v1/notes", "partitions=0", 400),
    ] {
        let refused = site.own(method, path, body).await;
        assert_eq!((refused.code, refused.keys()), (code, vec!["error_msg".into(), "status".into()]));
        let reasons = refused.json()["error_msg"].clone();
        assert!(reasons.as_object().unwrap().values().all(Value::is_string), "{reasons}");
    }
    let denied = site.ask("POST", QUEUE, &[], b"x").await;
    assert_eq!(denied.reason("Forbidden"), "Access was denied to this resource.");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_without_a_name_is_named_by_a_version_4_uuid() {
    let (_world, site) = site("http-uuid4", "").await;
    for form in ["", "queue_name=", "queue_name=&partitions=2"] {
        let made = site.own("POST", "/v1/notes", form).await.json();
        let name = made["queue_name"].as_str().unwrap();
        assert_eq!((name.len(), &name[12..13]), (32, "4"), "{name}");
        assert!("89ab".contains(&name[16..17]) && u128::from_str_radix(name, 16).is_ok(), "{name}");
        assert_eq!(site.own("GET", &format!("/v1/notes/{name}"), "").await.code, 200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_include_what_the_client_asks_for() {
    let (_world, site) = site("http-list-all", "consistency=weak&type=public").await;
    site.queue("queue_name=news&principles=app:other").await;
    let first = async |query: &str| {
        let listed = site.own("GET", &format!("/v1/notes?{query}"), "").await;
        assert_eq!((listed.code, listed.keys()), (200, vec!["queues".into(), "status".into()]));
        listed.json()["queues"][0].clone()
    };
    for words in ["details=", "details=0", "details=False", "details=FALSE&include_count=0"] {
        assert_eq!(keys(&first(words).await), ["queue_name"], "{words}");
    }
    for words in ["details=1", "details=no", "details=None"] {
        assert_eq!(keys(&first(words).await).len(), 6, "{words}");
    }
    let counted = first("include_count=True").await;
    let all = ["application", "consistency", "count", "created", "partitions", "queue_name", "type"];
    assert_eq!(keys(&counted), all);
    assert_eq!((&counted["application"], &counted["count"]), (&json!("notes"), &json!(0)));
    assert_eq!(first("offset=mailbox").await["queue_name"], "news", "the first name that is not before it");
    for limit in ["1.5", "x", "-1"] {
        assert!(!site.own("GET", &format!("/v1/notes?limit={limit}"), "").await.reason("limit").is_empty());
    }
    // Naming the partitions, as Queuey's clients do, changes nothing else.
    assert_eq!(site.own("PUT", QUEUE, "partitions=1").await.code, 200);
    let after = first("details=1").await;
    assert_eq!((&after["consistency"], &after["type"]), (&json!("weak"), &json!("public")));
}

/// Both ways of counting agree.
#[tokio::test(flavor = "multi_thread")]
async fn counts_are_those_of_each_queue() {
    let (_world, site) = site("http-counts", "partitions=3").await;
    for (queue, count) in [("a", 0), ("b", 3), ("c", 1)] {
        site.queue(&format!("queue_name={queue}&partitions=3")).await;
        for number in 1..=count {
            site.post(&format!("/v1/notes/{queue}"), number, "x").await;
        }
    }
    let counted = site.own("GET", "/v1/notes?include_count=1&limit=3", "").await.json();
    let count = |index: usize| counted["queues"][index]["count"].as_u64().unwrap();
    assert_eq!([count(0), count(1), count(2)], [0, 3, 1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn by_default_a_message_lives_three_days_in_any_partition() {
    let (world, site) = site("http-defaults", "partitions=3").await;
    let mut used = Vec::new();
    for _ in 0..6 {
        let posted = site.own("POST", QUEUE, "x").await.json();
        used.push(posted["messages"][0]["partition"].as_u64().unwrap());
    }
    used.sort_unstable();
    used.dedup();
    assert_eq!(used, [1, 2, 3]);
    let json = br#"{"messages":[{"body":"y"}]}"#;
    assert_eq!(site.own_with("POST", QUEUE, &[JSON], json).await.code, 201);
    for partition in 1..=3 {
        for message in world.messages("notes:mail", partition).await {
            assert_eq!(message.expires.map(|end| end.since(message.id.0)), Some(TTL));
        }
    }
    for (header, value) in [("X-Partition", "fred"), ("X-TTL", "1.5"), ("X-TTL", "")] {
        let refused = site.own_with("POST", QUEUE, &[(header, value)], b"x").await;
        let field = header.trim_start_matches("X-").to_lowercase();
        assert_eq!((refused.code, refused.reason(&field)), (400, format!("\"{value}\" is not a number")));
    }
    for most in [("X-TTL", "33554432"), ("X-Partition", "3")] {
        assert_eq!(site.own_with("POST", QUEUE, &[most], b"x").await.code, 201);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timestamp_is_the_time_of_its_id() {
    let (_world, site) = site("http-time", "").await;
    let posted = site.own("POST", QUEUE, "x").await.json()["messages"][0].clone();
    let id = posted["key"].as_str().unwrap();
    let part = |range: std::ops::Range<usize>| u64::from_str_radix(&id[range], 16).unwrap();
    assert_eq!(&id[12..13], "1", "a UUID of version 1: {id}");
    // In steps of 100 ns since 15 October 1582.
    let ticks = (part(13..16) << 48 | part(8..12) << 32 | part(0..8)) - 0x01B2_1DD2_1381_4000;
    assert_eq!(posted["timestamp"], format!("{}.{:07}", ticks / 10_000_000, ticks % 10_000_000));
}

#[tokio::test(flavor = "multi_thread")]
async fn since_takes_ids_in_any_spelling() {
    let (_world, site) = site("http-since", "").await;
    let (first, second) = (site.post(QUEUE, 1, "a").await, site.post(QUEUE, 1, "b").await);
    let dashed = |id: &str| {
        format!("{}-{}-{}-{}-{}", &id[..8], &id[8..12], &id[12..16], &id[16..20], &id[20..]).to_uppercase()
    };
    let read = async |query: String| site.own("GET", &format!("{QUEUE}?{query}"), "").await.bodies();
    assert_eq!(read(format!("since={}", dashed(&first))).await, ["a", "b"]);
    assert_eq!(read(format!("after={}", dashed(&first))).await, ["b"]);
    assert_eq!(read(format!("since={second}&order=descending&limit=1")).await, ["b"]);
    // How queuey-py continues after a message.
    assert_eq!(read(format!("since={first}&limit=2")).await, ["a", "b"]);
    let later: MessageId = "99999999999.0".parse().unwrap();
    assert!(read(format!("since={later}")).await.is_empty(), "later than everything");
    for garbage in ["x", "%00", "1e3", "-1", "6ba7b810", &"f".repeat(32)] {
        let refused = site.own("GET", &format!("{QUEUE}?since={garbage}"), "").await;
        assert_eq!(refused.code, 400, "{garbage}");
        refused.reason("since");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_put_under_an_id_lives_from_the_ids_timestamp() {
    let (world, site) = site("http-put-ttl", "partitions=2").await;
    let id = site.post(QUEUE, 1, "x").await;
    assert_eq!(site.own("PUT", &format!("{QUEUE}/2:{id}"), "same").await.code, 200);
    let message = &world.messages("notes:mail", 2).await[0];
    assert_eq!(message.expires.map(|end| end.since(message.id.0)), Some(TTL));
    // From 1998.
    let old = "6ba7b8109dad11d180b400c04fd430c8";
    assert_eq!(site.own_with("PUT", &format!("{QUEUE}/{old}"), &[("X-TTL", "60")], b"late").await.code, 200);
    assert!(site.own("GET", &format!("{QUEUE}/{old}"), "").await.bodies().is_empty(), "its life is over");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_verb_refuses_a_deleted_queue_and_a_name_that_is_too_long() {
    let (_world, site) = site("http-gone", "").await;
    let id = site.post(QUEUE, 1, "x").await;
    assert_eq!(site.own("DELETE", QUEUE, "").await.code, 200);
    let long = format!("/v1/notes/{}", "x".repeat(51));
    for (queue, why) in [(QUEUE, "was not found."), (&long, "longer than 50 characters.")] {
        for (method, path) in [
            ("GET", queue.to_owned()),
            ("POST", queue.to_owned()),
            ("PUT", queue.to_owned()),
            ("DELETE", queue.to_owned()),
            ("GET", format!("{queue}/{id}")),
            ("PUT", format!("{queue}/{id}")),
            ("DELETE", format!("{queue}/{id}")),
        ] {
            let answer = site.own(method, &path, "x").await;
            assert_eq!(answer.code, 404, "{method} {path}");
            assert!(answer.reason("InvalidQueueName").ends_with(why), "{answer:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn permission_to_read_grants_no_more() {
    let (_world, site) = site("http-no-more", "type=public&principles=app:other").await;
    let id = site.post(QUEUE, 1, "x").await;
    let by = async |key: &str, method: &str, path: &str| {
        let authorization = format!("Application {key}");
        site.ask(method, path, &[("Authorization", &authorization)], b"x").await.code
    };
    let message = format!("{QUEUE}/{id}");
    for (method, path) in [("POST", QUEUE), ("PUT", QUEUE), ("DELETE", QUEUE), ("PUT", &message)] {
        assert_eq!(by(OTHER_KEY, method, path).await, 403, "{method} {path}");
        assert_eq!(site.ask(method, path, &[], b"x").await.code, 403, "{method} {path}");
    }
    assert_eq!(by(OTHER_KEY, "GET", "/v1/notes").await, 403);
    assert_eq!(site.ask("DELETE", &message, &[], b"").await.code, 403, "anonymous callers only read");
    assert_eq!(by(KEY, "DELETE", &message).await, 403, "only the principles may");
    for path in [QUEUE, &message] {
        assert_eq!(site.ask("GET", path, &[], b"").await.bodies(), ["x"]);
        assert_eq!(by(KEY, "GET", path).await, 200, "what is public is so for its owner, too");
    }
    assert_eq!(by(OTHER_KEY, "DELETE", &message).await, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_put_behind_the_workers_cursor_is_stored_but_not_delivered() {
    let (world, site) = site("http-behind", "").await;
    let first = site.post(QUEUE, 1, "a").await;
    site.post(QUEUE, 1, "b").await;
    let log = Log::default();
    let worker = world.start(&site.session, options("w1", &["notes:mail"]), log.task("w1"));
    world.drained(&site.session, "notes:mail", 1).await;
    let time = u32::from_str_radix(&first[..8], 16).unwrap();
    let behind = format!("{:08x}{}", time.wrapping_sub(1), &first[8..]);
    assert_eq!(site.own("PUT", &format!("{QUEUE}/{behind}"), "late").await.code, 200);
    assert_eq!(site.own("GET", &format!("{QUEUE}/{behind}"), "").await.bodies(), ["late"]);
    site.post(QUEUE, 1, "c").await;
    world.drained(&site.session, "notes:mail", 1).await;
    worker.finish().await;
    assert_eq!(log.bodies(), ["a", "b", "c"]);
    assert_eq!(site.own("GET", QUEUE, "").await.bodies(), ["late", "a", "b", "c"]);
}
