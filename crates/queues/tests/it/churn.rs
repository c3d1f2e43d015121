//! Workers that join and leave at random, while messages are put.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use menagerie_kernel::Session;
use menagerie_queues::task::{Outcome, Work};

use crate::world::{Log, Running, World, options};

const PARTITIONS: u16 = 6;

/// A small random number generator with a visible seed.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// Length of the test: `MENAGERIE_TEST_CHURN` seconds, or a few.
fn length() -> Duration {
    let seconds = std::env::var("MENAGERIE_TEST_CHURN").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(seconds.unwrap_or(8))
}

async fn churn(name: &str, kills: bool) {
    let world = World::new(name);
    let session = world.session().await;
    world.create(&session, "mail", PARTITIONS).await;
    let seed = 0x9e37_79b9_7f4a_7c15 ^ u64::from(std::process::id());
    println!("seed {seed:#x}");
    let (mut chance, log) = (Chance(seed), Log::default());
    let (mut workers, mut started, mut put, mut killed): (Vec<(Running, Session)>, _, _, _) =
        (Vec::new(), 0, 0, 0);
    let began = Instant::now();
    while began.elapsed() < length() {
        world.put(&session, "mail", put..put + 30).await;
        put += 30;
        match chance.below(3) {
            0 | 1 if workers.len() < 8 => {
                started += 1;
                let (own, worker) = (world.session().await, format!("w{started}"));
                let noted = log.clone();
                let called = worker.clone();
                let task = move |work: Work| {
                    let entry = noted.begin(&called, &work);
                    async move {
                        // What the task takes: workers are killed in the middle of it.
                        tokio::time::sleep(Duration::from_millis(1)).await;
                        drop(entry);
                        vec![Outcome::Done]
                    }
                };
                workers.push((world.start(&own, options(&worker, &["mail"]), task), own));
            }
            _ if !workers.is_empty() => {
                let (worker, _own) = workers.swap_remove(chance.below(workers.len() as u64) as usize);
                if kills && chance.below(2) == 0 {
                    worker.kill().await;
                    killed += 1;
                } else {
                    worker.finish().await;
                }
            }
            _ => {}
        }
        // The churn's pace, drawn like all of it: nothing is waited for.
        tokio::time::sleep(Duration::from_millis(chance.below(120))).await;
    }
    let own = world.session().await;
    let last = world.start(&own, options("last", &["mail"]), log.task("last"));
    world.drained(&session, "mail", PARTITIONS).await;
    for (worker, _own) in workers {
        worker.finish().await;
    }
    last.finish().await;
    let most = if kills { killed * 2 * usize::from(PARTITIONS) } else { 0 };
    check(&log, put, most);
}

/// Every message was handled, in order; only messages that killed workers had not recorded were repeated.
fn check(log: &Log, put: u32, repeats_max: usize) {
    let mut last: BTreeMap<String, u32> = BTreeMap::new();
    let mut seen = vec![0_usize; put as usize];
    for handled in log.handled() {
        let number: u32 = handled.body.parse().unwrap();
        let before = seen[number as usize];
        seen[number as usize] += 1;
        let highest = last.entry(handled.partition.clone()).or_insert(number);
        if before == 0 {
            assert!(number >= *highest, "{} handled {number} after {highest}", handled.partition);
            *highest = number;
        }
    }
    let missing: Vec<usize> = (0..seen.len()).filter(|number| seen[*number] == 0).collect();
    assert!(missing.is_empty(), "never handled: {missing:?}");
    let repeats: usize = seen.iter().map(|count| count - 1).sum();
    println!("{put} messages, {repeats} repeats of at most {repeats_max}");
    assert!(repeats <= repeats_max, "{repeats} repeats");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_workers_join_and_leave_messages_are_handled_in_order_exactly_once() {
    churn("churn", false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_workers_are_killed_messages_are_handled_in_order_at_least_once() {
    churn("churn-kills", true).await;
}
