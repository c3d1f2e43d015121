//! What is changed over REST is changed for everybody: the engines' own views show it.

use menagerie_queues::admin::Scope;
use menagerie_queues::admin::show;
use menagerie_queues::task::Outcome;
use menagerie_queues::view::overview;
use menagerie_slots::view::{self as slots, PoolView};
use menagerie_testkit::eventually_async;
use menagerie_znodes::queues::Pause;
use serde_json::{Value, json};

use crate::site::{Site, deployment};
use crate::world::{Log, options};

async fn pool(site: &Site) -> PoolView {
    slots::show(&site.session, &"deploy".parse().unwrap(), 0).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_is_frozen_thawed_and_emptied() {
    let site = Site::new("web-slots").await;
    site.pool("deploy", &["a", "b", "c"]).await;
    assert_eq!(site.post("/slots/deploy/freeze", r#"{"reason":"a fire"}"#).await.code, 200);
    let frozen = pool(&site).await.frozen.unwrap();
    assert_eq!(frozen.reason.as_deref(), Some("a fire"));
    assert_eq!(frozen.by, "read+submit+operate+admin@127.0.0.1 (web)");
    assert_eq!(site.get("/slots/deploy").await.value()["frozen"]["reason"], "a fire");
    assert_eq!(site.post("/slots/deploy/thaw", "").await.code, 200);
    assert_eq!(pool(&site).await.frozen, None);

    assert_eq!(site.post("/slots/deploy/release", r#"{"holder":"a"}"#).await.code, 200);
    let holders = |view: &PoolView| -> Vec<String> {
        view.holders.iter().map(|holder| holder.holder.holder.clone()).collect()
    };
    assert_eq!(holders(&pool(&site).await), ["b"]);
    let again = site.post("/slots/deploy/release", r#"{"holder":"a"}"#).await;
    assert!(again.problem(409).contains('a'), "{again:?}");
    // A page that is out of date means a slot that `b` does not have any more.
    let since_ms = pool(&site).await.holders[0].since_ms;
    let stale = json!({ "holder": "b", "force": true, "since_ms": since_ms - 1 }).to_string();
    site.post("/slots/deploy/release", &stale).await.problem(409);
    let meant = json!({ "holder": "b", "force": true, "since_ms": since_ms }).to_string();
    assert_eq!(site.post("/slots/deploy/release", &meant).await.code, 200);
    assert_eq!(holders(&pool(&site).await), [""; 0]);
    for act in ["freeze", "thaw"] {
        site.post(&format!("/slots/none/{act}"), "{}").await.problem(404);
    }
    site.post("/slots/none/release", r#"{"holder":"a"}"#).await.problem(404);
}

async fn bodies(site: &Site) -> Vec<String> {
    let waiting = site.get("/queues/mail/waiting").await.value();
    let items = waiting["items"].as_array().unwrap();
    items.iter().map(|message| message["body"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_are_put_as_asked() {
    let site = Site::new("web-put").await;
    site.create(&site.session, "mail", 2).await;
    let put = site.post("/queues/mail/messages", r#"{"body":"hello","partition":2}"#).await.value();
    let id = put["ids"][0].as_str().unwrap();
    let messages = site.messages("mail", 2).await;
    assert_eq!((messages.len(), &messages[0].body[..]), (1, &b"hello"[..]));
    assert_eq!(bodies(&site).await, ["hello"]);
    let story = site.get(&format!("/queues/mail/messages/{id}")).await.value();
    assert_eq!((&story["id"], &story["partition"]), (&json!(id), &json!("mail-2")), "{story}");

    let once = r#"{"body":"x","dedup":"one","partition":1}"#;
    let first = site.post("/queues/mail/messages", once).await.value();
    let second = site.post("/queues/mail/messages", once).await.value();
    assert_eq!(first["ids"], second["ids"]);
    assert!(second["message"].as_str().unwrap().contains("already"), "{second}");
    assert_eq!(site.messages("mail", 1).await.len(), 1);
    let later = site.post("/queues/mail/messages", r#"{"body":"later","delay":"1h"}"#).await.value();
    assert_eq!(site.get("/queues/mail").await.value()["delayed"], 1, "{later}");

    for (wrong, why) in [
        (r#"{"body":"x","partition":3}"#, 404),
        (r#"{"body":"x","partition":1,"key":"a"}"#, 400),
        (r#"{"body":"x","delay":"soon"}"#, 400),
        (r#"{"body":"x","ttl":"-1s"}"#, 400),
        (r#"{"body":"x","priority":101}"#, 400),
        (r#"{"body":"x","priority":1000}"#, 400),
        (r#"{"body":"x","partition":-1}"#, 400),
        (r#"{"body":7}"#, 400),
        ("{}", 400),
    ] {
        let refused = site.post("/queues/mail/messages", wrong).await;
        assert!(!refused.problem(why).is_empty(), "{wrong}");
    }
    site.post("/queues/none/messages", r#"{"body":"x"}"#).await.problem(404);
    assert_eq!(site.messages("mail", 1).await.len() + site.messages("mail", 2).await.len(), 2);
}

async fn failed(site: &Site) -> Vec<Value> {
    site.get("/queues/mail/failed").await.value()["items"].as_array().unwrap().clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_messages_are_retried_and_forgotten_one_by_one_and_all_at_once() {
    let site = Site::new("web-failed").await;
    site.create(&site.session, "mail", 1).await;
    site.fail("mail", &["0", "1", "2", "3", "4", "5", "6"], "no chance").await;
    let ids: Vec<String> =
        failed(&site).await.iter().map(|one| one["id"].as_str().unwrap().to_owned()).collect();
    assert_eq!(ids.len(), 7);
    assert_eq!(failed(&site).await[0]["error"], "no chance");
    let act = async |what: &str, which: Value| {
        site.post(&format!("/queues/mail/failed/{what}"), &which.to_string()).await
    };
    let one = act("retry", json!({ "ids": [ids[0]] })).await.value();
    assert_eq!(one["ids"], json!([ids[0]]));
    let several = act("retry", json!({ "ids": [ids[1], ids[2]] })).await.value();
    assert_eq!(several["ids"], json!([ids[1], ids[2]]));
    assert_eq!(act("forget", json!({ "ids": [ids[3]] })).await.code, 200);
    // Whoever comes second is told, and what was done before it, too.
    let gone = act("retry", json!({ "ids": [ids[4], ids[3], ids[5]] })).await.problem(404);
    assert!(gone.contains(&ids[3]) && gone.contains("1 message before it"), "{gone}");
    let left: Vec<Value> = failed(&site).await.iter().map(|one| one["id"].clone()).collect();
    assert_eq!(left, [json!(ids[5]), json!(ids[6])]);
    assert_eq!(bodies(&site).await, ["0", "1", "2", "4"], "they wait in their partition again");

    for neither in [json!({}), json!({ "ids": [] }), json!({ "ids": [ids[5]], "all": true })] {
        act("forget", neither).await.problem(400);
    }
    act("forget", json!({ "ids": ["x"] })).await.problem(400);
    assert_eq!(failed(&site).await.len(), 2);
    assert_eq!(act("forget", json!({ "all": true })).await.value()["ids"], json!([ids[5], ids[6]]));
    assert_eq!(failed(&site).await.len(), 0);
    site.fail("mail", &["a", "b"], "still not").await;
    let all = act("retry", json!({ "all": true })).await.value();
    assert_eq!(all["ids"].as_array().unwrap().len(), 6, "{all}");
    assert_eq!((failed(&site).await.len(), bodies(&site).await.len()), (0, 6));
}

#[tokio::test(flavor = "multi_thread")]
async fn queues_and_workers_are_paused_and_go_on() {
    let site = Site::new("web-pause").await;
    site.create(&site.session, "mail", 1).await;
    let paused = async || {
        let queue = "mail".parse().unwrap();
        overview(&site.session, &site.journals(), &queue).await.unwrap().paused
    };
    assert_eq!(site.post("/queues/mail/pause", r#"{"reason":"counting"}"#).await.code, 200);
    let expected = Pause {
        by: "read+submit+operate+admin@127.0.0.1 (web)".to_owned(),
        reason: Some("counting".to_owned()),
    };
    assert_eq!(paused().await, Some(expected));
    let log = Log::default();
    let worker = site.start(&site.session, options("w1", &["mail"]), log.task_with("w1", |_| Outcome::Done));
    site.put(&site.session, "mail", 0..1).await;
    worker.has(1).await;
    assert_eq!(site.post("/workers/w1/pause", "{}").await.code, 200);
    eventually_async("the worker is paused", async || {
        show::workers(&site.session).await.unwrap().iter().any(|one| one.paused).then_some(())
    })
    .await;
    assert_eq!(site.get("/workers").await.value()["items"][0]["paused"], true);
    assert_eq!(site.post("/queues/mail/resume", "{}").await.code, 200);
    assert_eq!(paused().await, None);
    assert_eq!(log.bodies(), [""; 0], "the worker itself is paused still");
    let resumed = site.post("/workers/w1/resume", "{}").await.value();
    assert!(resumed["message"].as_str().unwrap().contains("goes on"), "{resumed}");
    site.drained(&site.session, "mail", 1).await;
    assert_eq!(log.bodies(), ["0"]);
    let idle = site.post("/queues/mail/resume", "{}").await.value();
    assert!(idle["message"].as_str().unwrap().contains("was not paused"), "{idle}");
    site.post("/queues/none/pause", "{}").await.problem(404);
    site.post("/workers/none/pause", "{}").await.problem(404);
    let nobody = Scope::Worker("w1".parse().unwrap());
    assert!(!menagerie_queues::admin::resume(&site.session, &nobody).await.unwrap());
    worker.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_killed() {
    let site = Site::new("web-kill").await;
    site.job("j1", "count").await;
    assert_eq!(site.get("/flows/j1").await.value()["job"]["state"], "submitted");
    assert_eq!(site.post("/flows/j1/kill", "{}").await.code, 200);
    let plan = site.session.term().read(&deployment().plan(&"j1".parse().unwrap())).await.unwrap();
    assert!(plan.unwrap().value.kill, "the coordinator ends it");
    site.post("/flows/none/kill", "{}").await.problem(404);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_pipelines_cannot_do_is_refused_with_a_reason() {
    let site = Site::new("web-pipelines").await;
    let change = r#"{"change":"app:propose/main/x"}"#;
    for act in ["enqueue", "dequeue"] {
        site.post(&format!("/pipelines/none/gate/{act}"), change).await.problem(404);
        site.post(&format!("/pipelines/none/gate/{act}"), r#"{"change":"x"}"#).await.problem(400);
    }
    let why = site.post("/approvals", change).await.problem(409);
    assert!(why.contains("repositories"), "{why}");
}
