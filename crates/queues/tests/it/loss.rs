//! Partitions lost while in use.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use menagerie_journal::{
    Commit, Consumer, Fence, Journal as _, JournalError, MessageId, PartitionId, PartitionStats, Ticks, Topic,
};
use menagerie_queues::admin::{self, Scope};
use menagerie_queues::coordination::claim::{Claim, Claimed, claim};
use menagerie_queues::coordination::cursor::{Record, write_all};
use menagerie_queues::core::lane::{Handover, RecordPlan};
use menagerie_queues::core::ledger::Recorded;
use menagerie_queues::core::tally::Attempts;
use menagerie_queues::metrics::Metrics;
use menagerie_queues::task::{Outcome, Work};
use menagerie_testkit::eventually_async;
use menagerie_znodes::queues::Pause;
use prometheus_client::registry::Registry;

use crate::world::{LONG, Log, SHORT, World, cursor_of, options};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_ends_before_another_worker_runs_its_message_and_nothing_is_recorded() {
    let world = World::new("expiry");
    let session = world.session().await;
    world.create(&session, "mail", 1).await;
    let log = Log::default();
    let (cut_off, proxy) = world.session_through_proxy(SHORT * 2).await;
    // It ignores requests to stop.
    let first = world.start(&cut_off, options("w1", &["mail"]), log.endless("w1", false));
    first.has(1).await;
    let second = world.start(&session, options("w2", &["mail"]), log.task("w2"));
    world.put_to(&session, "mail-1", &["one", "two"]).await;
    eventually_async("the first one works", async || (!log.handled().is_empty()).then_some(())).await;
    let before = cursor_of(&session, &"mail-1".parse().unwrap()).await;
    assert_eq!(before.0, 0, "nothing is recorded yet");
    proxy.partition();
    world.drained(&session, "mail", 1).await;
    let handled = log.handled();
    let runs: Vec<_> =
        handled.iter().map(|entry| (entry.worker.as_str(), entry.body.as_str(), entry.attempt)).collect();
    assert_eq!(runs, [("w1", "one", 1), ("w2", "one", 2), ("w2", "two", 2)]);
    assert!(handled[0].ended.unwrap() <= handled[1].began, "two at once");
    // Once back, it is an ordinary worker again.
    proxy.heal();
    eventually_async("it is listed again", async || {
        let view = first.view().await;
        (view.stats.lost == 1).then_some(())
    })
    .await;
    second.finish().await;
    first.has(1).await;
    first.finish().await;
}

/// One thread: while the test blocks it, everything stands still, as in a stopped process. When it continues,
/// everything overdue happens at once, in any order.
#[tokio::test]
async fn a_frozen_worker_begins_nothing_after_its_lease() {
    let world = World::new("frozen");
    // Its session does not end with the freeze.
    let session = world.session_with(|config| config.timeout = LONG * 3).await;
    world.create(&session, "mail", 16).await;
    let frozen = world.session_with(|config| config.timeout = SHORT).await;
    let (begun, late) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (count, count_late) = (begun.clone(), late.clone());
    let mut options = options("w1", &["mail"]);
    options.concurrency = 16;
    options.failure.backoff = Some(Duration::from_secs(1));
    options.failure.backoff_max = Some(Duration::from_secs(1));
    options.failure.attempts = Some(NonZeroU32::MAX);
    let worker = world.start(&frozen, options, move |work: Work| {
        let (count, count_late) = (count.clone(), count_late.clone());
        async move {
            count.fetch_add(1, Ordering::Relaxed);
            let over = (*work.lease.valid_until().borrow() + SHORT / 4).has_passed();
            count_late.fetch_add(usize::from(over), Ordering::Relaxed);
            vec![Outcome::retry("not yet")]
        }
    });
    worker.has(16).await;
    world.put(&session, "mail", 0..16).await;
    for _ in 0..3 {
        let before = begun.load(Ordering::Relaxed);
        eventually_async("they are tried", async || {
            (begun.load(Ordering::Relaxed) >= before + 16).then_some(())
        })
        .await;
        // The fault: the only thread of this process stands still, for longer than its session lasts.
        std::thread::sleep(SHORT * 2);
    }
    let before = begun.load(Ordering::Relaxed);
    eventually_async("it goes on", async || (begun.load(Ordering::Relaxed) >= before + 16).then_some(()))
        .await;
    assert_eq!(late.load(Ordering::Relaxed), 0, "begun after the lease was over");
    worker.abort().await;
}

