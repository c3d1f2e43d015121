//! Orders and retries of queues, with workers that are killed, against what was promised.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use menagerie_journal::NewMessage;
use menagerie_queues::admin::{self, Destination};
use menagerie_queues::task::{Outcome, Work};
use menagerie_testkit::eventually_async;
use menagerie_znodes::queues::{Handling, Order, Retry, Settings};
use tokio::time::sleep;

use crate::world::{JOURNAL, World, options};

const MESSAGES: u32 = 120;
const KEYS: u32 = 8;

/// What the tasks of all workers did.
#[derive(Default)]
struct Runs {
    /// Messages that run now.
    running: BTreeSet<u32>,
    /// Largest number of messages that ran at a time.
    most: usize,
    /// Messages in the order in which they were done.
    done: Vec<u32>,
    begun: BTreeMap<u32, u32>,
}

/// Messages that fail once.
fn fails_once(number: u32) -> bool {
    number % 20 == 7
}

async fn handle(runs: Arc<Mutex<Runs>>, work: Work, handling: Handling) -> Vec<Outcome> {
    let number: u32 = String::from_utf8_lossy(&work.messages[0].body).parse().unwrap();
    {
        let mut runs = runs.lock().unwrap();
        assert!(runs.running.insert(number), "{number} runs twice at a time");
        let done: BTreeSet<u32> = runs.done.iter().copied().collect();
        let waits_for = |before: &u32| match (handling.order, handling.retry()) {
            (Order::Partition, Retry::Block) => true,
            (Order::Partition, Retry::Later) => !fails_once(*before),
            (Order::Key, _) => before % KEYS == number % KEYS,
            (Order::None, _) => false,
        };
        let passed = (0..number).filter(waits_for).find(|before| !done.contains(before));
        assert_eq!(passed, None, "{number} begins before it ({handling:?})");
        runs.most = runs.most.max(runs.running.len());
        *runs.begun.entry(number).or_default() += 1;
    }
    let _end = Ended(runs.clone(), number);
    sleep(Duration::from_millis(3)).await;
    let mut runs = runs.lock().unwrap();
    if fails_once(number) && runs.begun[&number] == 1 {
        return vec![Outcome::retry("not yet")];
    }
    runs.done.push(number);
    vec![Outcome::Done]
}

/// However a run ends, it does not run any more.
struct Ended(Arc<Mutex<Runs>>, u32);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).running.remove(&self.1);
    }
}

async fn in_order(order: Order, retry: Retry) {
    let world = World::new("order");
    let session = world.session().await;
    let handling = Handling { order, retry: Some(retry), ..Handling::default() };
    let settings = Settings { handling, ..admin::default_settings(1, JOURNAL) };
    let queue = "mail".parse().unwrap();
    admin::create_with(&session, &world.journals(), &queue, &settings).await.unwrap();
    let keyed = (0..MESSAGES).map(|number| {
        let key = format!("customer-{}", number % KEYS).into_bytes();
        (Destination::Key(key), NewMessage::new(number.to_string()))
    });
    world.putter(&session, "mail").await.put(keyed.collect()).await.unwrap();
    let runs = Arc::new(Mutex::new(Runs::default()));
    let task = || {
        let runs = runs.clone();
        move |work: Work| handle(runs.clone(), work, handling)
    };
    let mut options = options("w", &["mail"]);
    options.concurrency = 6;
    options.failure.attempts = NonZeroU32::new(9);
    for (name, enough) in [("w1", 20), ("w2", 60)] {
        let own = world.session().await;
        let options = menagerie_queues::worker::Options { name: crate::world::name(name), ..options.clone() };
        let worker = world.start(&own, options, task());
        eventually_async("some are done", async || (runs.lock().unwrap().done.len() >= enough).then_some(()))
            .await;
        // Nothing of a killed worker may run on: in this process, dropping its tasks is what its guard does.
        worker.kill().await;
    }
    let worker = world.start(&session, options, task());
    world.drained(&session, "mail", 1).await;
    worker.finish().await;
    let runs = runs.lock().unwrap();
    let done: BTreeSet<u32> = runs.done.iter().copied().collect();
    assert_eq!(done, (0..MESSAGES).collect(), "nothing is lost");
    match order {
        Order::Partition => assert_eq!(runs.most, 1, "one at a time"),
        Order::Key | Order::None => assert!(runs.most > 2, "side by side: {}", runs.most),
    }
    // Two kills; each repeats at most what ran or was not recorded.
    let repeated = runs.done.len() - done.len();
    assert!(repeated <= 2 * 22, "{repeated} were repeated");
}

#[tokio::test]
async fn by_partition_and_what_is_behind_a_failure_waits() {
    in_order(Order::Partition, Retry::Block).await;
}

#[tokio::test]
async fn by_partition_and_a_failed_message_comes_back_later() {
    in_order(Order::Partition, Retry::Later).await;
}

#[tokio::test]
async fn by_key_and_what_is_behind_a_failure_waits() {
    in_order(Order::Key, Retry::Block).await;
}

#[tokio::test]
async fn by_key_and_only_the_key_of_a_failure_waits() {
    in_order(Order::Key, Retry::Later).await;
}

#[tokio::test]
async fn without_order() {
    in_order(Order::None, Retry::Later).await;
}

#[tokio::test]
async fn without_order_and_what_is_behind_a_failure_waits() {
    in_order(Order::None, Retry::Block).await;
}

#[tokio::test]
async fn a_changed_order_is_followed_by_workers_that_run() {
    let world = World::new("order-changes");
    let session = world.session().await;
    world.create(&session, "mail", 1).await;
    let queue = "mail".parse().unwrap();
    let runs = Arc::new(Mutex::new(Runs::default()));
    let none = Handling { order: Order::None, ..Handling::default() };
    let task = {
        let runs = runs.clone();
        move |work: Work| handle(runs.clone(), work, none)
    };
    let mut options = options("w1", &["mail"]);
    options.concurrency = 6;
    let worker = world.start(&session, options, task);
    worker.has(1).await;
    let handling = admin::HandlingChange { order: Some(Order::None), ..admin::HandlingChange::default() };
    let change = admin::Change { handling, ..admin::Change::default() };
    admin::change(&session, &world.journals(), &queue, &change).await.unwrap();
    eventually_async("it has taken the partition again", async || {
        (worker.view().await.stats.taken == 2).then_some(())
    })
    .await;
    world.put(&session, "mail", 0..60).await;
    world.drained(&session, "mail", 1).await;
    worker.finish().await;
    let most = runs.lock().unwrap().most;
    assert!(most > 2, "side by side: {most}");
}
