//! Periodic messages: each time exactly once, whoever dies.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use menagerie_journal::store::Clock;
use menagerie_journal::{
    Commit, Consumer, Fence, Journal as _, Message, PartitionId, StateWrite, Ticks, Topic,
};
use menagerie_kernel::recipes::election::Election;
use menagerie_kernel::{Session, retry};
use menagerie_queues::admin::Created;
use menagerie_queues::admin::schedule::{self, ScheduleView};
use menagerie_queues::schedule::core::Record;
use menagerie_queues::schedule::{ScheduleError, run_by};
use menagerie_queues::{Journals, MessageUuid, Meta, QueueError, Via};
use menagerie_testkit::{SHORT, eventually_async};
use menagerie_znodes::Name;
use menagerie_znodes::queues::{self, Schedule};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::troubled::{Trouble, Troubled};
use crate::world::{World, name};

const DAY: Duration = Duration::from_secs(86_400);

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64
}

/// A schedule that puts into `mail`.
fn of_mail(cron: &str) -> Schedule {
    Schedule {
        queue: "mail".parse().unwrap(),
        cron: cron.to_owned(),
        tz: "UTC".to_owned(),
        catch_up: false,
        body: schedule::body(b"tick"),
        key: None,
        partition: None,
        ttl_ms: None,
        by: "me".to_owned(),
        added_ms: now_ms(),
    }
}

/// A process that puts periodic messages.
struct Scheduler {
    session: Session,
    stop: oneshot::Sender<()>,
    run: JoinHandle<()>,
}

impl Scheduler {
    fn start(world: &World, session: Session, name: &'static str) -> Self {
        Self::start_with(session, name, world.journals())
    }

    fn start_with(session: Session, name: &'static str, journals: Journals) -> Self {
        Self::start_by(session, name, journals, Clock::default())
    }

    fn start_by(session: Session, name: &'static str, journals: Journals, clock: Clock) -> Self {
        let (stop, stopped) = oneshot::channel::<()>();
        let kept = session.clone();
        let run = tokio::spawn(async move {
            run_by(&kept, &journals, name, clock, async { drop(stopped.await) }).await
        });
        Self { session, stop, run }
    }

    /// Ends it as if its process were killed and the server had noticed at once.
    async fn kill(self) {
        self.run.abort();
        let _ = self.run.await;
        self.session.close().await;
    }
}

async fn only(world: &World, session: &Session) -> ScheduleView {
    let mut all = schedule::list(session, &world.journals()).await.unwrap();
    assert_eq!(all.len(), 1);
    all.remove(0)
}

async fn leader(session: &Session) -> String {
    let election = Election::new(session, queues::schedule_election(), "witness");
    let who = async || election.leader().await.unwrap().map(|leader| leader.identifier);
    String::from_utf8_lossy(eventually_async("somebody leads", who).await.as_ref()).into_owned()
}

async fn put(world: &World, partitions: u32) -> usize {
    let mut all = 0;
    for partition in 1..=partitions {
        all += world.messages("mail", partition).await.len();
    }
    all
}

fn assert_by(message: &Message, schedule: &str) {
    let meta = Meta::of(message);
    assert_eq!((meta.by.as_deref(), meta.via), (Some(schedule), Some(Via::Schedule)));
}