/// A record of everything through this message.
fn through(cursor: MessageId) -> RecordPlan {
    RecordPlan { cursor, beyond: None }
}

async fn ours(world: &World, session: &menagerie_kernel::Session, worker: &str) -> Box<Claimed> {
    ours_of(world, session, worker, "mail-1").await
}

async fn ours_of(
    world: &World,
    session: &menagerie_kernel::Session,
    worker: &str,
    partition: &str,
) -> Box<Claimed> {
    let metrics = Metrics::new(&mut Registry::default());
    let partition = partition.parse().unwrap();
    match claim(session, &world.journals(), &partition, &options(worker, &["mail"]), &metrics).await.unwrap()
    {
        Claim::Ours(claimed) => claimed,
        Claim::Gone => panic!("it is there"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_owner_that_was_cut_off_changes_neither_cursor_nor_journal() {
    let world = World::new("zombie");
    let session = world.session().await;
    world.create(&session, "mail", 1).await;
    let (cut_off, proxy) = world.session_through_proxy(SHORT).await;
    let zombie = ours(&world, &cut_off, "w1").await;
    assert_eq!(zombie.ownership.predecessor, None, "nobody was there before");
    proxy.partition();
    let owner = ours(&world, &session, "w2").await;
    assert_eq!(owner.ownership.predecessor.as_ref().map(|holder| holder.window), Some(2));
    assert!(owner.held.fence() > zombie.held.fence());
    let position = MessageId(Ticks::now());
    assert_eq!(
        Record::new(owner.cursor.clone(), owner.held.grant(), &through(position)).write().await,
        Recorded::Confirmed
    );
    proxy.heal();
    let later = MessageId(Ticks::now());
    assert_ne!(
        Record::new(zombie.cursor.clone(), zombie.held.grant(), &through(later)).write().await,
        Recorded::Confirmed
    );
    let attempts = Attempts { attempts: 7, given_up: false };
    let states = vec![zombie.fenced.attempts(later, Some(&attempts))];
    let commit = Commit { states, ..Commit::default() };
    let refused = world.store().commit(commit).await;
    assert!(matches!(refused, Err(JournalError::Fenced { .. })), "{refused:?}");
    let stored = cursor_of(&session, &"mail-1".parse().unwrap()).await;
    assert_eq!(stored.to_string(), position.seconds());
    // After a clean release nothing is suspect.
    menagerie_queues::coordination::claim::release(
        owner.held,
        &owner.fenced,
        Handover { position, ..Handover::default() },
    )
    .await
    .unwrap();
    assert_eq!(ours(&world, &session, "w3").await.ownership.predecessor, None);
}

#[tokio::test]
async fn a_refused_record_does_not_block_the_others_of_its_request() {
    let world = World::new("together");
    let session = world.session().await;
    world.create(&session, "mail", 2).await;
    let (kept, lost) =
        (ours_of(&world, &session, "w1", "mail-1").await, ours_of(&world, &session, "w1", "mail-2").await);
    let first = MessageId(Ticks::now());
    let record =
        |claimed: &Claimed| Record::new(claimed.cursor.clone(), claimed.held.grant(), &through(first));
    let made = write_all(&[record(&lost), record(&kept)]).await;
    assert_eq!(made, [Recorded::Confirmed, Recorded::Confirmed]);
    // Somebody removes a ticket by hand.
    let grant = lost.held.grant();
    grant.term().delete(grant.ticket(), None).await.unwrap();
    let second = MessageId(Ticks::now());
    let record =
        |claimed: &Claimed| Record::new(claimed.cursor.moved(first), claimed.held.grant(), &through(second));
    let made = write_all(&[record(&lost), record(&kept)]).await;
    assert_eq!(made, [Recorded::Refused, Recorded::Confirmed]);
    for (partition, position) in [("mail-1", second), ("mail-2", first)] {
        let stored = cursor_of(&session, &partition.parse().unwrap()).await;
        assert_eq!(stored.to_string(), position.seconds(), "{partition}");
    }
}

#[tokio::test]
async fn a_worker_refused_by_the_journal_does_not_begin_the_message() {
    let world = World::new("fenced");
    let session = world.session().await;
    world.create(&session, "mail", 1).await;
    // An owner that does not release: the next attempt is stored before it begins.
    drop(ours(&world, &session, "w0").await);
    let scope = Scope::Queue("mail".parse().unwrap());
    admin::pause(&session, &scope, &Pause { by: "me".to_owned(), reason: None }).await.unwrap();
    world.put_to(&session, "mail-1", &["one"]).await;
    let log = Log::default();
    let worker = world.start(&session, options("w1", &["mail"]), log.task("w1"));
    let fence = worker.has(1).await.partitions[0].fence.clone();
    let fence: menagerie_kernel::Fence = fence.parse().unwrap();
    let newer = Fence::new(fence.generation, fence.zxid + 1);
    let partition = PartitionId::new(Topic::new("mail").unwrap(), 1);
    world.store().open(&partition, &Consumer::new("workers").unwrap(), newer).await.unwrap();
    admin::resume(&session, &scope).await.unwrap();
    world.drained(&session, "mail", 1).await;
    assert_eq!(worker.view().await.stats.lost, 1, "it has taken it again, with a newer fence");
    assert_eq!(log.handled().len(), 1);
    worker.finish().await;
}

#[tokio::test]
async fn a_fenced_partition_does_not_block_reports_of_the_others() {
    let world = World::new("told-apart");
    let session = world.session().await;
    world.create(&session, "mail", 3).await;
    let log = Log::default();
    let worker = world.start(&session, options("w1", &["mail"]), log.task("w1"));
    let view = worker.has(3).await;
    let topic = Topic::new("mail").unwrap();
    let fence: menagerie_kernel::Fence = view.partitions[1].fence.parse().unwrap();
    let newer = Fence::new(fence.generation, fence.zxid + 1);
    let fenced = PartitionId::new(topic.clone(), 2);
    world.store().open(&fenced, &Consumer::new("workers").unwrap(), newer).await.unwrap();
    world.put(&session, "mail", 0..30).await;
    // The fenced one, too: we have claimed it again, with a newer fence.
    eventually_async("the journal knows that all is done", async || {
        let stats = world.store().stats(&topic).await.unwrap();
        let done = |stats: &PartitionStats| stats.consumers.iter().all(|consumer| consumer.lag == 0);
        (stats.len() == 3 && stats.iter().all(done)).then_some(())
    })
    .await;
    assert_eq!(worker.view().await.stats.lost, 1);
    worker.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_connections_and_lost_replies_repeat_nothing() {
    let world = World::new("replies");
    let session = world.session().await;
    world.create(&session, "mail", 2).await;
    world.put(&session, "mail", 0..200).await;
    let log = Log::default();
    let (shaky, proxy) = world.session_through_proxy(crate::world::LONG).await;
    let worker = world.start(&shaky, options("w1", &["mail"]), log.task("w1"));
    for round in 1..=5 {
        eventually_async("some are done", async || (log.handled().len() >= round * 30).then_some(())).await;
        proxy.lose_connections();
    }
    world.drained(&session, "mail", 2).await;
    worker.finish().await;
    let mut numbers: Vec<u32> = log.bodies().iter().map(|body| body.parse().unwrap()).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..200).collect::<Vec<_>>(), "each once: nobody was killed");
}
