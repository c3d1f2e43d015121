//! Messages that run again, and whether their task knows; and workers that are asked to stop at a bad time.

use std::num::NonZeroU32;
use std::time::Duration;

use menagerie_kernel::Moment;
use menagerie_kernel::recipes::presence::Presence;
use menagerie_queues::core::ledger::{Ack, Commit};
use menagerie_queues::task::{Outcome, Task, Work};
use menagerie_queues::worker::{Ended, Options, Order};
use menagerie_testkit::{OpCode, Proxy, eventually_async};
use menagerie_znodes::queues;

use crate::world::{Log, Running, SHORT, World, name, options};

/// Upper bound for anything that ends at all.
const PATIENCE: Duration = Duration::from_secs(90);

fn runs(log: &Log) -> Vec<(String, u32)> {
    log.handled().into_iter().map(|handled| (handled.body, handled.attempt)).collect()
}

async fn begun(log: &Log, count: usize) {
    eventually_async("messages have begun", async || (log.handled().len() >= count).then_some(())).await;
}

async fn ended(worker: Running) {
    let ended = tokio::time::timeout(PATIENCE, worker.abort()).await;
    assert_eq!(ended.expect("it ends"), Ended::AskedToStop);
}

/// A task that succeeds, except for one message that runs until it is stopped.
fn stuck_at(log: &Log, body: &'static str) -> impl Task + use<> {
    let log = log.clone();
    move |work: Work| {
        let entry = log.begin("w1", &work);
        async move {
            let _entry = entry;
            if work.messages.iter().any(|message| message.body == body) {
                work.lease.stopped().await;
                return vec![Outcome::Stopped];
            }
            vec![Outcome::Done; work.messages.len()]
        }
    }
}

/// A worker that handles each message once at most.
fn once(worker: &str) -> Options {
    Options { ack: Ack::Before, ..options(worker, &["mail"]) }
}

