//! What is run again, and whether it knows; and workers that are told to end while something is amiss.

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

/// Long enough for anything that does not wait for ever.
const PATIENCE: Duration = Duration::from_secs(90);

fn runs(log: &Log) -> Vec<(String, u32)> {
    log.handled().into_iter().map(|handled| (handled.body, handled.attempt)).collect()
}

async fn begun(log: &Log, count: usize) {
    eventually_async("so many have begun", async || (log.handled().len() >= count).then_some(())).await;
}

async fn ended(worker: Running) {
    let ended = tokio::time::timeout(PATIENCE, worker.abort()).await;
    assert_eq!(ended.expect("it ends"), Ended::Told);
}

/// A task that does what it is given, up to the one that goes on until it is stopped.
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

/// What the next worker is told of the messages, in order.
async fn told_next(world: &World, options: Options) -> Vec<u32> {
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
async fn a_stall_costs_no_attempt_and_what_it_stopped_knows_that_it_runs_again() {
    let world = World::new("stall");
    let session = world.session().await;
    world.create(&session, "mail", 1).await;
    world.put_to(&session, "mail-1", &["one"]).await;
    let (stalled, proxy) = world.session_through_proxy(Duration::from_secs(6)).await;
    let log = Log::default();
    let mut options = options("w1", &["mail"]);
    options.failure.attempts = NonZeroU32::MIN;
    let noted = log.clone();
    let worker = world.start(&stalled, options, move |work: Work| {
        let entry = noted.begin("w1", &work);
        async move {
            let _entry = entry;
            let done = async {
                match work.attempt {
                    1 => std::future::pending().await,
                    // A lease that is nearly over would end it.
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
    // By now one heartbeat brings back no more than a moment of the lease.
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
async fn everything_that_may_have_run_before_a_crash_is_told_so_whatever_the_rule_of_the_next() {
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
        let told = told_next(&world, next).await;
        assert!(told[..8].iter().all(|attempt| *attempt == 2), "{told:?}");
        assert_eq!(told[20..], [1; 4], "nobody can have begun these");
    }
}

#[tokio::test]
async fn what_was_given_up_does_not_run_again_however_little_was_recorded() {
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
async fn what_was_stopped_in_good_order_is_told_so_and_nothing_else() {
    let world = World::new("stop-told");
    let session = world.session().await;
    world.create(&session, "mail", 1).await;
    world.put_to(&session, "mail-1", &["1", "2", "3"]).await;
    let log = Log::default();
    let own = world.session().await;
    let worker = world.start(&own, options("w1", &["mail"]), stuck_at(&log, "2"));
    begun(&log, 2).await;
    ended(worker).await;
    assert_eq!(told_next(&world, options("w2", &["mail"])).await, [2, 1]);
}

#[tokio::test]
async fn at_most_once_what_follows_a_crash_is_at_its_first_run_whatever_the_rule_of_the_next() {
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
        assert_eq!(told_next(&world, next).await, [1, 1]);
    }
}

#[tokio::test]
async fn at_most_once_who_aborts_begins_nothing_more_and_leaves_the_rest_to_the_next() {
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
    assert_eq!(told_next(&world, once("w2")).await, [1; 5]);
}

/// A worker that was told so while it recorded the first of two messages, which begins only then.
async fn told_while_recording(world: &World, order: Order, task: impl Task) -> (Running, Proxy) {
    let session = world.session().await;
    world.create(&session, "mail", 1).await;
    // Long: heartbeats are held back, too.
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
async fn at_most_once_what_is_being_recorded_when_its_worker_is_told_to_end_is_handled() {
    for order in [Order::Finish, Order::Abort] {
        let (world, log) = (World::new("once-end"), Log::default());
        let (worker, _proxy) = told_while_recording(&world, order, log.task("w1")).await;
        let ended = tokio::time::timeout(PATIENCE, worker.run).await;
        assert_eq!(ended.expect("it ends").unwrap().unwrap(), Ended::Told);
        assert_eq!(log.bodies(), ["1"]);
        assert_eq!(told_next(&world, once("w2")).await, [1]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn at_most_once_what_has_begun_after_its_worker_was_told_to_stop_is_stopped_when_it_is_told_again() {
    let (world, log) = (World::new("once-again"), Log::default());
    let (worker, _proxy) = told_while_recording(&world, Order::Abort, stuck_at(&log, "1")).await;
    begun(&log, 1).await;
    ended(worker).await;
    assert_eq!(log.bodies(), ["1"]);
    assert_eq!(told_next(&world, once("w2")).await, [1]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_ends_while_zookeeper_is_away() {
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
async fn a_worker_that_waits_for_its_name_ends_when_it_is_told_to() {
    let world = World::new("name-end");
    let (session, own) = (world.session().await, world.session().await);
    let me = queues::Worker::default();
    let _holder = Presence::begin(&session, &queues::worker(&name("w1")), &me).await.unwrap();
    let worker = world.start(&own, options("w1", &["mail"]), Log::default().task("w1"));
    // It hears orders, and waits.
    eventually_async("it waits", async || (!worker.run.is_finished()).then_some(())).await;
    ended(worker).await;
    assert!(session.term().stat(queues::worker(&name("w1")).path()).await.unwrap().is_some());
}
