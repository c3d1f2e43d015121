//! Requests that make no sense.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::client::{Answer, head};
use crate::site::Site;

const JSON: (&str, &str) = ("Content-Type", "application/json");

#[tokio::test(flavor = "multi_thread")]
async fn where_there_is_nothing_is_said_as_a_problem() {
    let site = Site::new("web-nothing").await;
    site.pool("deploy", &[]).await;
    site.create(&site.session, "mail", 1).await;
    for path in [
        "",
        "/",
        "/none",
        "/slots/",
        "/slots/none",
        "/slots/deploy/",
        "/slots//history",
        "/slots/deploy/none",
        "/slots/a%2Fb",
        "/slots/%2e%2e",
        "/slots/%00",
        "/slots/%ff",
        "/slots/a%20b",
        "/queues/none",
        "/queues/none/failed",
        "/queues/none/waiting",
        "/queues/a:b:c",
        "/queues/mail/messages/x",
        "/queues/mail/messages/00000000-0000-0000-0000-000000000000",
        "/flows/none",
        "/pipelines/none",
        "/pipelines/none/history/x",
        "/znodes?path=/none",
    ] {
        let answer = site.get(path).await;
        assert!(!answer.problem(404).is_empty(), "{path}");
    }
    for path in ["/api", "/api/", "/api/v2/slots", "/api/v1slots", "/api/openapi.yaml"] {
        let answer = site.ask("GET", path, &[], b"").await;
        assert!(matches!(answer.code, 401 | 404), "{path}: {answer:?}");
    }
    for path in ["/none", "/slots/", "/slots/none", "/queues/mail/messages/x", "/act/none", "/assets/none"] {
        assert_eq!(site.ask("GET", path, &[], b"").await.code, 404, "{path}");
    }
    let long = format!("/slots/{}", "x".repeat(10_000));
    assert!(matches!(site.get(&long).await.code, 404 | 414 | 431));
}

