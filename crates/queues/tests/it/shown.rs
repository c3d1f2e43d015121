//! What `queue show` says of the work of a real worker.

use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use menagerie_journal::{NewMessage, PartitionId, Ticks, Topic};
use menagerie_queues::admin::show::{self, PartitionView};
use menagerie_queues::admin::{self, Destination, Scope};
use menagerie_queues::task::{Outcome, Outcomes, SILENT_AFTER, Task, Unanswered, Work};
use menagerie_queues::{Journals, MessageUuid};
use menagerie_testkit::eventually_async;
use menagerie_znodes::queues::{Handling, Order, Pause, Settings};

use crate::counted::Counted;
use crate::world::{JOURNAL, World, options};

/// What their bodies say happens.
async fn handle(work: Work) -> Vec<Outcome> {
    match &work.messages[0].body[..] {
        b"hangs" => {
            work.lease.stopped().await;
            vec![Outcome::Stopped]
        }
        b"fails" => vec![Outcome::retry("no route")],
        b"hopeless" => vec![Outcome::failed("no such customer")],
        _ => vec![Outcome::Done],
    }
}

#[tokio::test]
async fn what_a_worker_does_with_a_partition_is_shown() {
    let world = World::new("shown");
    let session = world.session().await;
    let handling = Handling { order: Order::None, ..Handling::default() };
    let settings = Settings { handling, ..admin::default_settings(1, JOURNAL) };
    let queue = "mail".parse().unwrap();
    admin::create_with(&session, &world.journals(), &queue, &settings).await.unwrap();
    let bodies = ["hangs", "fails", "fails", "hopeless", "works", "works", "works"];
    let messages = bodies.map(|body| (Destination::Any, NewMessage::new(body)));
    let put = world.putter(&session, "mail").await.put(messages.into()).await.unwrap();
    let ids: Vec<MessageUuid> = put.iter().map(|put| put.id.unwrap()).collect();
    let ttl = Duration::from_millis(1);
    let late = NewMessage { ttl: Some(ttl), ..NewMessage::new("works") };
    world.putter(&session, "mail").await.put(vec![(Destination::Any, late)]).await.unwrap();
    let end = Ticks::now().plus(ttl);
    eventually_async("its time is over", async || (Ticks::now() > end).then_some(())).await;

    let view = async || show::show(&session, &world.journals(), &queue).await.unwrap();
    let before = view().await;
    let at = &before.partitions[0];
    assert_eq!((at.lag, &at.owner, &at.recent, at.rate), (8, &None, &None, None));
    let mut options = options("w1", &["mail"]);
    options.concurrency = 8;
    options.failure.attempts = NonZeroU32::new(5);
    options.failure.backoff = Some(Duration::from_secs(600));
    let worker = world.start(&session, options, handle);
    let is_told = |at: &PartitionView| {
        let recent = at.recent.as_ref()?;
        let counts = (recent.done, recent.failed, recent.given_up, recent.expired);
        (counts == (3, 3, 1, 1) && at.failed == 1).then(|| at.clone())
    };
    let at = eventually_async("all of it is shown", async || is_told(&view().await.partitions[0])).await;
    assert_eq!(at.owner, Some(crate::world::name("w1")));
    let running: Vec<_> = at.running.iter().map(|running| (running.id, running.attempt)).collect();
    assert_eq!((running, at.running_count), (vec![(ids[0], 1)], 1));
    assert!(!at.running[0].silent);
    let mut retrying: Vec<_> = at.retrying.iter().map(|retrying| retrying.id).collect();
    retrying.sort();
    let mut failing = ids[1..3].to_vec();
    failing.sort();
    assert_eq!((retrying, at.retrying_count), (failing, 2));
    let next = &at.retrying[0];
    assert_eq!((next.attempt, next.attempts, next.error.as_str()), (2, 5, "no route"));
    assert!((1..=600_000).contains(&next.in_ms), "{}", next.in_ms);
    let error = at.recent.as_ref().unwrap().error.clone();
    assert_eq!(error, Some(("no route".to_owned(), 2)), "the most frequent one");
    assert!(at.rate.is_some_and(|rate| rate.handled > 0.0));

    // Nothing is put while one hangs, whatever is done beyond it.
    let rate = eventually_async("the rate of puts is known", async || {
        view().await.partitions[0].rate.and_then(|rate| rate.put)
    });
    assert_eq!(rate.await, 0.0);
    world.put_to(&session, "mail-1", &["works"; 20]).await;
    eventually_async("puts are noticed", async || {
        view().await.partitions[0].rate.and_then(|rate| rate.put).filter(|put| *put > 0.0)
    })
    .await;
    worker.abort().await;

    // Failed messages that cannot be read are no reason to show nothing.
    let failed = PartitionId::new(Topic::new("mail.failed").unwrap(), 1);
    let newest = world.messages("mail.failed", 1).await.pop().unwrap().id;
    let journal = Counted::damaged(world.store(), vec![(failed, newest)]);
    let journals = Journals::from([(JOURNAL.to_owned(), Arc::new(journal) as _)]);
    let damaged = show::show(&session, &journals, &queue).await.unwrap();
    assert_eq!((damaged.failed, damaged.failed_uncounted, damaged.partitions[0].failed), (1, 1, 0));
}

/// Its program has had the message for half a minute.
struct Silent(Mutex<Option<String>>);

impl Task for Silent {
    fn run(&self, work: Work) -> Outcomes<'_> {
        let id = MessageUuid::of(&work.partition, &work.messages[0]);
        *self.0.lock().unwrap() = Some(id.to_string());
        Box::pin(async move {
            work.lease.stopped().await;
            vec![Outcome::Stopped]
        })
    }

    fn unanswered(&self) -> Vec<Unanswered> {
        let since = Instant::now().checked_sub(SILENT_AFTER).expect("the machine has run for a minute");
        self.0.lock().unwrap().clone().map(|id| Unanswered { id, since }).into_iter().collect()
    }
}

#[tokio::test]
async fn a_program_that_does_not_answer_is_shown_as_silent() {
    let world = World::new("shown-silent");
    let session = world.session().await;
    world.create(&session, "mail", 1).await;
    world.put_to(&session, "mail-1", &["x"]).await;
    let worker = world.start(&session, options("w1", &["mail"]), Silent(Mutex::default()));
    eventually_async("it is silent", async || {
        let view = show::show(&session, &world.journals(), &"mail".parse().unwrap()).await.unwrap();
        view.partitions[0].running.first().is_some_and(|running| running.silent).then_some(())
    })
    .await;
    worker.abort().await;
}

#[tokio::test]
async fn who_has_paused_a_worker_is_shown() {
    let world = World::new("shown-paused");
    let session = world.session().await;
    world.create(&session, "mail", 1).await;
    let worker = world.start(&session, options("w1", &["mail"]), handle);
    worker.has(1).await;
    let pause = Pause { by: "ann@web".to_owned(), reason: Some("upgrade".to_owned()) };
    admin::pause(&session, &Scope::Worker(crate::world::name("w1")), &pause).await.unwrap();
    let shown = eventually_async("it is paused", async || {
        let view = show::show(&session, &world.journals(), &"mail".parse().unwrap()).await.unwrap();
        view.partitions[0].owner_paused.then(|| view.partitions[0].owner_pause.clone())
    })
    .await;
    assert_eq!(shown, Some(pause));
    worker.finish().await;
}