/// The leader is killed again and again, at whatever moment of the second: with seconds between times, always around
/// one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_time_is_put_once_though_the_elected_one_is_killed() {
    let world = World::new("schedule-kills");
    let session = world.session().await;
    world.create(&session, "mail", 3).await;
    let every_second = of_mail("* * * * * *");
    let begin = (every_second.added_ms / 1000) as i64;
    schedule::add(&session, &name("beat"), &every_second).await.unwrap();
    let mut second = Scheduler::start(&world, world.session().await, "s0");
    for kill in 1..=8_u64 {
        let first = std::mem::replace(&mut second, Scheduler::start(&world, world.session().await, "s"));
        let before = put(&world, 3).await;
        eventually_async("it puts", async || (put(&world, 3).await > before).then_some(())).await;
        // Not a wait for anything: it spreads the kills over the second.
        tokio::time::sleep(Duration::from_millis(kill * 137 % 1000)).await;
        first.kill().await;
    }
    let beat = eventually_async("the last one puts, too", async || {
        let beat = only(&world, &session).await;
        beat.record.filter(|record| record.through - begin >= 8)
    })
    .await;
    let _ = second.stop.send(());
    second.run.await.unwrap();
    let beat = only(&world, &session).await.record.unwrap_or(beat);
    assert_eq!((beat.missed, beat.put), (0, Some(beat.through)));
    // The record says how many there must be; each is a second.
    assert_eq!(put(&world, 3).await as i64, beat.through - begin);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_one_goes_on_when_the_session_of_the_elected_one_expires() {
    let world = World::new("schedule-expiry");
    let (cut_off, proxy) = world.session_through_proxy(SHORT).await;
    let session = world.session().await;
    world.create(&session, "mail", 1).await;
    let every_second = of_mail("* * * * * *");
    let begin = (every_second.added_ms / 1000) as i64;
    schedule::add(&session, &name("beat"), &every_second).await.unwrap();
    let zombie = Scheduler::start(&world, cut_off, "zombie");
    assert_eq!(leader(&session).await, "zombie");
    eventually_async("it puts", async || (put(&world, 1).await > 0).then_some(())).await;
    let heir = Scheduler::start(&world, world.session().await, "heir");
    // It still reaches the journal, and does not know that it is not elected any more.
    proxy.partition();
    eventually_async("the heir leads", async || (leader(&session).await == "heir").then_some(())).await;
    let then = only(&world, &session).await.record.unwrap().through;
    eventually_async("the heir puts", async || {
        only(&world, &session).await.record.filter(|record| record.through > then + 2)
    })
    .await;
    for one in [heir, zombie] {
        one.kill().await;
    }
    let beat = only(&world, &session).await.record.unwrap();
    assert_eq!(put(&world, 1).await as i64, beat.through - begin - beat.missed as i64);
    assert_eq!(beat.missed, 0, "a session is shorter than a minute");
}

