//! Request smuggling, and paths that pretend to be others.

use crate::site::{KEY, Site, exchange};
use crate::world::World;

const QUEUE: &str = "/v1/notes/mail";

fn answers(text: &str) -> usize {
    text.matches("HTTP/1.1 ").count()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unread_body_is_never_taken_for_a_request() {
    let world = World::new("http-smuggle");
    let site = Site::new(&world).await;
    site.queue("queue_name=mail").await;
    let own = format!("Authorization: Application {KEY}\r\n");
    let inner = format!("DELETE {QUEUE} HTTP/1.1\r\nHost: queue\r\n{own}Connection: close\r\n\r\n");
    let length = inner.len();
    for head in [
        // Refused before the server reads its body.
        format!("POST {QUEUE} HTTP/1.1\r\nHost: queue\r\nContent-Length: {length}\r\n"),
        format!("POST /nowhere HTTP/1.1\r\nHost: queue\r\nContent-Length: {length}\r\n"),
        format!("POST /__heartbeat__ HTTP/1.1\r\nHost: queue\r\nContent-Length: {length}\r\n"),
        format!("GET {QUEUE} HTTP/1.1\r\nHost: queue\r\n{own}Content-Length: {length}\r\n"),
        // Of two lengths neither counts.
        format!(
            "POST {QUEUE} HTTP/1.1\r\nHost: queue\r\n{own}Content-Length: 0\r\nContent-Length: {length}\r\n"
        ),
        format!("POST {QUEUE} HTTP/1.1\r\nHost: queue\r\n{own}Content-Length: +{length}\r\n"),
        format!("POST {QUEUE} HTTP/1.1\r\nHost: queue\r\n{own}Content-Length : {length}\r\n"),
    ] {
        // Either the server closed after the first reply, or it read the body.
        let said = exchange(site.address, format!("{head}Connection: close\r\n\r\n{inner}").as_bytes()).await;
        assert!(answers(&said) <= 1, "{head}: {said}");
        assert_eq!(site.own("GET", QUEUE, "").await.code, 200, "it is still there after {head}");
    }
    // A length beside chunks: the chunks count, and what follows them is no request.
    let chunked = format!(
        "POST {QUEUE} HTTP/1.1\r\nHost: queue\r\n{own}Content-Length: 4\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n1\r\nx\r\n0\r\n\r\n{inner}"
    );
    let said = exchange(site.address, chunked.as_bytes()).await;
    assert!(answers(&said) <= 1, "{said}");
    assert_eq!(site.own("GET", QUEUE, "").await.code, 200, "it is still there");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_spelling_of_a_path_bypasses_access_control() {
    let world = World::new("http-paths");
    let site = Site::new(&world).await;
    site.queue("queue_name=mail").await;
    site.queue("queue_name=open&type=public").await;
    let id = site.post(QUEUE, 1, "secret").await;
    for path in [
        "/v1/notes/mail",
        "//v1/notes/mail",
        "/v1//notes/mail",
        "/v1/notes//mail",
        "/v1/notes/open/../mail",
        "/v1/notes/open/%2e%2e/mail",
        "/v1/notes/open%2f..%2fmail",
        "/v1/notes/open/..%2Fmail",
        "/v1/n%6ftes/m%61il",
        "/%76%31/notes/mail",
        "/v1/notes/mail%00",
        "/v1/notes/mail%20",
        "/v1/notes/mail.failed",
        "/v1/notes/mail?x=/v1/notes/open",
        "/v1/notes/mail#/v1/notes/open",
        "/v1/notes:mail/open",
        "/v1/notes/notes:mail",
        "/__heartbeat__/../v1/notes/mail",
        "/openapi.json/../v1/notes/mail",
        "http://queue/v1/notes/mail",
        "*",
    ] {
        for path in [path.to_owned(), format!("{path}/{id}")] {
            let said = exchange(
                site.address,
                format!("GET {path} HTTP/1.1\r\nHost: queue\r\nConnection: close\r\n\r\n").as_bytes(),
            )
            .await;
            let code = said.split(' ').nth(1).unwrap_or_default();
            assert!(["400", "403", "404"].contains(&code), "{path}: {said}");
            assert!(!said.contains("secret"), "{path}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn contradictory_headers_are_refused() {
    let world = World::new("http-headers");
    let site = Site::new(&world).await;
    site.queue("queue_name=mail").await;
    let own = format!("Application {KEY}");
    // One wrong key among several is one too many, in one header or in two.
    let two = [("Authorization", own.as_str()), ("Authorization", "Application nobody-knows-this")];
    assert_eq!(site.ask("GET", QUEUE, &two, b"").await.code, 401);
    for scheme in ["Applications", "Bearers", "Bearer:", "Application:", "XApplication"] {
        let header = format!("{scheme} {KEY}");
        assert_eq!(site.ask("GET", QUEUE, &[("Authorization", &header)], b"").await.code, 403, "{scheme}");
    }
    for empty in ["", " ", "\t"] {
        let refused = site.own_with("POST", QUEUE, &[("Idempotency-Key", empty)], b"x").await;
        assert_eq!(refused.code, 400);
        assert_eq!(refused.reason("Idempotency-Key"), "a key has 1 to 200 characters");
    }
    let mut noise = format!("GET {QUEUE} HTTP/1.1\r\nHost: queue\r\nAuthorization: {own}\r\n");
    for number in 0..200 {
        noise += &format!("X-Noise-{number}: x\r\n");
    }
    let said = exchange(site.address, format!("{noise}Connection: close\r\n\r\n").as_bytes()).await;
    assert!(said.starts_with("HTTP/1.1 431"), "{said}");
    assert!(site.own("GET", QUEUE, "").await.bodies().is_empty());
}
