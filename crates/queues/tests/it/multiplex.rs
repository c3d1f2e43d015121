//! One program that handles many messages at a time.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use menagerie_journal::{Message, MessageId, Ticks};
use menagerie_kernel::Moment;
use menagerie_queues::runner::multiplex::Multiplex;
use menagerie_queues::runner::{Limits, Program};
use menagerie_queues::task::{Begun, Lease, Outcome, Task as _, Work};
use menagerie_testkit::binary;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::world::{World, options};

/// The example for users.
fn example() -> String {
    let docs = include_str!("../../../../docs/queues.md");
    let (_, rest) = docs.split_once("```python\nimport asyncio").expect("there is an example");
    format!("import asyncio{}", rest.split_once("```").unwrap().0)
}

fn program(text: &str, folder: &Path) -> Program {
    let file = folder.join("program.py");
    fs::write(&file, text).unwrap();
    let grace = Duration::from_millis(250);
    Program {
        command: vec!["python3".into(), file.into()],
        guard: binary().to_owned(),
        grace,
        lease_grace: grace,
        limits: Limits { time: Some(Duration::from_secs(60)), memory_bytes: None },
        user: None,
    }
}

/// The message with this number, under a lease of an hour.
fn work(number: u64, stop: &watch::Receiver<bool>) -> Work {
    let hour = Duration::from_secs(3600);
    let message = Message {
        id: MessageId(Ticks(number)),
        meta: bytes::Bytes::new(),
        body: bytes::Bytes::from(number.to_string()),
        expires: None,
    };
    Work {
        partition: "mail-1".parse().unwrap(),
        messages: vec![message],
        attempts: vec![1],
        time_limit: None,
        fence: "1-1".parse().unwrap(),
        lease: Lease::new(watch::channel(Moment::after(hour)).1, watch::channel(hour).1, stop.clone()),
        begun: Begun::default(),
    }
}

/// One at a time, tasks of 10 ms would be done at 100 per second; 64 at a time at 6,400 at best. The bound is low because
/// the machine may be busy; with `--nocapture` the test prints what was reached.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_that_wait_are_handled_side_by_side_by_the_documented_program() {
    const COUNT: u64 = 10_000;
    const IN_FLIGHT: u64 = 64;
    let folder = tempfile::tempdir().unwrap();
    let task = Arc::new(Multiplex::start(program(&example(), folder.path())).await.unwrap());
    let (_stop, stopped) = watch::channel(false);
    // The first one waits until the interpreter has started.
    assert_eq!(task.run(work(COUNT, &stopped)).await, [Outcome::Done]);
    let began = Instant::now();
    let mut asking = JoinSet::new();
    for first in 0..IN_FLIGHT {
        let (task, stopped) = (task.clone(), stopped.clone());
        asking.spawn(async move {
            for number in (first..COUNT).step_by(IN_FLIGHT as usize) {
                assert_eq!(task.run(work(number, &stopped)).await, [Outcome::Done]);
            }
        });
    }
    while let Some(asked) = asking.join_next().await {
        asked.unwrap();
    }
    let rate = COUNT as f64 / began.elapsed().as_secs_f64();
    println!("{rate:.0} messages per second, {IN_FLIGHT} in flight");
    assert!(rate > 500.0, "{rate:.0} per second: they wait for each other");
    assert_eq!((task.unanswered(), task.stray_lines()), (Vec::new(), 0));
}

/// The program replies to nothing before it has a message of each partition.
#[tokio::test]
async fn a_worker_gives_one_program_the_messages_of_all_its_partitions() {
    binary();
    let world = World::new("multiplex");
    let session = world.session().await;
    world.create(&session, "mail", 4).await;
    for partition in 1..=4 {
        world.put_to(&session, &format!("mail-{partition}"), &["a", "b", "fails"]).await;
    }
    let text = r#"
import json, os, sys
print("no reply", flush=True)
have = []
for line in sys.stdin:
    have.append(json.loads(line))
    if len(have) == 4:
        for message in reversed(have):
            ok = message["body"] != "fails"
            print(json.dumps({"id": message["id"], "ok": ok, "error": "on purpose", "retry": False}))
        sys.stdout.flush()
        have = []
"#;
    let folder = tempfile::tempdir().unwrap();
    let task = Multiplex::start(program(text, folder.path())).await.unwrap();
    let mut options = options("w1", &["mail"]);
    options.concurrency = 4;
    let worker = world.start(&session, options, task);
    world.drained(&session, "mail", 4).await;
    let stats = worker.view().await.stats;
    worker.finish().await;
    assert_eq!((stats.done, stats.given_up), (8, 4));
}

/// Nobody knows which message kills the program, until each is asked alone.
#[tokio::test]
async fn a_message_that_kills_the_program_costs_the_others_one_attempt() {
    let folder = tempfile::tempdir().unwrap();
    let text = example().replace("await asyncio.sleep(0.01)", "await work(message)") + "\n";
    let text = text.replace(
        "async def handle",
        r#"async def work(message):
    await asyncio.sleep(0.2)
    if message["body"] == "3":
        import os, signal
        os.kill(os.getpid(), signal.SIGKILL)

async def handle"#,
    );
    let task = Arc::new(Multiplex::start(program(&text, folder.path())).await.unwrap());
    let (_stop, stopped) = watch::channel(false);
    let (mut failures, mut asking) = (BTreeMap::<u64, u32>::new(), JoinSet::new());
    for number in 0..6 {
        let (task, stopped) = (task.clone(), stopped.clone());
        asking.spawn(async move {
            let mut failed = 0;
            while failed < 3 && task.run(work(number, &stopped)).await != [Outcome::Done] {
                failed += 1;
            }
            (number, failed)
        });
    }
    while let Some(asked) = asking.join_next().await {
        let (number, failed) = asked.unwrap();
        failures.insert(number, failed);
    }
    assert_eq!(failures.remove(&3), Some(3));
    assert!(failures.values().all(|failed| *failed <= 1), "{failures:?}");
}
