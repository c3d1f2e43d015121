//! Holders without a process of ours, watchdogs out of service, and the history.

use std::time::{Duration, Instant};

use menagerie_kernel::Session;
use menagerie_slots::core::{Limits, Source};
use menagerie_slots::poll::{self, PollOutcome, Sweeper};
use menagerie_slots::{Request, SlotsError, acquire, admin, disarm, history, try_acquire, view};
use menagerie_testkit::{OpCode, eventually_async};
use menagerie_znodes::Name;
use menagerie_znodes::slots::What;

use crate::world::{LONG, World, request};

fn polled(holder: &str) -> Request {
    Request { process: None, ..request(holder) }
}

const LIMITS: Limits = Limits { waiters: 1_000, per_source: 1_000 };

fn source() -> Source {
    Source::of([10, 0, 0, 1].into())
}

async fn ask(session: &Session, world: &World, holder: &str) -> Result<PollOutcome, SlotsError> {
    poll::ask(session, &world.pool, &polled(holder), &source(), LIMITS).await
}

const LAPSE: Duration = Duration::from_secs(600);

#[tokio::test]
async fn who_polls_keeps_its_place_as_long_as_it_asks() {
    let world = World::new("poll", 1).await;
    let session = world.session().await;
    let ask = async |holder: &str| ask(&session, &world, holder).await.unwrap();
    assert_eq!((ask("a").await, ask("a").await), (PollOutcome::Holds(1), PollOutcome::Holds(1)));
    assert!(matches!(ask("b").await, PollOutcome::Waits { ahead: 0, .. }));
    assert!(matches!(ask("c").await, PollOutcome::Waits { ahead: 1, .. }));
    let mut sweeper = Sweeper::default();
    let began = Instant::now();
    sweeper.sweep(&session, LAPSE, began).await.unwrap();
    // One of them keeps polling.
    ask("c").await;
    sweeper.sweep(&session, LAPSE, began + LAPSE / 2).await.unwrap();
    assert_eq!(world.snapshot(&session).await.queue.len(), 2);
    sweeper.sweep(&session, LAPSE, began + LAPSE).await.unwrap();
    assert_eq!(world.snapshot(&session).await.queue.len(), 1);
    assert!(matches!(ask("c").await, PollOutcome::Waits { ahead: 0, .. }));
    assert_eq!(poll::release(&session, &world.pool, "a", None).await, Ok(true));
    assert_eq!(poll::release(&session, &world.pool, "a", None).await, Ok(false));
    assert_eq!(ask("c").await, PollOutcome::Holds(1));
    assert_eq!(world.snapshot(&session).await.queue.len(), 0);
}

#[tokio::test]
async fn admission_without_a_process_stays_when_whoever_asked_gives_up() {
    let world = World::new("poll-dropped", 1).await;
    let other = world.session().await;
    for (holder, by_command) in [("polls", false), ("script", false), ("runs", true)] {
        let (session, proxy) = world.session_through_proxy(LONG).await;
        proxy.hold_requests_after(0, OpCode::Multi);
        let (asking, pool) = (session.clone(), world.pool.clone());
        let asking = tokio::spawn(async move {
            match holder {
                "polls" => drop(poll::ask(&asking, &pool, &polled(holder), &source(), LIMITS).await),
                "script" => drop(acquire(&asking, &pool, &polled(holder), |_| {}).await),
                _ => drop(acquire(&asking, &pool, &request(holder), |_| {}).await),
            }
        });
        eventually_async("it is being admitted", async || proxy.holds_requests().then_some(())).await;
        asking.abort();
        assert!(asking.await.unwrap_err().is_cancelled());
        proxy.heal();
        // Returns when nothing is left to do in the background.
        session.close().await;
        let left = world.holders(&other).await;
        if by_command {
            assert_eq!(left, [""; 0], "nobody but the process that gave up can have relied on it");
        } else {
            assert_eq!(left, [holder]);
            assert_eq!(ask(&other, &world, holder).await, Ok(PollOutcome::Holds(1)));
            assert_eq!(poll::release(&other, &world.pool, holder, None).await, Ok(true));
        }
    }
}

#[tokio::test]
async fn queue_of_clients_that_poll_is_bounded_also_when_all_come_at_once() {
    let world = World::new("poll-crowd", 1).await;
    let session = world.session().await;
    assert_eq!(ask(&session, &world, "first").await, Ok(PollOutcome::Holds(1)));
    let limits = Limits { waiters: 30, per_source: 12 };
    let sources = [1, 2, 3, 4].map(|last| Source::of([10, 0, 0, last].into()));
    let clients: Vec<(Request, &Source)> =
        (0..80).map(|number| (polled(&format!("id-{number}")), &sources[number % 4])).collect();
    let asking =
        clients.iter().map(|(request, source)| poll::ask(&session, &world.pool, request, source, limits));
    let answers = futures_util::future::join_all(asking).await;
    let waiting = answers.iter().filter(|answer| matches!(answer, Ok(PollOutcome::Waits { .. }))).count();
    let queue = world.snapshot(&session).await.queue;
    assert_eq!(queue.len(), waiting, "all who were told that they wait do, and no others");
    // Of the clients that came at once, some made room for others that then had to leave, too.
    assert!((12..=30).contains(&waiting), "{waiting} wait");
    for source in &sources {
        let own = queue.iter().filter(|place| place.source() == Some(source.as_str())).count();
        assert!(own <= 12, "{source:?} has {own} places");
    }
    // A client with a place keeps it, and one without gets one as soon as there is room.
    let waits = |number: usize| matches!(answers[number], Ok(PollOutcome::Waits { .. }));
    let (has, has_none) = ((0..80).find(|id| waits(*id)).unwrap(), (0..80).rfind(|id| !waits(*id)).unwrap());
    let again = async |number: usize| {
        let (request, source) = &clients[number];
        poll::ask(&session, &world.pool, request, source, limits).await
    };
    assert!(matches!(again(has).await, Ok(PollOutcome::Waits { .. })));
    assert!(matches!(again(has_none).await, Ok(PollOutcome::Crowded(_))));
    for number in (0..80).filter(|number| waits(*number)).take(20) {
        let holder = &clients[number].0.holder;
        assert_eq!(poll::release(&session, &world.pool, holder, None).await, Ok(false));
    }
    assert!(matches!(again(has_none).await, Ok(PollOutcome::Waits { .. })));
}

