//! The fields of posted messages, and what has become of one.

use menagerie_journal::{MessageId, NewMessage};
use menagerie_queues::Meta;
use menagerie_queues::admin;
use menagerie_queues::admin::failed::FailedMessages;
use menagerie_queues::task::Outcome;
use menagerie_testkit::eventually_async;
use menagerie_znodes::queues::Order;
use serde_json::{Value, json};

use crate::site::{Answer, Site};
use crate::world::{Log, World, options};

const QUEUE: &str = "/v1/notes/mail";
const JSON: (&str, &str) = ("Content-Type", "application/json");

async fn site(name: &str, partitions: u16) -> (World, Site) {
    let world = World::new(name);
    let site = Site::new(&world).await;
    site.queue(&format!("queue_name=mail&partitions={partitions}")).await;
    (world, site)
}

async fn post(site: &Site, messages: Value) -> Answer {
    let body = json!({ "messages": messages }).to_string();
    site.own_with("POST", QUEUE, &[JSON], body.as_bytes()).await
}

async fn state(site: &Site, id: &str) -> (u16, Value) {
    let answer = site.own("GET", &format!("{QUEUE}/messages/{id}"), "").await;
    (answer.code, answer.json()["message"].clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_of_one_key_go_to_one_partition_as_on_the_command_line() {
    let (world, site) = site("http-key", 7).await;
    let posted = post(&site, json!([{"body": "a", "key": "k"}, {"body": "b", "key": "k"}])).await.json();
    let mut putter = world.putter(&site.session, "notes:mail").await;
    let same = putter.choose_partition(&admin::Destination::Key(b"k".to_vec())).unwrap();
    for message in posted["messages"].as_array().unwrap() {
        assert_eq!(message["partition"], same.number());
    }
    let stored = world.messages("notes:mail", same.number().into()).await;
    assert_eq!(Meta::of(&stored[0]).key.as_deref(), Some("k"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delayed_message_is_delivered_when_it_is_due() {
    let (world, site) = site("http-delay", 1).await;
    let posted =
        post(&site, json!([{"body": "later", "delay": "1h"}, {"body": "soon", "delay": "300ms"}])).await;
    let posted = posted.json()["messages"].clone();
    assert_eq!(posted[0]["delayed"], true);
    let id = posted[0]["key"].as_str().unwrap();
    let (code, message) = state(&site, id).await;
    assert_eq!((code, &message["state"], &message["body"]), (200, &json!("delayed"), &json!("later")));
    assert_eq!(message["message_id"], id);
    let log = Log::default();
    let worker = world.start(&site.session, options("w1", &["notes:mail"]), log.task("w1"));
    eventually_async("it is due", async || (log.bodies() == ["soon"]).then_some(())).await;
    worker.finish().await;
    let at = post(&site, json!([{"body": "past", "at": "2001-01-01T00:00:00Z"}])).await;
    assert_eq!(at.code, 201, "{at:?}");
    eventually_async("what was due long ago is there", async || {
        site.own("GET", QUEUE, "").await.bodies().contains(&"past".to_owned()).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_messages_with_the_same_dedup_id_the_first_counts() {
    let (world, site) = site("http-dedup", 3).await;
    let first = post(&site, json!([{"body": "a", "dedup": "d"}])).await.json();
    let again = post(&site, json!([{"body": "a", "dedup": "d"}, {"body": "b"}])).await.json();
    assert_eq!(first["messages"][0], again["messages"][0]);
    let counted = site.own("GET", "/v1/notes?include_count=1", "").await.json();
    assert_eq!(counted["queues"][0]["count"], 2);
    // A repetition that says something else, and would go to another partition, is answered with the first one all the same.
    let keys = (0..9).map(|key| json!({"body": "another", "dedup": "d", "key": key.to_string()}));
    for answered in post(&site, keys.collect()).await.json()["messages"].as_array().unwrap() {
        assert_eq!(*answered, first["messages"][0]);
    }
    let mut putter = world.putter(&site.session, "notes:mail").await;
    let of_a_producer = NewMessage { dedup: Some("put/p".into()), ..NewMessage::new("x") };
    let put = putter.put(vec![(admin::Destination::Any, of_a_producer)]).await.unwrap().remove(0);
    let again = post(&site, json!([{"body": "y", "dedup": "p"}])).await.json()["messages"][0].clone();
    let expected = (put.partition.number(), put.id.unwrap().to_string().replace('-', ""));
    assert_eq!((&again["partition"], &again["key"]), (&json!(expected.0), &json!(expected.1)));
    let delayed = json!([{"body": "c", "dedup": "e", "delay": 60}]);
    let first = post(&site, delayed.clone()).await.json();
    assert_eq!(first["messages"][0]["delayed"], true);
    assert_eq!(post(&site, delayed).await.json(), first);
    let id = first["messages"][0]["key"].as_str().unwrap();
    assert_eq!(site.own("DELETE", &format!("{QUEUE}/{id}"), "").await.code, 200);
    let again = post(&site, json!([{"body": "other"}, {"body": "c", "dedup": "e"}])).await;
    let why = again.reason("1.dedup");
    assert!(again.code == 409 && why.contains("was cancelled. All other messages"), "{again:?}");
    let counted = site.own("GET", "/v1/notes?include_count=1", "").await.json();
    assert_eq!(counted["queues"][0]["count"], 4, "as it says");
}

#[tokio::test(flavor = "multi_thread")]
async fn however_many_delayed_messages_a_request_repeats_each_is_found() {
    let (_world, site) = site("http-dedup-many", 2).await;
    let all: Vec<Value> = (0..50).map(|n| json!({"body": n.to_string(), "delay": "1h"})).collect();
    let body = json!({ "messages": all }).to_string();
    let headers = [JSON, ("Idempotency-Key", "once")];
    let first = site.own_with("POST", QUEUE, &headers, body.as_bytes()).await;
    assert_eq!(first.code, 201, "{first:?}");
    let again = site.own_with("POST", QUEUE, &headers, body.as_bytes()).await;
    assert_eq!((again.code, again.json()), (201, first.json()));
}

#[tokio::test(flavor = "multi_thread")]
async fn only_queues_without_order_take_priorities() {
    let (world, site) = site("http-priority", 1).await;
    let message = json!([{"body": "a", "priority": 5}]);
    let refused = post(&site, message.clone()).await;
    assert!(refused.code == 400 && refused.reason("0.priority").contains("--order none"), "{refused:?}");
    let queue = "notes:unordered".parse().unwrap();
    let mut settings = admin::default_settings(1, crate::world::JOURNAL);
    settings.handling.order = Order::None;
    admin::create_with(&site.session, &world.journals(), &queue, &settings).await.unwrap();
    let body = json!({ "messages": message }).to_string();
    let posted = site.own_with("POST", "/v1/notes/unordered", &[JSON], body.as_bytes()).await;
    assert_eq!(posted.code, 201, "{posted:?}");
    assert_eq!(Meta::of(&world.messages("notes:unordered", 1).await[0]).priority, 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_bad_field_and_nothing_of_the_batch_is_stored() {
    let (world, site) = site("http-bad-field", 1).await;
    for (message, field) in [
        (json!({"body": "b", "colour": "blue"}), "1.colour"),
        (json!({"body": "b", "Delay": 5}), "1.Delay"),
        (json!({"body": "b", "delay": "soon"}), "1.delay"),
        (json!({"body": "b", "delay": 1, "at": 1}), "1.delay"),
        (json!({"body": "b", "at": "noon"}), "1.at"),
        (json!({"body": "b", "key": "k", "partition": 1}), "1.key"),
        (json!({"body": "b", "ttl": 0}), "1.ttl"),
        (json!({"body": "b", "dedup": ""}), "1.dedup"),
    ] {
        let refused = post(&site, json!([{"body": "a", "delay": 1}, message, {"body": "c"}])).await;
        assert_eq!(refused.code, 400, "{field}");
        refused.reason(field);
    }
    let stats =
        admin::show::show(&site.session, &world.journals(), &"notes:mail".parse().unwrap()).await.unwrap();
    assert_eq!((stats.messages(), stats.delayed()), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_says_what_has_become_of_it() {
    let (world, site) = site("http-state", 3).await;
    let (good, bad) = (site.post(QUEUE, 2, "good").await, site.post(QUEUE, 3, "bad").await);
    let (code, waiting) = state(&site, &good).await;
    assert_eq!((code, &waiting["state"], &waiting["partition"]), (200, &json!("waiting"), &json!(2)));
    let mut options = options("w1", &["notes:mail"]);
    options.failure.attempts = Some(std::num::NonZeroU32::MIN);
    let worker = world.start(&site.session, options, |work: menagerie_queues::task::Work| async move {
        match &work.messages[0].body[..] {
            b"bad" => vec![Outcome::failed("no")],
            _ => vec![Outcome::Done],
        }
    });
    world.drained(&site.session, "notes:mail", 3).await;
    worker.finish().await;
    let done = state(&site, &good).await.1;
    assert_eq!((&done["state"], &done["story"][0]["via"]), (&json!("done"), &json!("http")));
    assert_eq!(
        (&done["story"][1]["what"], &done["story"][1]["worker"], &done["story"][1]["outcome"]),
        (&json!("attempt"), &json!("w1"), &json!("done"))
    );
    let failed = state(&site, &format!("3:{bad}")).await.1;
    assert_eq!((&failed["state"], &failed["story"][1]["error"]), (&json!("failed"), &json!("no")));
    assert_eq!(failed["story_is_incomplete"], false);
    let site = &site;
    let code = async |id: String| site.own("GET", &format!("{QUEUE}/messages/{id}"), "").await.code;
    assert_eq!(code(format!("1:{bad}")).await, 404, "it is in another partition");
    assert_eq!(code(format!("9:{bad}")).await, 404);
    assert_eq!(code("0".repeat(32)).await, 404);
    for wrong in ["x".to_owned(), format!("{good},{bad}"), format!("{good}0")] {
        assert_eq!(code(wrong.clone()).await, 400, "{wrong}");
    }
    assert_eq!(site.ask("GET", &format!("{QUEUE}/messages/{good}"), &[], b"").await.code, 403);
    assert_eq!(site.own("DELETE", &format!("{QUEUE}/messages/{good}"), "").await.code, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_deleted_a_message_is_in_its_story() {
    let (world, site) = site("http-deleted", 1).await;
    let posted = post(&site, json!([{"body": "later", "delay": "1h", "key": "k"}])).await.json();
    let delayed = posted["messages"][0]["key"].as_str().unwrap().to_owned();
    for id in [site.post(QUEUE, 1, "waiting").await, delayed] {
        assert_eq!(site.own("DELETE", &format!("{QUEUE}/{id}"), "").await.code, 200);
        let (code, message) = state(&site, &id).await;
        let story = message["story"].as_array().unwrap();
        assert_eq!((code, &message["state"], story.len()), (200, &json!("forgotten"), 2), "{message}");
        assert_eq!((&story[0]["what"], &story[0]["via"]), (&json!("put"), &json!("http")));
        assert_eq!((&story[1]["what"], &story[1]["act"]), (&json!("act"), &json!("deleted")));
        assert!(story[1]["by"].as_str().unwrap().starts_with("notes/"), "{message}");
    }
    let log = Log::default();
    let worker = world.start(&site.session, options("w1", &["notes:mail"]), log.task("w1"));
    site.post(QUEUE, 1, "last").await;
    eventually_async("the rest is handled", async || (log.bodies() == ["last"]).then_some(())).await;
    worker.finish().await;
}

/// The copy that failed is kept for a while under the same id.
#[tokio::test(flavor = "multi_thread")]
async fn of_a_retried_message_the_one_that_waits_is_deleted() {
    let (world, site) = site("http-delete-retried", 1).await;
    let id = site.post(QUEUE, 1, "bad").await;
    let mut options = options("w1", &["notes:mail"]);
    options.failure.attempts = Some(std::num::NonZeroU32::MIN);
    let task = Log::default().task_with("w1", |_| Outcome::failed("no"));
    let worker = world.start(&site.session, options, task);
    world.drained(&site.session, "notes:mail", 1).await;
    worker.finish().await;
    let queue = "notes:mail".parse().unwrap();
    let failed = FailedMessages::open(&site.session, &world.journals(), &queue).await.unwrap();
    let failure = failed.after(MessageId::ZERO, 1).await.unwrap().remove(0);
    assert!(failed.retry(&failure).await.unwrap());
    assert_eq!(state(&site, &id).await.1["state"], "waiting");
    assert_eq!(site.own("DELETE", &format!("{QUEUE}/{id}"), "").await.code, 200);
    assert_eq!(state(&site, &id).await.1["state"], "forgotten");
    let view = admin::show::show(&site.session, &world.journals(), &queue).await.unwrap();
    assert_eq!((view.lag(), view.failed), (0, 0));
}
