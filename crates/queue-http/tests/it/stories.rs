//! A message with its story.

use std::sync::Arc;
use std::time::Duration;

use menagerie_testkit::eventually_async;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::site::{KEY, Site, ask};
use crate::watched::Watched;
use crate::world::World;

const QUEUE: &str = "/v1/notes/mail";

/// A request waits two seconds for its turn.
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread")]
async fn few_stories_are_read_at_a_time_and_fewer_for_those_without_a_key() {
    let world = World::new("http-stories-many");
    let journal = Watched::new(&world);
    let site = Arc::new(Site::over(&world, journal.journals()).await);
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
