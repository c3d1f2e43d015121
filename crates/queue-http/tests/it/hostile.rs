//! Hostile and broken clients.

use menagerie_journal::NewMessage;
use menagerie_queues::Origin;
use menagerie_queues::admin::{Destination, Putter};
use menagerie_queues::journals::JournalRef;
use prometheus_client::encoding::text::encode;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::site::{KEY, Site, ask};
use crate::world::{JOURNAL, World};

#[tokio::test(flavor = "multi_thread")]
async fn hostile_names_and_ids_are_refused_or_taken_literally() {
    let world = World::new("http-hostile");
    let site = Site::new(&world).await;
    for name in
        ["..", ".", "%2e%2e", "a%00b", "a%0ab", "a%2fb", "a:b", "a,b", "%20", "x%20y", "..%2f..%2fzookeeper"]
    {
        let form = format!("queue_name={name}");
        let made = site.own("POST", "/v1/notes", &form).await;
        assert_eq!(made.code, 400, "{name}: {made:?}");
        for method in ["GET", "POST", "PUT", "DELETE"] {
            let answer = site.own(method, &format!("/v1/notes/{name}"), "x").await;
            assert_eq!(answer.code, 404, "{method} {name}");
        }
        let answer = site.own("GET", &format!("/v1/{name}"), "").await;
        assert_eq!(answer.code, 404, "application {name}");
    }
    for name in ["%25", "%3Cscript%3E", "%27%3B--", "%E2%98%83", "a.b", "-1", "%7B%7D"] {
        let made = site.own("POST", "/v1/notes", &format!("queue_name={name}")).await;
        assert_eq!(made.code, 201, "{name}");
        site.post(&format!("/v1/notes/{name}"), 1, "x").await;
        assert_eq!(site.own("GET", &format!("/v1/notes/{name}"), "").await.bodies(), ["x"]);
        assert_eq!(site.own("DELETE", &format!("/v1/notes/{name}"), "").await.code, 200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn names_that_cannot_be_stored_are_refused_and_leave_nothing_behind() {
    let world = World::new("http-wide");
    let site = Site::new(&world).await;
    for count in [47, 50] {
        let name = "%F0%9F%A6%8A".repeat(count);
        let refused = site.own("POST", "/v1/notes", &format!("queue_name={name}")).await;
        assert_eq!(refused.code, 400, "{count}: {refused:?}");
        refused.reason("queue_name");
        assert_eq!(site.own("GET", &format!("/v1/notes/{name}"), "").await.code, 404);
    }
    for form in ["queue_name=%FF", "partitions=1&queue_name=a%C3"] {
        let refused = site.own("POST", "/v1/notes", form).await;
        assert_eq!((refused.code, refused.reason("queue_name")), (400, "it is not UTF-8".into()), "{form}");
    }
    assert_eq!(site.own("GET", "/v1/notes?offset=%FF", "").await.code, 400);
    let listed = site.own("GET", "/v1/notes", "").await.json();
    assert_eq!(listed["queues"].as_array().unwrap().len(), 0);
    assert!(world.journals().get(&JournalRef::named(JOURNAL)).unwrap().topics().await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_does_not_wait_for_a_body_without_a_valid_key() {
    let world = World::new("http-no-body");
    let site = Site::new(&world).await;
    site.queue("queue_name=mail").await;
    for (authorization, answered) in [
        ("", "403"),
        ("Authorization: Application nobody-knows-it\r\n", "401"),
        ("Authorization: Application caf\u{e9}\r\n", "401"),
    ] {
        let mut stream = TcpStream::connect(site.address).await.unwrap();
        let head = format!(
            "POST /v1/notes/mail HTTP/1.1\r\nHost: queue\r\n{authorization}Content-Length: 5\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = vec![0; 12];
        stream.read_exact(&mut answer).await.unwrap();
        assert_eq!(String::from_utf8(answer).unwrap(), format!("HTTP/1.1 {answered}"), "{authorization}");
    }
    let mut stream = TcpStream::connect(site.address).await.unwrap();
    let head = b"GET /v1/notes/mail HTTP/1.1\r\nHost: queue\r\nAuthorization: Application \xff\xfe\r\n\r\n";
    stream.write_all(head).await.unwrap();
    let mut answer = vec![0; 12];
    stream.read_exact(&mut answer).await.unwrap();
    assert_eq!(answer, b"HTTP/1.1 401", "what is no text is no key, but it was shown");
}

#[tokio::test(flavor = "multi_thread")]
async fn guessing_keys_is_rate_limited_and_others_are_served() {
    let world = World::new("http-guess");
    let site = Site::new(&world).await;
    let mut codes = Vec::new();
    for number in 0..1_000 {
        let guess = format!("Application guess-{number}");
        codes.push(site.ask("GET", "/v1/notes", &[("Authorization", &guess)], b"").await.code);
        if codes.contains(&429) {
            break;
        }
    }
    assert_eq!((codes.first(), codes.last()), (Some(&401), Some(&429)), "{}", codes.len());
    assert_eq!(site.own("GET", "/v1/notes", "").await.code, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_anonymous_callers_are_all_answered_and_delay_nobody() {
    let world = World::new("http-strangers");
    let site = Site::new(&world).await;
    site.queue("queue_name=mail").await;
    let mut strangers = JoinSet::new();
    for number in 0..200 {
        let (address, code) = (site.address, if number % 2 == 0 { 403 } else { 404 });
        let path = if code == 403 { "/v1/notes/mail" } else { "/v1/notes/none" };
        strangers.spawn(async move { (ask(address, "GET", path, &[], b"").await.code, code) });
    }
    assert_eq!(site.own("GET", "/v1/notes/mail", "").await.code, 200);
    while let Some(answered) = strangers.join_next().await {
        let (code, expected) = answered.unwrap();
        assert_eq!(code, expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_that_are_too_large_are_refused() {
    let world = World::new("http-large");
    let site = Site::new(&world).await;
    site.queue("queue_name=mail").await;
    let large = vec![b'x'; (10 << 20) + 1];
    let authorization = format!("Authorization: Application {KEY}\r\n");
    // With a length it is refused before it is sent; in chunks, as soon as it exceeds the limit.
    let head = format!("POST /v1/notes/mail HTTP/1.1\r\nHost: queue\r\n{authorization}Connection: close\r\n");
    let announced = format!("{head}Content-Length: {}\r\n\r\n", large.len());
    let piece = format!("{head}Transfer-Encoding: chunked\r\n\r\n{:x}\r\n", large.len());
    for (head, body) in [(announced, &b""[..]), (piece, &large[..])] {
        let mut stream = TcpStream::connect(site.address).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        // The server may refuse it while we are still sending.
        let _ = stream.write_all(body).await;
        let mut answer = vec![0; 12];
        stream.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"HTTP/1.1 413");
    }
    let largest = vec![b'x'; 10 << 20];
    assert_eq!(site.own_with("POST", "/v1/notes/mail", &[], &largest).await.code, 201);
    let many = format!("{{\"messages\":[{}]}}", vec!["{\"body\":\"x\"}"; 10_001].join(","));
    let json = [("Content-Type", "application/json")];
    let refused = site.own_with("POST", "/v1/notes/mail", &json, many.as_bytes()).await;
    assert_eq!((refused.code, refused.reason("messages")), (400, "10001 are more than 10000".into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reply_is_truncated_at_its_limit_and_says_so() {
    let world = World::new("http-end");
    let site = Site::new(&world).await;
    site.queue("queue_name=mail").await;
    let large = vec![b'x'; 9 << 20];
    for _ in 0..5 {
        assert_eq!(site.own_with("POST", "/v1/notes/mail", &[], &large).await.code, 201);
    }
    let first = site.own("GET", "/v1/notes/mail", "").await;
    assert!(first.head.contains("x-truncated: true"), "{}", first.head);
    let (count, last) = {
        let json = first.json();
        let messages = json["messages"].as_array().unwrap();
        (messages.len(), messages.last().unwrap()["message_id"].as_str().unwrap().to_owned())
    };
    let rest = site.own("GET", &format!("/v1/notes/mail?after={last}"), "").await;
    assert!(!rest.head.contains("x-truncated"));
    assert_eq!(count + rest.bodies().len(), 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn empty_messages_count_towards_the_limit_of_a_reply() {
    let world = World::new("http-empty");
    let site = Site::new(&world).await;
    site.queue("queue_name=mail").await;
    let queue = "notes:mail".parse().unwrap();
    let mut putter =
        Putter::open(&site.session, &world.journals(), &queue, 0, Origin::library()).await.unwrap();
    for _ in 0..27 {
        putter.put(vec![(Destination::Partition(1), NewMessage::new("")); 5_000]).await.unwrap();
    }
    let first = site.own("GET", "/v1/notes/mail", "").await;
    assert!(first.head.contains("x-truncated: true"), "{}", first.head);
    assert!(first.bodies().len() < 135_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_counted_by_applications_that_exist() {
    let world = World::new("http-metrics");
    let site = Site::new(&world).await;
    site.queue("queue_name=mail").await;
    site.post("/v1/notes/mail", 1, "x").await;
    site.own("GET", "/v1/notes/mail", "").await;
    site.own("GET", "/v1/made-up-by-anybody", "").await;
    let mut text = String::new();
    encode(&mut text, &site.registry).unwrap();
    for line in [
        "menagerie_queue_http_requests_total{application=\"notes\",method=\"POST\",code=\"201\"} 2",
        "menagerie_queue_http_requests_total{application=\"-\",method=\"GET\",code=\"404\"} 1",
        "menagerie_queue_http_messages_posted_total{application=\"notes\"} 1",
        "menagerie_queue_http_messages_read_total{application=\"notes\"} 1",
        "menagerie_queue_http_open_requests 0",
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
    assert!(!text.contains("made-up"));
}
