//! A message with its story.

use std::sync::Arc;
use std::time::Duration;

use menagerie_queues::admin::failed::FailedMessages;
use menagerie_queues::task::Outcome;
use menagerie_testkit::eventually_async;
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::site::{KEY, OTHER_KEY, Site, ask};
use crate::watched::Watched;
use crate::world::{Log, World, options};

const QUEUE: &str = "/v1/notes/mail";

/// A request waits two seconds for its turn.
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread")]
async fn few_stories_are_read_at_a_time_and_fewer_for_those_without_a_key() {
    let world = World::new("http-stories-many");
    let (journal, site) = Watched::site(&world).await;
    let site = Arc::new(site);
    site.queue("queue_name=mail&type=public").await;
    let path = format!("{QUEUE}/messages/{}", site.post(QUEUE, 1, "x").await);
    let authorization = format!("Application {KEY}");
    journal.hold_reads(true);
    let mut asked = JoinSet::new();
    let mut answers = Vec::new();
    for (headers, count) in [(Vec::new(), 6), (vec![("Authorization".to_owned(), authorization.clone())], 14)]
    {
        for _ in 0..count {
            let (address, path, headers) = (site.address, path.clone(), headers.clone());
            asked.spawn(async move {
                let headers: Vec<_> =
                    headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
                ask(address, "GET", &path, &headers, b"").await
            });
        }
        // Those that got no turn have their answer: two of either kind.
        for _ in 0..2 {
            let answer =
                timeout(PATIENCE, asked.join_next()).await.expect("it is refused, and does not wait");
            answers.push(answer.unwrap().unwrap());
        }
    }
    for refused in answers {
        assert_eq!(refused.code, 503, "{refused:?}");
        assert!(refused.reason("busy").contains("with their stories"));
        assert!(refused.head.to_lowercase().contains("retry-after: 1"), "{}", refused.head);
    }
    eventually_async("the others wait", async || (site.open_requests() == 16).then_some(())).await;
    journal.hold_reads(false);
    assert!(asked.join_all().await.iter().all(|answer| answer.code == 200));
    assert_eq!(site.own("GET", &path, "").await.code, 200, "there are turns again");
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_of_a_public_queue_are_not_told_who_works_there() {
    let world = World::new("http-stories-public");
    let site = Site::new(&world).await;
    site.queue("queue_name=mail&type=public").await;
    let body = json!({"messages": [{"body": "x", "key": "customer 7"}]}).to_string();
    let posted = site.own_with("POST", QUEUE, &[("Content-Type", "application/json")], body.as_bytes()).await;
    let id = posted.json()["messages"][0]["key"].as_str().unwrap().to_owned();
    let path = format!("{QUEUE}/messages/{id}");
    let task = Log::default().task_with("w1", |_| Outcome::failed("secret reason"));
    let worker = world.start(&site.session, options("secret-worker", &["notes:mail"]), task);
    world.drained(&site.session, "notes:mail", 1).await;
    worker.finish().await;
    let queue = "notes:mail".parse().unwrap();
    let failed = FailedMessages::open(&site.session, &world.journals(), &queue).await.unwrap();
    let failed = failed.acting_as("secret-person");
    let found = failed.find(id.parse().unwrap()).await.unwrap().unwrap();
    assert!(failed.retry(&found).await.unwrap());
    let told = async |authorization: Option<&str>| {
        let headers: Vec<_> = authorization.map(|value| ("Authorization", value)).into_iter().collect();
        let answer = site.ask("GET", &path, &headers, b"").await;
        assert_eq!(answer.code, 200);
        (String::from_utf8(answer.body.clone()).unwrap(), answer.json()["message"].clone())
    };
    let (own, other) = (format!("Application {KEY}"), format!("Application {OTHER_KEY}"));
    let (text, all) = told(Some(&own)).await;
    for secret in ["secret-worker", "secret reason", "secret-person", "notes/", "customer 7"] {
        assert!(text.contains(secret), "{secret} in {text}");
    }
    for stranger in [None, Some(other.as_str())] {
        let (text, public) = told(stranger).await;
        for secret in ["secret", "notes/", "customer 7"] {
            assert!(!text.contains(secret), "{secret} in {text}");
        }
        for field in ["state", "timestamp", "partition", "body", "message_id", "story_is_incomplete"] {
            assert_eq!(public[field], all[field], "{field}");
        }
        for (line, full) in public["story"].as_array().unwrap().iter().zip(all["story"].as_array().unwrap()) {
            assert_eq!((&line["what"], &line["at_ms"]), (&full["what"], &full["at_ms"]));
            assert_eq!(line.as_object().unwrap().len(), full.as_object().unwrap().len(), "{line}");
        }
    }
}