#[tokio::test]
async fn who_polls_does_not_get_what_a_command_holds() {
    let world = World::new("poll-taken", 2).await;
    let session = world.session().await;
    let held = world.acquire(&session, "a").await;
    assert_eq!(ask(&session, &world, "a").await, Ok(PollOutcome::Taken(1)));
    let refused = poll::release(&session, &world.pool, "a", None).await;
    assert!(matches!(refused, Err(SlotsError::Running { slot: 1, .. })), "{refused:?}");
    held.release().await.unwrap();
}

#[tokio::test]
async fn ticket_gives_back_nothing_but_what_was_taken_with_it() {
    let world = World::new("by-ticket", 1).await;
    let session = world.session().await;
    let give_back = async |ticket| poll::release(&session, &world.pool, "a", Some(ticket)).await;
    let earlier = try_acquire(&session, &world.pool, &polled("a")).await.unwrap().unwrap();
    assert_eq!(give_back(earlier.ticket()).await, Ok(true));
    // The reply was lost, the client retries, and meanwhile there is a successor of the same name.
    let later = try_acquire(&session, &world.pool, &polled("a")).await.unwrap().unwrap();
    let lost = Err(SlotsError::Lost { pool: "pool".to_owned(), slot: 1 });
    assert_eq!(give_back(earlier.ticket()).await, lost);
    assert_eq!(give_back(later.ticket()).await, Ok(true));
    assert_eq!(give_back(later.ticket()).await, Ok(false));
    let running = world.acquire(&session, "a").await;
    assert!(matches!(give_back(running.ticket()).await, Err(SlotsError::Running { slot: 1, .. })));
}

#[tokio::test]
async fn two_places_of_one_polling_client_go_together() {
    let world = World::new("poll-twice", 1).await;
    let session = world.session().await;
    let held = world.acquire(&session, "a").await;
    let asked = tokio::join!(ask(&session, &world, "b"), ask(&session, &world, "b"));
    assert!(matches!(asked, (Ok(PollOutcome::Waits { .. }), Ok(PollOutcome::Waits { .. }))), "{asked:?}");
    held.release().await.unwrap();
    assert_eq!(ask(&session, &world, "b").await, Ok(PollOutcome::Holds(1)));
    assert_eq!(world.snapshot(&session).await.queue.len(), 0);
}

#[tokio::test]
async fn watchdog_that_is_out_of_service_stays_out_until_it_is_put_back() {
    let world = World::new("disarmed", 1).await;
    let session = world.session().await;
    let holder = Name::new("host").unwrap();
    disarm::wait_until_armed(&session, &world.pool, &holder, |_| panic!("nobody took it out")).await.unwrap();
    disarm::disarm(&session, &world.pool, &holder, "disk").await.unwrap();
    disarm::disarm(&session, &world.pool, &holder, "again").await.unwrap();
    let out = disarm::list(&session, &world.pool).await.unwrap();
    assert_eq!((out.len(), out[0].holder.as_str(), out[0].reason.as_str()), (1, "host", "disk"));
    let (told, mut tells) = tokio::sync::mpsc::unbounded_channel();
    let waits = tokio::spawn({
        let (session, pool, holder) = (session.clone(), world.pool.clone(), holder.clone());
        async move {
            disarm::wait_until_armed(&session, &pool, &holder, |reason| drop(told.send(reason.to_owned())))
                .await
        }
    });
    assert_eq!(tells.recv().await.as_deref(), Some("disk"));
    assert_eq!(disarm::rearm(&session, &world.pool, &holder).await, Ok(true));
    waits.await.unwrap().unwrap();
    assert_eq!(disarm::rearm(&session, &world.pool, &holder).await, Ok(false));
    disarm::disarm(&session, &world.pool, &holder, "disk").await.unwrap();
    let forgotten = admin::delete(&session, &world.pool).await;
    assert_eq!(forgotten, Ok(vec!["host".to_owned()]), "whoever deletes the pool is told");
}

#[tokio::test]
async fn history_keeps_the_newest_thousand() {
    let world = World::new("history", 1).await;
    let session = world.session().await;
    let first = world.acquire(&session, "first").await;
    first.release().await.unwrap();
    for _ in 0..600 {
        let held = try_acquire(&session, &world.pool, &request("a")).await.unwrap().expect("it is free");
        held.release().await.unwrap();
    }
    let events = view::history(&session, &world.pool).await.unwrap();
    assert_eq!(events.len(), history::EVENTS_MAX);
    assert!(events.windows(2).all(|pair| pair[0].zxid < pair[1].zxid), "in order");
    assert_eq!(events.last().map(|event| event.event.what), Some(What::Released));
    assert!(events.iter().all(|event| event.event.holder.as_deref() == Some("a")), "the oldest are gone");
    eventually_async("somebody tidies up", async || {
        let dir = menagerie_znodes::slots::history(&world.pool);
        let kept = session.term().children(dir.path()).await.unwrap().len();
        (kept < history::EVENTS_MAX + 200).then_some(())
    })
    .await;
}
