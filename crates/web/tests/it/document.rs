//! Replies are what the OpenAPI document says.

use menagerie_testkit::assert_fits;
use menagerie_web::routes;
use serde_json::Value;

use crate::site::Site;

/// Panics unless a reply fits what the document says of this address.
pub fn assert_documented(document: &Value, pattern: &str, method: &str, code: u16, reply: &Value) {
    let responses = &document["paths"][format!("/api/v1{pattern}")][method]["responses"];
    let response = match code {
        200 => &responses["200"]["content"]["application/json"]["schema"],
        _ => &document["components"]["responses"]["Problem"]["content"]["application/problem+json"]["schema"],
    };
    // References lead into the document.
    let mut schema = document.clone();
    for (word, value) in response.as_object().unwrap() {
        schema[word] = value.clone();
    }
    assert_fits(&schema, reply);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_address_answers_as_the_document_says() {
    let site = Site::new("web-document").await;
    let document = site.ask("GET", "/api/openapi.json", &[("Host", "evil.example")], b"").await.value();
    assert_eq!(document["openapi"], "3.1.0");
    site.pool("deploy", &["a", "b", "c"]).await;
    site.create(&site.session, "mail", 1).await;
    site.fail("mail", &["gone", "kept"], "no").await;
    site.job("j1", "count").await;
    site.post("/slots/deploy/freeze", r#"{"reason":"a fire"}"#).await.value();
    site.post("/queues/mail/pause", "{}").await.value();
    let put = site.post("/queues/mail/messages", r#"{"body":"hello"}"#).await.value();
    assert_documented(&document, "/queues/{queue}/messages", "post", 200, &put);
    let id = put["ids"][0].as_str().unwrap();
    for route in routes::reads() {
        let path = crate::access::path_of(&route.path.replace("{id}", id));
        let answer = site.get(&path).await;
        // What pipelines show is compared where there are some: in e2e.
        let expected = if route.path.starts_with("/pipelines/") { 404 } else { 200 };
        if !route.path.ends_with("/history") || expected == 200 {
            assert_eq!(answer.code, expected, "{path}: {answer:?}");
        }
        assert_documented(&document, route.path, "get", answer.code, &answer.json());
    }
    for act in routes::acts() {
        let answer = site.post(&crate::access::path_of(act.path), r#"{"none":1}"#).await;
        assert_documented(&document, act.path, "post", answer.code, &answer.json());
    }
}