/// The attempts that the next worker's task sees, in order.
async fn next_attempts(world: &World, options: Options) -> Vec<u32> {
    let session = world.session().await;
    let log = Log::default();
    let count = world.messages("mail", 1).await.len();
    let worker = world.start(&session, options, log.task("w2"));
    world.drained(&session, "mail", 1).await;
    eventually_async("the last has begun", async || {
        (log.bodies().last().map(String::as_str) == Some(&*count.to_string())).then_some(())
    })
    .await;
    worker.finish().await;
    runs(&log).into_iter().map(|(_, attempt)| attempt).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stall_costs_no_attempt_and_the_stopped_message_sees_that_it_runs_again() {
    let world = World::new("stall");
    let session = world.session().await;
    world.create(&session, "mail", 1).await;
    world.put_to(&session, "mail-1", &["one"]).await;
    let (stalled, proxy) = world.session_through_proxy(Duration::from_secs(6)).await;
    let log = Log::default();
    let mut options = options("w1", &["mail"]);
    options.failure.attempts = Some(NonZeroU32::MIN);
    let noted = log.clone();
    let worker = world.start(&stalled, options, move |work: Work| {
        let entry = noted.begin("w1", &work);
        async move {
            let _entry = entry;
            let done = async {
                match work.attempt_of(0) {
                    1 => std::future::pending().await,
                    // A lease that is nearly over would stop the task.
                    _ => tokio::time::sleep(Duration::from_secs(3)).await,
                }
            };
            tokio::select! {
                () = done => vec![Outcome::Done],
                () = work.lease.stopped() => vec![Outcome::Stopped],
            }
        }
    });
    begun(&log, 1).await;
    let term = stalled.term();
    proxy.hold_replies();
    term.lapsed().await;
    // By now one heartbeat extends the lease by only a moment.
    let until = *term.valid_until().borrow() + Duration::from_millis(1500);
    tokio::time::sleep(until - Moment::now()).await;
    proxy.heal();
    world.drained(&session, "mail", 1).await;
    worker.finish().await;
    assert_eq!(runs(&log), [("one".to_owned(), 1), ("one".to_owned(), 2)]);
    assert!(world.messages("mail.failed", 1).await.is_empty(), "nobody has died");
}

/// A worker that records every ten messages.
fn tens(worker: &str) -> Options {
    Options { commit: Commit::Count(NonZeroU32::new(10).unwrap()), ..options(worker, &["mail"]) }
}

#[tokio::test]
async fn all_messages_that_may_have_run_before_a_crash_see_it_whatever_the_next_workers_policy() {
    for next in [tens("w2"), options("w2", &["mail"]), once("w2")] {
        let world = World::new("crash-told");
        let session = world.session().await;
        world.create(&session, "mail", 1).await;
        let bodies: Vec<String> = (1..=24).map(|number| number.to_string()).collect();
        let bodies: Vec<&str> = bodies.iter().map(String::as_str).collect();
        world.put_to(&session, "mail-1", &bodies).await;
        let log = Log::default();
        let own = world.session().await;
        let worker = world.start(&own, tens("w1"), stuck_at(&log, "8"));
        begun(&log, 8).await;
        worker.kill().await;
        let attempts = next_attempts(&world, next).await;
        assert!(attempts[..8].iter().all(|attempt| *attempt == 2), "{attempts:?}");
        assert_eq!(attempts[20..], [1; 4], "nobody can have begun these");
    }
}

#[tokio::test]
async fn a_message_given_up_does_not_run_again_however_little_was_recorded() {
    let world = World::new("given-up-once");
    let session = world.session().await;
    world.create(&session, "mail", 1).await;
    world.put_to(&session, "mail-1", &["1", "2", "3", "4"]).await;
    let log = Log::default();
    let own = world.session().await;
    let noted = log.clone();
    let worker = world.start(&own, tens("w1"), move |work: Work| {
        let entry = noted.begin("w1", &work);
        async move {
            let _entry = entry;
            match &work.messages[0].body[..] {
                b"2" | b"3" => vec![Outcome::failed("it never will")],
                b"4" => {
                    work.lease.stopped().await;
                    vec![Outcome::Stopped]
                }
                _ => vec![Outcome::Done],
            }
        }
    });
    begun(&log, 4).await;
    worker.kill().await;
    let again = Log::default();
    let worker = world.start(&session, tens("w2"), again.task("w2"));
    world.drained(&session, "mail", 1).await;
    worker.finish().await;
    assert_eq!(runs(&again), [("4".to_owned(), 2)]);
    assert_eq!(world.messages("mail.failed", 1).await.len(), 2);
}

#[tokio::test]
async fn only_the_stopped_message_sees_that_it_may_have_run() {
    let world = World::new("stop-told");
    let session = world.session().await;
    world.create(&session, "mail", 1).await;
    world.put_to(&session, "mail-1", &["1", "2", "3"]).await;
    let log = Log::default();
    let own = world.session().await;
    let worker = world.start(&own, options("w1", &["mail"]), stuck_at(&log, "2"));
    begun(&log, 2).await;
    ended(worker).await;
    assert_eq!(next_attempts(&world, options("w2", &["mail"])).await, [2, 1]);
}

#[tokio::test]
async fn at_most_once_messages_after_a_crash_run_first_whatever_the_next_workers_policy() {
    for next in [once("w2"), options("w2", &["mail"])] {
        let world = World::new("once-told");
        let session = world.session().await;
        world.create(&session, "mail", 1).await;
        world.put_to(&session, "mail-1", &["1", "2", "3"]).await;
        let log = Log::default();
        let own = world.session().await;
        let worker = world.start(&own, once("w1"), stuck_at(&log, "1"));
        begun(&log, 1).await;
        worker.kill().await;
        assert_eq!(next_attempts(&world, next).await, [1, 1]);
    }
}

#[tokio::test]
async fn at_most_once_an_abort_begins_nothing_more_and_leaves_the_rest_to_the_next_worker() {
    let world = World::new("once-abort");
    let session = world.session().await;
    world.create(&session, "mail", 1).await;
    world.put_to(&session, "mail-1", &["1", "2", "3", "4", "5", "6"]).await;
    let log = Log::default();
    let own = world.session().await;
    let worker = world.start(&own, once("w1"), stuck_at(&log, "1"));
    begun(&log, 1).await;
    ended(worker).await;
    assert_eq!(log.bodies(), ["1"]);
    assert_eq!(next_attempts(&world, once("w2")).await, [1; 5]);
}

/// A worker that got this order while it recorded the first of two messages, which begins only after that.
async fn ordered_while_recording(world: &World, order: Order, task: impl Task) -> (Running, Proxy) {
    let session = world.session().await;
    world.create(&session, "mail", 1).await;
    // Long, as heartbeats are held back, too.
    let (own, proxy) = world.session_through_proxy(PATIENCE).await;
    let worker = world.start(&own, once("w1"), task);
    worker.has(1).await;
    proxy.hold_requests_after(0, OpCode::Multi);
    world.put_to(&session, "mail-1", &["1", "2"]).await;
    eventually_async("it is being recorded", async || proxy.holds_requests().then_some(())).await;
    worker.orders.send(order).await.unwrap();
    let view = worker.view().await;
    assert_eq!((view.stats.records, view.partitions[0].running.len()), (0, 0), "not yet");
    proxy.heal();
    (worker, proxy)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn at_most_once_a_message_being_recorded_when_its_worker_stops_is_handled() {
    for order in [Order::Finish, Order::Abort] {
        let (world, log) = (World::new("once-end"), Log::default());
        let (worker, _proxy) = ordered_while_recording(&world, order, log.task("w1")).await;
        let ended = tokio::time::timeout(PATIENCE, worker.run).await;
        assert_eq!(ended.expect("it ends").unwrap().unwrap(), Ended::AskedToStop);
        assert_eq!(log.bodies(), ["1"]);
        assert_eq!(next_attempts(&world, once("w2")).await, [1]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn at_most_once_a_second_abort_stops_a_message_that_began_after_the_first() {
    let (world, log) = (World::new("once-again"), Log::default());
    let (worker, _proxy) = ordered_while_recording(&world, Order::Abort, stuck_at(&log, "1")).await;
    begun(&log, 1).await;
    ended(worker).await;
    assert_eq!(log.bodies(), ["1"]);
    assert_eq!(next_attempts(&world, once("w2")).await, [1]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_can_stop_while_zookeeper_is_down() {
    let world = World::new("away-end");
    let session = world.session().await;
    world.create(&session, "mail", 1).await;
    world.put_to(&session, "mail-1", &["one"]).await;
    let (cut_off, proxy) = world.session_through_proxy(SHORT * 2).await;
    let log = Log::default();
    let worker = world.start(&cut_off, options("w1", &["mail"]), log.endless("w1", true));
    begun(&log, 1).await;
    proxy.partition();
    ended(worker).await;
}

#[tokio::test]
async fn a_worker_that_waits_for_its_name_stops_when_asked() {
    let world = World::new("name-end");
    let (session, own) = (world.session().await, world.session().await);
    let me = queues::Worker::default();
    let _holder = Presence::begin(&session, &queues::worker(&name("w1")), &me).await.unwrap();
    let worker = world.start(&own, options("w1", &["mail"]), Log::default().task("w1"));
    // It takes orders while it waits.
    eventually_async("it waits", async || (!worker.run.is_finished()).then_some(())).await;
    ended(worker).await;
    assert!(session.term().stat(queues::worker(&name("w1")).path()).await.unwrap().is_some());
}
