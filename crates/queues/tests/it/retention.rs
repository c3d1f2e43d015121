//! Retention: handled messages are dropped after a while; waiting ones stay.

use std::fs::{DirEntry, File};
use std::io::Read as _;
use std::path::Path;
use std::time::Duration;

use menagerie_journal::{Journal as _, MessageId, NewMessage, Topic};
use menagerie_kernel::Session;
use menagerie_queues::MessageUuid;
use menagerie_queues::admin::browse::Browser;
use menagerie_queues::admin::failed::FailedMessages;
use menagerie_queues::admin::show::show;
use menagerie_queues::admin::{self, Change, Changed, Destination, Purged};
use menagerie_queues::coordination::cursor;
use menagerie_queues::core::ledger::Ack;
use menagerie_queues::task::{Outcome, Work};
use menagerie_testkit::eventually_async;
use menagerie_znodes::queues::{Keep, QueueName, Settings};

use crate::world::{JOURNAL, Log, World, cursor_of, options};

/// The shortest retention: handled messages are dropped with the worker's next report.
const AT_ONCE: Keep = Keep::For(Duration::ZERO);

fn queue(name: &str) -> QueueName {
    name.parse().unwrap()
}

async fn create(world: &World, session: &Session, name: &str, partitions: u16, keep: Keep) {
    let settings = Settings { keep, ..admin::default_settings(partitions, JOURNAL) };
    admin::create_with(session, &world.journals(), &queue(name), &settings).await.unwrap();
}

/// Messages stored in all partitions.
async fn there(world: &World, topic: &str) -> u64 {
    let stats = world.store().stats(&Topic::new(topic).unwrap()).await.unwrap();
    stats.iter().map(|stats| stats.messages).sum()
}

async fn has_left(world: &World, topic: &str, messages: u64) {
    let what = format!("{topic} has {messages} messages");
    eventually_async(&what, async || (there(world, topic).await == messages).then_some(())).await;
}

async fn keep(world: &World, session: &Session, name: &str, keep: Keep) {
    let change = Change { keep: Some(keep), ..Change::default() };
    let changed = admin::change(session, &world.journals(), &queue(name), &change).await.unwrap();
    assert!(matches!(changed, Changed::To(Settings { keep: is, .. }) if is == keep), "{changed:?}");
}

/// Bytes of all files below this folder.
fn size(folder: &Path) -> u64 {
    let below = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let bytes = |entry: DirEntry| match entry.path() {
        folder if folder.is_dir() => size(&folder),
        _ => entry.metadata().map_or(0, |file| file.len()),
    };
    below.map(bytes).sum()
}

