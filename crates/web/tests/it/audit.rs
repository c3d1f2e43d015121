//! Every change leaves a trace.

use menagerie_web::access::token::Hash;
use menagerie_web::audit::{self, Actor, ENTRIES_MAX};
use menagerie_web::routes;
use menagerie_znodes::web::{AuditOutcome, Scope};
use serde_json::Value;

use crate::access::path_of;
use crate::site::{Site, create_token};

async fn entries(site: &Site) -> Vec<Value> {
    site.get("/audit").await.value()["items"].as_array().unwrap().clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_act_is_written_down_with_who_from_where_what_and_how_it_ended() {
    let site = Site::new("web-audit").await;
    site.pool("deploy", &[]).await;
    let acts = routes::acts();
    for act in &acts {
        // Most of them fail: there is no such thing.
        site.post(&path_of(act.path), body_of(act.name)).await;
    }
    // What cannot be understood was not about to be done.
    site.post("/queues/mail/messages", r#"{"message":"card 4711"}"#).await.problem(400);
    let entries = entries(&site).await;
    assert_eq!(entries.len(), acts.len());
    for (entry, act) in entries.iter().rev().zip(&acts) {
        assert_eq!((&entry["act"], &entry["who"]), (&act.name.into(), &"read+submit+operate+admin".into()));
        assert_eq!(entry["token"], Hash::of(&site.token).id().as_str());
        assert_eq!(entry["from"], "127.0.0.1");
        assert_eq!(entry["target"], format!("/api/v1{}", path_of(act.path)));
        let is_done = matches!(act.name, "slots.freeze" | "slots.thaw");
        assert_eq!(entry["outcome"], if is_done { "done" } else { "failed" }, "{entry}");
        assert!(!entry["message"].as_str().unwrap().is_empty(), "{entry}");
    }
}

/// What an act takes at least.
fn body_of(act: &str) -> &'static str {
    match act {
        "slots.release" => r#"{"holder":"a"}"#,
        "queues.put" => r#"{"body":"hello"}"#,
        "queues.retry" | "queues.forget" => r#"{"all":true}"#,
        "flows.submit" => r#"{"job":{}}"#,
        "pipelines.enqueue" | "pipelines.dequeue" | "pipelines.approve" => r#"{"change":"a:propose/main/b"}"#,
        _ => "{}",
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_asked_for_is_in_it_but_neither_data_nor_secrets() {
    let site = Site::new("web-audit-detail").await;
    site.pool("deploy", &[]).await;
    site.create(&site.session, "mail", 1).await;
    site.post("/slots/deploy/freeze", r#"{"reason":"a fire"}"#).await.value();
    site.post("/queues/mail/messages", r#"{"body":"card 4711","key":"a"}"#).await.value();
    let long = format!("{{\"reason\":\"{}\"}}", "x".repeat(5_000));
    site.post("/slots/deploy/freeze", &long).await.value();
    let found = entries(&site).await;
    assert!(found[0]["detail"].as_str().unwrap().chars().count() <= 301, "{}", found[0]);
    let text = serde_json::to_string(&found).unwrap();
    assert!(text.contains("a fire") && !text.contains("4711") && !text.contains("mng_"), "{text}");
    // Those who may not have changed nothing, and leave no entry.
    let read = create_token(&site.session, &["read"]).await;
    site.post_as(&read, "/slots/deploy/thaw", "{}").await.problem(403);
    assert_eq!(entries(&site).await.len(), 3);
}

fn actor() -> Actor {
    Actor { who: "me".parse().unwrap(), token: "0".parse().unwrap(), from: [10, 0, 0, 1].into() }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_act_whose_server_has_died_says_that_it_was_begun() {
    let site = Site::new("web-audit-begun").await;
    let dead =
        audit::begin(&site.session, &actor(), Scope::Operate, "slots.freeze", "/x", None).await.unwrap();
    drop(dead);
    let entry = entries(&site).await.remove(0);
    assert_eq!((&entry["outcome"], &entry["message"]), (&"begun".into(), &Value::Null));
    assert!(site.page("/audit").await.text().contains("begun"));
}

#[tokio::test(flavor = "multi_thread")]
async fn old_entries_make_room_for_new_ones() {
    let site = Site::new("web-audit-bound").await;
    let freeze =
        audit::begin(&site.session, &actor(), Scope::Operate, "slots.freeze", "/x", None).await.unwrap();
    freeze.end(&site.session, AuditOutcome::Done, "done").await;
    for number in 0..1_100 {
        let target = number.to_string();
        let begun =
            audit::begin(&site.session, &actor(), Scope::Submit, "queues.put", &target, None).await.unwrap();
        begun.end(&site.session, AuditOutcome::Done, "done").await;
    }
    menagerie_testkit::eventually_async("the oldest are gone", async || {
        let mut left = audit::list(&site.session, None, usize::MAX).await.unwrap();
        // Whoever may only bring work does not drive out what operators did.
        assert_eq!(left.pop().unwrap().act, "slots.freeze");
        let targets: Vec<usize> = left.iter().map(|entry| entry.target.parse().unwrap()).collect();
        assert!(targets.len() >= ENTRIES_MAX, "{}", targets.len());
        assert!(targets.iter().rev().zip(1_100 - targets.len()..).all(|(one, expected)| *one == expected));
        (targets.len() < ENTRIES_MAX + 50).then_some(())
    })
    .await;
}
