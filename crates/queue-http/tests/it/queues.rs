//! Creating, listing, changing and deleting queues.

use serde_json::json;

use crate::site::{Site, keys};
use crate::world::World;

#[tokio::test(flavor = "multi_thread")]
async fn heartbeat_answers_anybody() {
    let world = World::new("http-heartbeat");
    let site = Site::new(&world).await;
    for (method, path) in [
        ("GET", "/__heartbeat__"),
        ("HEAD", "/__heartbeat__"),
        ("POST", "/__heartbeat__"),
        ("GET", "/__heartbeat__/"),
    ] {
        let answer = site.ask(method, path, &[], b"").await;
        assert_eq!(answer.code, 200);
        assert!(answer.head.contains("text/plain"));
        assert_eq!(answer.body, if method == "HEAD" { &b""[..] } else { b"OK" });
    }
    let document = site.ask("GET", "/openapi.json", &[], b"").await;
    assert_eq!((document.code, &document.json()["openapi"]), (200, &json!("3.1.0")));
}

#[tokio::test(flavor = "multi_thread")]
async fn queues_are_created_with_the_given_settings_and_defaults() {
    let world = World::new("http-make");
    let site = Site::new(&world).await;
    let made = site.own("POST", "/v1/notes", "").await;
    assert_eq!(made.code, 201);
    assert_eq!(made.keys(), ["consistency", "partitions", "principles", "queue_name", "status", "type"]);
    let plain = made.json();
    assert_eq!(
        (&plain["partitions"], &plain["type"], &plain["consistency"], &plain["principles"]),
        (&json!(1), &json!("user"), &json!("strong"), &json!(null))
    );
    let name = plain["queue_name"].as_str().unwrap();
    assert!(name.len() == 32 && name.bytes().all(|byte| byte.is_ascii_hexdigit()), "{name}");
    let form = "queue_name=mail&partitions=3&type=public&consistency=weak&principles=app:other,bid:a.b@x.org";
    let made = site.own("POST", "/v1/notes/", form).await.json();
    let wanted = json!({"status": "ok", "queue_name": "mail", "partitions": 3, "type": "public",
        "consistency": "weak", "principles": "app:other,bid:a.b@x.org"});
    assert_eq!(made, wanted);
    // A JSON body is ignored here.
    let json = site
        .own_with("POST", "/v1/notes", &[("Content-Type", "application/json")], br#"{"partitions": 9}"#)
        .await;
    assert_eq!((json.code, &json.json()["partitions"]), (201, &json!(1)));
    // Creating an existing queue changes it, except for its partitions.
    let again = site.own("POST", "/v1/notes", "queue_name=mail&partitions=3&consistency=strong").await;
    assert_eq!(
        (again.code, &again.json()["consistency"], &again.json()["type"]),
        (201, &json!("strong"), &json!("public"))
    );
    let more = site.own("POST", "/v1/notes", "queue_name=mail&partitions=5&type=user").await;
    assert_eq!(more.code, 409);
    let why = more.reason("InvalidUpdate");
    assert!(
        why.contains("3 partitions, not 5") && why.contains("queue alter notes:mail --partitions 5"),
        "{why}"
    );
    let again = site.own("POST", "/v1/notes", "queue_name=mail").await.json();
    assert_eq!((&again["partitions"], &again["type"]), (&json!(3), &json!("public")), "nothing was changed");
    let fewer = site.own("POST", "/v1/notes", "queue_name=mail&partitions=2").await;
    assert_eq!(
        (fewer.code, fewer.reason("InvalidUpdate")),
        (409, "Partitions can only be increased.".into())
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_settings_are_refused_by_field() {
    let world = World::new("http-refuse");
    let site = Site::new(&world).await;
    let long = format!("queue_name={}", "x".repeat(51));
    for (form, field, reason) in [
        ("partitions=201", "partitions", "201 is greater than maximum value 200"),
        ("partitions=0", "partitions", "0 is less than minimum value 1"),
        ("partitions=fred", "partitions", "\"fred\" is not a number"),
        ("type=secret", "type", "not one of"),
        ("consistency=some", "consistency", "not one of"),
        ("principles=queen", "principles", "not a principle"),
        ("queue_name=a%2Fb", "queue_name", "must not contain '/'"),
        ("queue_name=mail.failed", "queue_name", ".failed"),
        (&long, "queue_name", "longer than 50"),
    ] {
        let refused = site.own("POST", "/v1/notes", form).await;
        assert_eq!(refused.code, 400, "{form}");
        assert!(refused.reason(field).contains(reason), "{form}: {}", refused.reason(field));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn queues_are_listed_by_name() {
    let world = World::new("http-list");
    let site = Site::new(&world).await;
    for form in ["queue_name=b&principles=app:other", "queue_name=a&partitions=2", "queue_name=c"] {
        site.queue(form).await;
    }
    site.post("/v1/notes/a", 2, "hello").await;
    let names = async |query: &str| {
        let listed = site.own("GET", &format!("/v1/notes{query}"), "").await.json();
        let name = |queue: &serde_json::Value| queue["queue_name"].as_str().unwrap().to_owned();
        listed["queues"].as_array().unwrap().iter().map(name).collect::<Vec<_>>().join("")
    };
    assert_eq!(names("").await, "abc");
    assert_eq!(names("?limit=2").await, "ab");
    assert_eq!(names("?offset=b").await, "bc");
    assert_eq!(names("?limit=0").await, "");
    for wrong in ["?limit=x", "?limit=-1"] {
        assert_eq!(site.own("GET", &format!("/v1/notes{wrong}"), "").await.code, 400);
    }
    let plain = site.own("GET", "/v1/notes?details=false", "").await.json();
    assert_eq!(keys(&plain["queues"][0]), ["queue_name"]);
    let details = site.own("GET", "/v1/notes?details=True", "").await.json();
    let expected = ["application", "consistency", "created", "partitions", "queue_name", "type"];
    assert_eq!(keys(&details["queues"][0]), expected);
    assert!(details["queues"][0]["created"].is_f64());
    assert_eq!(details["queues"][1]["principles"], json!(["app:other"]));
    let counted = site.own("GET", "/v1/notes?include_count=1", "").await.json();
    assert_eq!((&counted["queues"][0]["count"], &counted["queues"][0]["partitions"]), (&json!(1), &json!(2)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_keeps_the_settings_it_does_not_name() {
    let world = World::new("http-change");
    let site = Site::new(&world).await;
    site.queue("queue_name=mail&partitions=2&type=public").await;
    let changed = site.own("PUT", "/v1/notes/mail", "partitions=2").await;
    assert_eq!(changed.code, 200);
    assert_eq!(changed.keys(), ["created", "partitions", "principles", "queue_name", "status", "type"]);
    let changed = changed.json();
    assert_eq!((&changed["type"], &changed["principles"]), (&json!("public"), &json!([])));
    // Queuey added partitions here. That moves keys, so it takes an operator.
    let more = site.own("PUT", "/v1/notes/mail", "partitions=3&type=user").await;
    assert_eq!(more.code, 409);
    assert!(more.reason("InvalidUpdate").contains("queue alter notes:mail --partitions 3"));
    let fewer = site.own("PUT", "/v1/notes/mail", "partitions=1").await;
    assert_eq!(
        (fewer.code, fewer.reason("InvalidUpdate")),
        (400, "Partitions can only be increased.".into())
    );
    let changed = site.own("PUT", "/v1/notes/mail", "principles=app:notes").await.json();
    assert_eq!((&changed["partitions"], &changed["principles"]), (&json!(2), &json!(["app:notes"])));
    assert_eq!(changed["type"], "public", "what was refused has changed nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn deleting_a_queue_leaves_nothing_behind() {
    let world = World::new("http-delete");
    let site = Site::new(&world).await;
    site.queue("queue_name=mail").await;
    site.post("/v1/notes/mail", 1, "gone").await;
    let deleted = site.own("DELETE", "/v1/notes/mail", "").await;
    assert_eq!((deleted.code, deleted.json()), (200, json!({"status": "ok"})));
    let id = "6ba7b8109dad11d180b400c04fd430c8";
    for (method, path) in [
        ("GET", "/v1/notes/mail".to_owned()),
        ("POST", "/v1/notes/mail".to_owned()),
        ("PUT", "/v1/notes/mail".to_owned()),
        ("DELETE", "/v1/notes/mail".to_owned()),
        ("GET", format!("/v1/notes/mail/{id}")),
        ("DELETE", format!("/v1/notes/mail/{id}")),
    ] {
        let answer = site.own(method, &path, "x").await;
        assert_eq!(answer.code, 404, "{method} {path}");
        assert_eq!(answer.reason("InvalidQueueName"), "Queue of that name was not found.");
    }
    site.queue("queue_name=mail").await;
    assert!(site.own("GET", "/v1/notes/mail", "").await.bodies().is_empty(), "a new one is empty");
    let long = site.own("GET", &format!("/v1/notes/{}", "x".repeat(51)), "").await;
    assert_eq!(long.reason("InvalidQueueName"), "Queue name longer than 50 characters.");
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_paths_and_wrong_methods_are_404() {
    let world = World::new("http-404");
    let site = Site::new(&world).await;
    site.queue("queue_name=mail").await;
    for (method, path) in [
        ("GET", "/"),
        ("GET", "/v2/notes"),
        ("GET", "/v1/nobody"),
        ("POST", "/v1/nobody/mail"),
        ("PUT", "/v1/notes"),
        ("DELETE", "/v1/notes"),
        ("PATCH", "/v1/notes/mail"),
        ("HEAD", "/v1/notes/mail"),
        ("POST", "/v1/notes/mail/6ba7b8109dad11d180b400c04fd430c8"),
        ("DELETE", "/__heartbeat__"),
    ] {
        assert_eq!(site.own(method, path, "").await.code, 404, "{method} {path}");
    }
}