/// Incompressible bytes.
fn noise(bytes: usize) -> Vec<u8> {
    let mut noise = vec![0; bytes];
    File::open("/dev/urandom").unwrap().read_exact(&mut noise).unwrap();
    noise
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handled_messages_are_dropped_and_their_disk_space_freed() {
    let world = World::new("keep-room");
    let session = world.session().await;
    create(&world, &session, "mail", 2, AT_ONCE).await;
    let messages = (0..300).map(|_| (Destination::Any, NewMessage::new(noise(16 << 10)))).collect();
    world.putter(&session, "mail").await.put(messages).await.unwrap();
    let segments = world.journal.folder().join("segments");
    world.store().checkpoint().unwrap();
    let full = size(&segments);
    assert!(full > 300 * (16 << 10), "all is on disk, {full}");
    let worker = world.start(&session, options("w1", &["mail"]), |_: Work| async { vec![Outcome::Done] });
    has_left(&world, "mail", 0).await;
    assert_eq!(worker.view().await.stats.done, 300);
    // By itself it happens every ten minutes.
    world.store().checkpoint().unwrap();
    let left = size(&segments);
    assert!(left < full / 10, "{left} of {full} bytes are still there");
    // Everything continues as if nothing had happened.
    world.put(&session, "mail", 0..4).await;
    eventually_async("they are handled", async || (worker.view().await.stats.done == 304).then_some(()))
        .await;
    worker.finish().await;
}

#[tokio::test]
async fn waiting_and_failed_messages_stay_however_old() {
    let world = World::new("keep-waiting");
    let session = world.session().await;
    create(&world, &session, "mail", 1, AT_ONCE).await;
    world.put_to(&session, "mail-1", &["a", "bad", "b", "stuck", "c"]).await;
    let log = Log::default();
    let task = |body: &str| match body {
        "bad" => Outcome::failed("no"),
        "stuck" => Outcome::retry("not now"),
        _ => Outcome::Done,
    };
    let mut patient = options("w1", &["mail"]);
    (patient.failure.backoff, patient.failure.backoff_max) =
        (Some(Duration::from_secs(600)), Some(Duration::from_secs(600)));
    let worker = world.start(&session, patient, log.task_with("w1", task));
    has_left(&world, "mail", 2).await;
    let left = world.messages("mail", 1).await;
    assert_eq!(left.iter().map(|message| &message.body[..]).collect::<Vec<_>>(), [b"stuck".as_slice(), b"c"]);
    worker.finish().await;
    let failed = FailedMessages::open(&session, &world.journals(), &queue("mail")).await.unwrap();
    assert_eq!(failed.after(MessageId::ZERO, 10).await.unwrap().len(), 1);
    let failures = show(&session, &world.journals(), &queue("mail.failed")).await.unwrap();
    assert_eq!((failures.keep, failures.failed), (Keep::Forever, 1));
    let worker = world.start(&session, options("w2", &["mail"]), log.task("w2"));
    world.drained(&session, "mail", 1).await;
    worker.finish().await;
    assert_eq!(log.bodies(), ["a", "bad", "b", "stuck", "stuck", "c"]);
}

#[tokio::test]
async fn at_most_once_a_recorded_message_stays_while_it_runs() {
    let world = World::new("keep-before");
    let session = world.session().await;
    create(&world, &session, "mail", 2, AT_ONCE).await;
    world.put_to(&session, "mail-1", &["begun", "a", "b"]).await;
    let mut once = options("w1", &["mail"]);
    (once.ack, once.concurrency) = (Ack::Before, 2);
    let task = |work: Work| async move {
        if work.messages[0].body != "begun" {
            return vec![Outcome::Done];
        }
        work.lease.stopped().await;
        vec![Outcome::Stopped]
    };
    let worker = world.start(&session, once, task);
    let begun = world.messages("mail", 1).await[0].id;
    let partition = queue("mail").partition(1);
    eventually_async("it is recorded", async || {
        (cursor::to_message(cursor_of(&session, &partition).await) == begun).then_some(())
    })
    .await;
    // This shows that the worker has trimmed: it drops the oldest first.
    world.put_to(&session, "mail-2", &["other"]).await;
    has_left(&world, "mail", 3).await;
    assert_eq!(world.messages("mail", 1).await.len(), 3);
    worker.abort().await;
    let log = Log::default();
    let worker = world.start(&session, options("w2", &["mail"]), log.task("w2"));
    eventually_async("the others are handled", async || (log.bodies() == ["a", "b"]).then_some(())).await;
    worker.finish().await;
}

#[tokio::test]
async fn retention_can_change_while_workers_run() {
    let world = World::new("keep-change");
    let session = world.session().await;
    world.create(&session, "mail", 1).await;
    create(&world, &session, "news", 1, Keep::Forever).await;
    create(&world, &session, "quick", 1, AT_ONCE).await;
    for name in ["mail", "news", "quick"] {
        world.put(&session, name, 0..10).await;
    }
    let id = MessageUuid::of(&queue("mail").partition(1), &world.messages("mail", 1).await[0]);
    let log = Log::default();
    let worker = world.start(&session, options("w1", &["mail", "news", "quick"]), log.task("w1"));
    eventually_async("all are handled", async || (log.handled().len() == 30).then_some(())).await;
    // Once the worker has dropped these, it has considered the others, too.
    has_left(&world, "quick", 0).await;
    assert_eq!((there(&world, "mail").await, there(&world, "news").await), (10, 10));
    let browser = Browser::open(&session, &world.journals(), &queue("mail")).await.unwrap();
    let found = browser.with_id(&browser.partitions(None).unwrap(), id).await.unwrap();
    assert_eq!(found.len(), 1, "it was handled, and can be looked at");
    let view = show(&session, &world.journals(), &queue("mail")).await.unwrap();
    assert_eq!((view.keep, view.messages()), (Keep::default(), 10));
    for name in ["mail", "news"] {
        keep(&world, &session, name, AT_ONCE).await;
        has_left(&world, name, 0).await;
    }
    keep(&world, &session, "quick", Keep::Forever).await;
    let view = show(&session, &world.journals(), &queue("quick")).await.unwrap();
    assert_eq!(view.keep, Keep::Forever);
    worker.finish().await;
}

#[tokio::test]
async fn handled_messages_can_be_purged_at_once_and_waiting_ones_stay() {
    let world = World::new("keep-purge");
    let session = world.session().await;
    world.create(&session, "mail", 2).await;
    let purge = async || admin::purge_handled(&session, &world.journals(), &queue("mail")).await.unwrap();
    world.put(&session, "mail", 0..10).await;
    assert_eq!(purge().await, Purged::default(), "nobody has handled any");
    let log = Log::default();
    let worker = world.start(&session, options("w1", &["mail"]), log.task("w1"));
    world.drained(&session, "mail", 2).await;
    worker.finish().await;
    world.put(&session, "mail", 10..13).await;
    let purged = purge().await;
    assert_eq!((purged.partitions, purged.messages), (2, 10));
    assert!(purged.bytes >= 10, "{purged:?}");
    assert_eq!(purge().await, Purged::default());
    assert_eq!(there(&world, "mail").await, 3);
    let worker = world.start(&session, options("w2", &["mail"]), log.task("w2"));
    world.drained(&session, "mail", 2).await;
    worker.finish().await;
    assert_eq!(log.handled().len(), 13, "each once");
}