/// One that can put stands after one that cannot, because of its journal or its clock.
async fn assert_makes_way_in_time(world: &World, journals: Journals, clock: Clock) {
    let session = world.session().await;
    world.create(&session, "mail", 1).await;
    schedule::add(&session, &name("beat"), &of_mail("* * * * * *")).await.unwrap();
    let unable = Scheduler::start_by(world.session().await, "unable", journals, clock);
    assert_eq!(leader(&session).await, "unable");
    let able = Scheduler::start(world, world.session().await, "able");
    eventually_async("the other one leads", async || (leader(&session).await == "able").then_some(())).await;
    let before = put(world, 1).await;
    eventually_async("it puts", async || (put(world, 1).await > before).then_some(())).await;
    for one in [unable, able] {
        one.kill().await;
    }
    let beat = only(world, &session).await;
    let record = beat.record.unwrap();
    assert_eq!((record.missed, beat.problem), (0, None), "the other one had its turn within a minute");
    let added = (beat.schedule.unwrap().added_ms / 1000) as i64;
    assert_eq!(put(world, 1).await as i64, record.through - added);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_elected_process_that_cannot_reach_the_journal_makes_way() {
    let world = World::new("schedule-blind");
    assert_makes_way_in_time(&world, Journals::from([]), Clock::default()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_elected_process_whose_journal_is_silent_makes_way() {
    let world = World::new("schedule-silent");
    let silent = Troubled::journals(&world, Trouble::Silence);
    assert_makes_way_in_time(&world, silent, Clock::default()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_elected_process_whose_clock_is_a_day_ahead_makes_way() {
    let world = World::new("schedule-clock");
    let ahead = Clock::new(|| Ticks::now().plus(DAY));
    assert_makes_way_in_time(&world, world.journals(), ahead).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_elected_process_whose_clock_jumps_makes_way() {
    let world = World::new("schedule-jump");
    let start = Instant::now();
    let is_ahead = move || start.elapsed() > Duration::from_secs(5);
    let jumps = Clock::new(move || Ticks::now().plus(if is_ahead() { DAY } else { Duration::ZERO }));
    assert_makes_way_in_time(&world, world.journals(), jumps).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missed_times_are_counted_or_caught_up_with() {
    let world = World::new("schedule-missed");
    let session = world.session().await;
    world.create(&session, "mail", 1).await;
    // The queue has to be older than the schedule: it was not there before.
    let znode = queues::settings(&"mail".parse().unwrap());
    let found = session.term().read(&znode).await.unwrap().unwrap();
    let older = menagerie_znodes::queues::Settings { created_ms: 0, ..found.value };
    let older = menagerie_znodes::Payload::encode(&older);
    menagerie_kernel::retry::set(&session.term(), znode.path(), &older, found.stat.version).await.unwrap();
    let hour_ago = now_ms() - 3_600_000;
    let skips = Schedule { added_ms: hour_ago, ..of_mail("*/15 * * * *") };
    let catches = Schedule { catch_up: true, body: schedule::body(b"caught"), ..skips.clone() };
    schedule::add(&session, &name("skips"), &skips).await.unwrap();
    schedule::add(&session, &name("catches"), &catches).await.unwrap();
    let scheduler = Scheduler::start(&world, world.session().await, "s");
    let both = eventually_async("both have come to the present", async || {
        let all = schedule::list(&session, &world.journals()).await.unwrap();
        all.iter()
            .all(|view| view.record.as_ref().is_some_and(|record| record.put.is_some() || record.missed > 0))
            .then_some(all)
    })
    .await;
    scheduler.kill().await;
    let record = |at: usize| both[at].record.clone().unwrap();
    let (caught, skipped) = (record(0), record(1));
    assert_eq!((both[0].name.as_str(), caught.missed), ("catches", 0));
    // Four quarters of an hour, or five if one begins right now.
    let quarters = |through: i64| (through / 900) as u64 - hour_ago / 900_000;
    assert!((3..=5).contains(&skipped.missed), "{skipped:?}");
    assert!(skipped.last_missed.is_some());
    let messages = world.messages("mail", 1).await;
    for message in &messages {
        let is_caught = &message.body[..] == b"caught";
        assert_by(message, if is_caught { "schedule catches" } else { "schedule skips" });
    }
    let bodies: Vec<_> = messages.into_iter().map(|message| message.body).collect();
    let put = bodies.iter().filter(|body| &body[..] == b"caught").count() as u64;
    assert_eq!(put, quarters(caught.through));
    assert!(put >= 4);
    assert_eq!(bodies.len() as u64 - put + skipped.missed, quarters(skipped.through));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn message_that_is_refused_does_not_hold_up_others() {
    let world = World::new("schedule-refused");
    let session = world.session().await;
    world.create(&session, "mail", 1).await;
    // They come before the sound one in every turn.
    let large = Schedule { body: schedule::body(b"large"), ..of_mail("* * * * * *") };
    schedule::add(&session, &name("a-large"), &large).await.unwrap();
    let by_hand = name("b-by-hand");
    let long = Schedule { key: Some("k".repeat(2_000)), ..of_mail("* * * * * *") };
    let long = menagerie_znodes::Payload::encode(&long);
    retry::ensure(&session.term(), queues::schedule(&by_hand).path(), &long).await.unwrap();
    schedule::add(&session, &name("sound"), &of_mail("* * * * * *")).await.unwrap();
    let small = Troubled::journals(&world, Trouble::SmallLimit);
    let scheduler = Scheduler::start_with(world.session().await, "s", small);
    let all = eventually_async("the sound one is put twice", async || {
        let all = schedule::list(&session, &world.journals()).await.unwrap();
        (put(&world, 1).await >= 2).then_some(all)
    })
    .await;
    scheduler.kill().await;
    let problem = |at: usize| all[at].problem.clone().unwrap_or_default();
    assert!(problem(0).contains("a message of 5 is more than the maximum of 4"), "{}", problem(0));
    assert!(problem(1).contains("a message's key has at most 1024 bytes, not 2000"), "{}", problem(1));
    assert_eq!(all[2].problem, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn loop_that_panics_is_started_again() {
    let world = World::new("schedule-panic");
    let session = world.session().await;
    world.create(&session, "mail", 1).await;
    schedule::add(&session, &name("beat"), &of_mail("* * * * * *")).await.unwrap();
    let panics = Troubled::journals(&world, Trouble::Panic);
    let scheduler = Scheduler::start_with(world.session().await, "s", panics);
    eventually_async("it puts", async || (put(&world, 1).await > 0).then_some(())).await;
    assert_eq!(only(&world, &session).await.record.unwrap().missed, 0);
    scheduler.kill().await;
}

#[tokio::test]
async fn last_time_in_the_future_is_named_as_the_problem() {
    let world = World::new("schedule-ahead");
    let session = world.session().await;
    world.create(&session, "mail", 1).await;
    let (nightly, settings) = (name("nightly"), of_mail("0 3 * * *"));
    schedule::add(&session, &nightly, &settings).await.unwrap();
    // What a process leaves behind whose clock is a day ahead.
    let tomorrow = (now_ms() / 1000) as i64 + 86_400;
    let record = Record::new(settings.added_ms, tomorrow);
    let (partition, consumer) =
        (PartitionId::new(Topic::new("mail").unwrap(), 1), Consumer::new("schedules").unwrap());
    let fence = Fence::new(0, 1);
    world.store().open(&partition, &consumer, fence).await.unwrap();
    let (key, value) = ("nightly".into(), Some(serde_json::to_vec(&record).unwrap().into()));
    let states = vec![StateWrite { partition, consumer, fence, key, value }];
    world.store().commit(Commit { states, ..Commit::default() }).await.unwrap();
    let problem = only(&world, &session).await.problem.unwrap();
    assert!(problem.contains("lies in the future") && problem.contains("add it again"), "{problem}");
    schedule::remove(&session, &nightly).await.unwrap();
    let again = Schedule { added_ms: settings.added_ms + 1, ..settings };
    schedule::add(&session, &nightly, &again).await.unwrap();
    assert_eq!(only(&world, &session).await.problem, None);
}

#[tokio::test]
async fn schedules_are_added_listed_run_and_removed() {
    let world = World::new("schedule-admin");
    let session = world.session().await;
    world.create(&session, "mail", 2).await;
    let (nightly, beat) = (name("nightly"), of_mail("0 3 * * *"));
    let add = async |name: &Name, schedule: &Schedule| schedule::add(&session, name, schedule).await;
    assert_eq!(add(&nightly, &beat).await.unwrap(), Created::Fresh);
    let again = Schedule { by: "you".to_owned(), added_ms: 1, ..beat.clone() };
    assert_eq!(add(&nightly, &again).await.unwrap(), Created::Existed);
    let other = Schedule { cron: "0 4 * * *".to_owned(), ..beat.clone() };
    let conflict = ScheduleError::Exists { name: nightly.clone() };
    assert_eq!(add(&nightly, &other).await, Err(QueueError::Schedule(conflict)));
    let bad = name("bad");
    let never = Schedule { cron: "0 0 30 2 *".to_owned(), ..beat.clone() };
    assert!(matches!(add(&bad, &never).await, Err(QueueError::Schedule(ScheduleError::Never { .. }))));
    let nowhere = Schedule { queue: "nowhere".parse().unwrap(), ..beat.clone() };
    assert!(matches!(add(&bad, &nowhere).await, Err(QueueError::NoQueue { .. })));
    let beyond = Schedule { partition: Some(3), ..beat.clone() };
    assert!(matches!(add(&bad, &beyond).await, Err(QueueError::NoPartition { .. })));
    let large = Schedule { body: schedule::body(&[b'x'; 70_000]), ..beat.clone() };
    assert!(matches!(add(&bad, &large).await, Err(QueueError::Schedule(ScheduleError::Large { .. }))));

    let view = only(&world, &session).await;
    let fresh = Some(Record::new(beat.added_ms, (beat.added_ms / 1000) as i64));
    assert_eq!((view.schedule, &view.record, view.problem), (Ok(beat), &fresh, None));
    assert!(!schedule::is_anybody_there(&session).await.unwrap());
    let (queue, ids) = schedule::run_now(&session, &world.journals(), &nightly).await.unwrap();
    assert_eq!((queue.to_string().as_str(), ids.len(), put(&world, 2).await), ("mail", 1, 1));
    let message = world.messages("mail", ids[0].partition.number().into()).await.remove(0);
    assert_eq!(ids[0].id, Some(MessageUuid::of(&ids[0].partition, &message)));
    assert_by(&message, "schedule nightly");
    assert_eq!(only(&world, &session).await.record, fresh, "that was none of its times");
    schedule::remove(&session, &nightly).await.unwrap();
    let gone = QueueError::Schedule(ScheduleError::Missing { name: nightly.clone() });
    assert_eq!(schedule::remove(&session, &nightly).await, Err(gone.clone()));
    assert_eq!(schedule::run_now(&session, &world.journals(), &nightly).await, Err(gone));
}