#[tokio::test(flavor = "multi_thread")]
async fn parameters_are_checked() {
    let site = Site::new("web-parameters").await;
    site.pool("deploy", &[]).await;
    site.create(&site.session, "mail", 1).await;
    for path in [
        "/slots?limit=0",
        "/slots?limit=1001",
        "/slots?limit=x",
        "/slots?limit=1&limit=2",
        "/slots?none=1",
        "/slots/deploy?q=x",
        "/slots/deploy/history?cursor=x",
        "/queues/mail/failed?cursor=x",
        "/queues/mail/waiting?partition=0",
        "/flows?cursor=none",
        "/audit?cursor=-1",
        "/znodes?path=x",
        "/znodes?path=/a/../b",
        "/znodes?path=//a",
        "/znodes?path=/%00",
    ] {
        let answer = site.get(path).await;
        assert!(!answer.problem(400).is_empty(), "{path}");
    }
    site.get("/queues/mail/waiting?partition=7").await.problem(404);
    site.post("/slots/deploy/freeze?x=1", "{}").await.problem(400);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_method_is_refused_with_those_that_there_are() {
    let site = Site::new("web-methods").await;
    site.pool("deploy", &[]).await;
    for (method, path, allowed) in [
        ("POST", "/api/v1/slots/deploy", "GET, HEAD"),
        ("DELETE", "/api/v1/slots", "GET, HEAD"),
        ("GET", "/api/v1/slots/deploy/freeze", "POST"),
        ("PUT", "/api/v1/slots/deploy/freeze", "POST"),
        ("OPTIONS", "/api/v1/slots", "GET, HEAD"),
        ("BREW", "/api/v1/slots", "GET, HEAD"),
        ("POST", "/slots", "GET, HEAD"),
        ("DELETE", "/", "GET, HEAD"),
        ("PUT", "/login", "GET, HEAD, POST"),
        ("GET", "/logout", "POST"),
    ] {
        let answer = site.ask_as(&site.token, method, path, &[JSON], b"{}").await;
        answer.problem(405);
        assert_eq!(answer.header("allow"), Some(allowed), "{method} {path}");
    }
    let head = site.ask_as(&site.token, "HEAD", "/api/v1/slots", &[], b"").await;
    assert_eq!((head.code, head.body.len()), (200, 0));
    assert_eq!(site.ask("HEAD", "/slots", &[], b"").await.code, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_is_not_what_the_document_says_changes_nothing() {
    let site = Site::new("web-bodies").await;
    site.pool("deploy", &[]).await;
    let deep = "[".repeat(100_000);
    for body in
        ["{", "nonsense", "[]", "null", "7", "\"x\"", r#"{"none":1}"#, r#"{"reason":7}"#, "{}{}", &deep]
    {
        let refused = site.post("/slots/deploy/freeze", body).await;
        assert!(!refused.problem(400).is_empty(), "{body}");
    }
    let path = "/api/v1/slots/deploy/freeze";
    let binary = site.ask_as(&site.token, "POST", path, &[JSON], b"\xff\xfe{}").await;
    binary.problem(400);
    for media in
        ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/jsonx", ""]
    {
        let answer = site.ask_as(&site.token, "POST", path, &[("Content-Type", media)], b"{}").await;
        assert!(!answer.problem(415).is_empty(), "{media}");
    }
    site.ask_as(&site.token, "POST", path, &[], b"{}").await.problem(415);
    assert!(site.get("/slots/deploy").await.value()["frozen"].is_null());
    let charset = [("Content-Type", "Application/JSON; charset=utf-8")];
    assert_eq!(site.ask_as(&site.token, "POST", path, &charset, b"").await.code, 200, "nothing is {{}}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_of_50_mb_is_refused_before_it_has_arrived() {
    let site = Site::new("web-large").await;
    site.create(&site.session, "mail", 1).await;
    let bearer = format!("Bearer {}", site.token);
    let cookie = format!("menagerie-{}={}", site.address().port(), site.token);
    let origin = format!("http://{}", site.address());
    for (path, media) in [
        ("/api/v1/queues/mail/messages", "application/json"),
        ("/act/queues/mail/messages", "application/x-www-form-urlencoded"),
        ("/login", "application/x-www-form-urlencoded"),
    ] {
        let authorization = if path.starts_with("/api") {
            ("Authorization", bearer.as_str())
        } else {
            ("Cookie", cookie.as_str())
        };
        let headers = [authorization, ("Content-Type", media), ("Origin", origin.as_str())];
        let head = head(site.address(), &format!("POST {path} HTTP/1.1"), &headers);
        let announced = format!("{head}Content-Length: {}\r\n\r\n", 50 << 20);
        assert_eq!(begin(&site, announced.as_bytes(), b"").await, "HTTP/1.1 413", "{path}");
        // Without a length it is read as far as the limit.
        let chunked = format!("{head}Transfer-Encoding: chunked\r\n\r\n{:x}\r\n", 50 << 20);
        assert_eq!(begin(&site, chunked.as_bytes(), &vec![b'x'; 3 << 20]).await, "HTTP/1.1 413", "{path}");
    }
    // Those who may not send anything are not listened to at all.
    let head = head(site.address(), "POST /api/v1/queues/mail/messages HTTP/1.1", &[JSON]);
    let announced = format!("{head}Content-Length: 7\r\n\r\n");
    assert_eq!(begin(&site, announced.as_bytes(), b"").await, "HTTP/1.1 401");
    assert!(site.messages("mail", 1).await.is_empty());
    let most = format!("{{\"body\":\"{}\"}}", "x".repeat((1 << 20) - 100));
    let put: Answer = site.post("/queues/mail/messages", &most).await;
    assert_eq!(put.code, 200, "{put:?}");
}

/// The first bytes of the answer to these, of which the server may not read the rest.
async fn begin(site: &Site, head: &[u8], body: &[u8]) -> String {
    let mut stream = TcpStream::connect(site.address()).await.unwrap();
    stream.write_all(head).await.unwrap();
    // The server may refuse it while we are still sending.
    let _ = stream.write_all(body).await;
    let mut answer = vec![0; 12];
    stream.read_exact(&mut answer).await.unwrap();
    String::from_utf8(answer).unwrap()
}
