//! What the story of a message says when something went wrong: crashes, damage, journals that are gone, and messages that
//! nobody handled.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use menagerie_journal::{
    Append, Commit, Edit, Journal as _, MessageId, NewMessage, PartitionId, Read, Ticks, Topic, TopicConfig,
};
use menagerie_kernel::Session;
use menagerie_queues::admin::delayed::DelayedMessages;
use menagerie_queues::admin::failed::FailedMessages;
use menagerie_queues::admin::retries::Retries;
use menagerie_queues::admin::{self, Destination};
use menagerie_queues::core::ledger::Ack;
use menagerie_queues::story::{self, Act, ActKind, Entry, Filter, Line, Outcome, Page, State, Story};
use menagerie_queues::{Journals, MessageUuid, Meta, Origin, QueueError, Via, task};
use menagerie_testkit::eventually_async;
use menagerie_znodes::queues::{Handling, Keep, Order, PartitionName, QueueName, Retry, Settings};

use crate::counted::Counted;
use crate::troubled::{Trouble, Troubled};
use crate::world::{JOURNAL, Log, World, options, set_cursor};

/// A foreign id of long ago.
const NOBODYS: &str = "6ba7b810-9dad-11d1-80b4-00c04fd430c8";

fn mail() -> QueueName {
    "mail".parse().unwrap()
}

/// The outcomes of `mail-1`.
fn pages() -> PartitionId {
    PartitionId::new(story::topic(&mail()).unwrap(), 2)
}

fn partition(topic: &str) -> PartitionId {
    PartitionId::new(Topic::new(topic).unwrap(), 1)
}

fn entry(position: MessageId, attempt: u32, outcome: Outcome) -> Entry {
    let (at, took_ms) = (Ticks::now(), Some(1));
    Entry { position, at, attempt, took_ms, outcome, error: None, next_ms: None, meta: None }
}

/// Writes a page as a worker does.
async fn write_page(world: &World, worker: &str, entries: Vec<Entry>) -> MessageId {
    let top = entries.iter().map(|entry| entry.position).max().unwrap();
    let page = Page { worker: worker.to_owned(), top, entries };
    let page = NewMessage::new(serde_json::to_vec(&page).unwrap());
    world.store().commit(Commit::append(pages(), page)).await.unwrap().appends[0].id().unwrap()
}

/// Puts these into `mail-1`: their ids and positions.
async fn put(world: &World, session: &Session, bodies: &[&'static str]) -> Vec<(MessageUuid, MessageId)> {
    let mut putter = world.putter(session, "mail").await;
    let message = |body: &&'static str| (Destination::Partition(1), NewMessage::new(*body));
    let put = putter.put(bodies.iter().map(message).collect()).await.unwrap();
    put.into_iter().map(|put| (put.id.unwrap(), put.position.unwrap())).collect()
}

async fn trace(world: &World, session: &Session, id: MessageUuid) -> Option<Story> {
    story::trace(session, &world.journals(), id, None).await.unwrap()
}

/// Attempts that are told, and how they ended.
fn attempts(story: &Story) -> Vec<(u32, Outcome)> {
    let attempt = |line: &Line| match line {
        Line::Attempt { attempt, outcome, .. } => Some((*attempt, *outcome)),
        _ => None,
    };
    story.lines.iter().filter_map(attempt).collect()
}

fn filter(state: State) -> Filter {
    Filter { key: None, contains: None, state: Some(state), from: MessageId::ZERO, limit: 10 }
}

#[tokio::test]
async fn an_outcome_that_was_not_recorded_is_not_the_end() {
    let world = World::new("story-again");
    let session = world.session().await;
    world.create(&session, "mail", 1).await;
    let [(id, position)] = put(&world, &session, &["a"]).await[..] else { panic!("one") };
    // It is done, and its worker dies before it has recorded that.
    write_page(&world, "w1", vec![entry(position, 1, Outcome::Done)]).await;
    let log = Log::default();
    let worker = world.start(&session, options("w2", &["mail"]), log.endless("w2", true));
    eventually_async("it runs again", async || {
        let story = trace(&world, &session, id).await.unwrap();
        (story.state == State::Running).then_some(())
    })
    .await;
    let found = story::find(&session, &world.journals(), &mail(), filter(State::Running)).await.unwrap();
    assert_eq!(found.messages.len(), 1);
    worker.abort().await;
    write_page(&world, "w2", vec![entry(position, 2, Outcome::Retry)]).await;
    let story = trace(&world, &session, id).await.unwrap();
    let told: Vec<_> = attempts(&story).into_iter().filter(|(_, end)| *end != Outcome::Stopped).collect();
    assert_eq!((told, story.state), (vec![(1, Outcome::Done), (2, Outcome::Retry)], State::Retrying));
    // What is recorded was told before: also behind a first end.
    write_page(&world, "w2", vec![entry(position, 3, Outcome::Done)]).await;
    set_cursor(&session, &mail().partition(1), position).await;
    let story = trace(&world, &session, id).await.unwrap();
    assert_eq!((attempts(&story).last(), story.state), (Some(&(3, Outcome::Done)), State::Done));
}

#[tokio::test]
async fn what_was_given_up_and_could_not_be_moved_is_tried_again() {
    let world = World::new("story-unmoved");
    let session = world.session().await;
    world.create(&session, "mail", 1).await;
    let [(id, position)] = put(&world, &session, &["a"]).await[..] else { panic!("one") };
    write_page(&world, "w1", vec![entry(position, 1, Outcome::Failed)]).await;
    assert_eq!(trace(&world, &session, id).await.unwrap().state, State::Retrying);
    set_cursor(&session, &mail().partition(1), position).await;
    assert_eq!(trace(&world, &session, id).await.unwrap().state, State::Forgotten);
}

#[tokio::test]
async fn a_failed_message_of_which_no_attempt_is_told_yet_is_incomplete() {
    let world = World::new("story-early");
    let session = world.session().await;
    world.create(&session, "mail", 1).await;
    let [(id, position)] = put(&world, &session, &["a"]).await[..] else { panic!("one") };
    // The failed message is stored; its outcome is written a moment later.
    let meta = format!(
        r#"{{"id":"{id}","origin":"mail-1","message":"{position}","error":"no","attempts":1,"output":""}}"#
    );
    world.store().create_topic(&partition("mail.failed").topic, TopicConfig::partitions(1)).await.unwrap();
    let message = NewMessage { meta: meta.into(), ..NewMessage::new("a") };
    world.store().commit(Commit::append(partition("mail.failed"), message)).await.unwrap();
    let story = trace(&world, &session, id).await.unwrap();
    assert_eq!((story.state, story.is_incomplete), (State::Failed, true), "{story:?}");
    write_page(&world, "w1", vec![entry(position, 1, Outcome::Failed)]).await;
    let story = trace(&world, &session, id).await.unwrap();
    assert_eq!((story.state, story.is_incomplete), (State::Failed, false), "{story:?}");
}

#[tokio::test]
async fn a_message_that_is_recorded_before_it_starts_is_running_and_not_done() {
    let world = World::new("story-before");
    let session = world.session().await;
    world.create(&session, "mail", 1).await;
    let [(id, position), _] = put(&world, &session, &["a", "b"]).await[..] else { panic!("two") };
    let mut once = options("w1", &["mail"]);
    once.ack = Ack::Before;
    let log = Log::default();
    let worker = world.start(&session, once, log.endless("w1", true));
    let story = eventually_async("it runs", async || {
        let story = trace(&world, &session, id).await.unwrap();
        (story.state == State::Running).then_some(story)
    })
    .await;
    assert!(!story.is_incomplete, "{story:?}");
    let found = story::find(&session, &world.journals(), &mail(), filter(State::Running)).await.unwrap();
    assert_eq!(found.messages.iter().map(|found| found.position).collect::<Vec<_>>(), [Some(position)]);
    worker.abort().await;
}

#[tokio::test]
async fn what_was_dropped_unhandled_is_forgotten_although_the_cursor_has_passed() {
    for is_skipped in [false, true] {
        let world = World::new(if is_skipped { "story-skip" } else { "story-purge" });
        let session = world.session().await;
        let settings = Settings { keep: Keep::For(Duration::ZERO), ..admin::default_settings(1, JOURNAL) };
        admin::create_with(&session, &world.journals(), &mail(), &settings).await.unwrap();
        let [handled, a, b] = put(&world, &session, &["handled", "a", "b"]).await[..] else {
            panic!("three")
        };
        write_page(&world, "w1", vec![entry(handled.1, 1, Outcome::Done)]).await;
        set_cursor(&session, &mail().partition(1), handled.1).await;
        let act = match is_skipped {
            true => {
                admin::skip(&session, &world.journals(), &mail().partition(1), b.1).await.unwrap();
                "Skipped"
            }
            false => {
                admin::purge(&session, &world.journals(), &mail()).await.unwrap();
                "Purged"
            }
        };
        let next = put(&world, &session, &["c"]).await[0];
        set_cursor(&session, &mail().partition(1), next.1).await;
        for (id, _) in [a, b] {
            let story = trace(&world, &session, id).await.unwrap();
            assert_eq!(story.state, State::Forgotten, "{story:?}");
            let last = story.lines.last().unwrap();
            assert!(matches!(last, Line::Act { act: did, .. } if format!("{did:?}") == act), "{story:?}");
        }
        let story = trace(&world, &session, handled.0).await.unwrap();
        assert_eq!((story.state, attempts(&story)), (State::Done, vec![(1, Outcome::Done)]));
    }
}

#[tokio::test]
async fn what_nobody_has_told_is_done_only_if_its_story_may_be_gone() {
    for (name, keep, state) in [
        ("story-kept", Keep::Forever, State::Forgotten),
        ("story-old", Keep::For(Duration::ZERO), State::Done),
    ] {
        let world = World::new(name);
        let session = world.session().await;
        let settings = Settings { keep, ..admin::default_settings(1, JOURNAL) };
        admin::create_with(&session, &world.journals(), &mail(), &settings).await.unwrap();
        let [(id, position), next] = put(&world, &session, &["a", "b"]).await[..] else { panic!("two") };
        // It has expired unseen; or its id is a mistake.
        world.store().trim(&partition("mail"), position).await.unwrap();
        set_cursor(&session, &mail().partition(1), next.1).await;
        let story = trace(&world, &session, id).await.unwrap();
        assert_eq!((story.state, story.is_incomplete), (state, true));
        let never = MessageUuid::derived(&mail().partition(1), MessageId(Ticks::now()));
        assert_eq!(trace(&world, &session, never).await, None, "no message ever stood there");
    }
}

#[tokio::test]
async fn the_newest_message_that_pages_name_never_falls_when_another_owner_begins_with_old_ones() {
    let world = World::new("story-tops");
    let session = world.session().await;
    let handling = Handling { order: Order::None, retry: Some(Retry::Later), ..Handling::default() };
    let settings = Settings { handling, ..admin::default_settings(1, JOURNAL) };
    admin::create_with(&session, &world.journals(), &mail(), &settings).await.unwrap();
    let put = put(&world, &session, &["old", "a", "b", "c"]).await;
    let (own, log) = (world.session().await, Log::default());
    let mut patient = options("w1", &["mail"]);
    patient.failure.backoff = Some(Duration::from_secs(1));
    let task = |body: &str| match body {
        "old" => task::Outcome::retry("not yet"),
        _ => task::Outcome::Done,
    };
    let worker = world.start(&own, patient, log.task_with("w1", task));
    let newest = put.last().unwrap();
    let told =
        async |(id, _): &(MessageUuid, MessageId)| attempts(&trace(&world, &session, *id).await.unwrap());
    eventually_async("the newest is told", async || {
        (told(newest).await == [(1, Outcome::Done)]).then_some(())
    })
    .await;
    worker.kill().await;
    let worker = world.start(&session, options("w2", &["mail"]), log.task("w2"));
    world.drained(&session, "mail", 1).await;
    worker.finish().await;
    let read = Read::after(pages(), MessageId::ZERO);
    let all = world.store().read(read).await.unwrap().messages;
    let all: Vec<Page> = all.iter().map(|page| serde_json::from_slice(&page.body).unwrap()).collect();
    assert!(all.iter().any(|page| page.worker == "w2"));
    assert!(all.is_sorted_by_key(|page| page.top), "{all:?}");
    assert_eq!(told(newest).await, [(1, Outcome::Done)]);
    assert_eq!(told(&put[0]).await.last().map(|(_, end)| *end), Some(Outcome::Done));
}

#[tokio::test]
async fn an_attempt_long_after_others_is_found() {
    /// A page each: more than a minute of a worker that is never idle.
    const OTHERS: usize = 1_500;
    let world = World::new("story-late");
    let session = world.session().await;
    world.create(&session, "mail", 1).await;
    let [(id, position), other] = put(&world, &session, &["late", "other"]).await[..] else { panic!("two") };
    write_page(&world, "w1", vec![entry(position, 1, Outcome::Retry)]).await;
    for _ in 0..OTHERS {
        write_page(&world, "w1", vec![entry(other.1, 1, Outcome::Done)]).await;
    }
    write_page(&world, "w1", vec![entry(position, 2, Outcome::Done)]).await;
    set_cursor(&session, &mail().partition(1), other.1).await;
    let story = trace(&world, &session, id).await.unwrap();
    let told = attempts(&story);
    assert_eq!((told, story.state), (vec![(1, Outcome::Retry), (2, Outcome::Done)], State::Done));
    assert!(!story.is_incomplete, "{story:?}");
}

#[tokio::test]
async fn a_story_without_its_begin_is_incomplete() {
    let world = World::new("story-begin");
    let session = world.session().await;
    world.create(&session, "mail", 1).await;
    let [(id, position)] = put(&world, &session, &["a"]).await[..] else { panic!("one") };
    let first = write_page(&world, "w1", vec![entry(position, 1, Outcome::Retry)]).await;
    write_page(&world, "w1", vec![entry(position, 2, Outcome::Done)]).await;
    set_cursor(&session, &mail().partition(1), position).await;
    assert!(!trace(&world, &session, id).await.unwrap().is_incomplete);
    world.store().trim(&pages(), first).await.unwrap();
    let story = trace(&world, &session, id).await.unwrap();
    assert_eq!((story.state, story.is_incomplete), (State::Done, true), "{story:?}");
}

/// A queue `aside` with a message of a foreign id.
async fn put_aside(world: &World, session: &Session) -> MessageUuid {
    world.create(session, "aside", 1).await;
    let id: MessageUuid = NOBODYS.parse().unwrap();
    let meta = Meta { id: Some(id), ..Origin::new("notes", Via::Http).meta() };
    let message = NewMessage { meta: meta.encode(), ..NewMessage::new("theirs") };
    let edits = vec![Edit::Replace { partition: partition("aside"), id: MessageId(id.time()), message }];
    world.store().commit(Commit { edits, ..Commit::default() }).await.unwrap();
    id
}

#[tokio::test]
async fn a_queue_that_cannot_be_read_hides_no_other_and_is_not_taken_for_one_that_knows_nothing() {
    let world = World::new("story-unread");
    let session = world.session().await;
    let elsewhere = Arc::new(world.store().clone());
    let both =
        Journals::from([(JOURNAL.to_owned(), elsewhere.clone() as _), ("other".to_owned(), elsewhere as _)]);
    let first: QueueName = "aaa".parse().unwrap();
    admin::create(&session, &both, &first, 1, "other").await.unwrap();
    let id = put_aside(&world, &session).await;
    let story = trace(&world, &session, id).await.unwrap();
    assert_eq!(story.partition, "aside-1".parse::<PartitionName>().unwrap());
    let unknown: MessageUuid = "6ba7b810-9dad-11d1-80b4-00c04fd430c9".parse().unwrap();
    let refused = story::trace(&session, &world.journals(), unknown, None).await;
    assert!(matches!(&refused, Err(QueueError::NoJournal { queue, .. }) if *queue == first), "{refused:?}");
}

#[tokio::test]
async fn an_id_that_is_nobodys_costs_a_bounded_number_of_reads() {
    const MESSAGES: usize = 60_000;
    let world = World::new("story-nobodys");
    let session = world.session().await;
    world.create(&session, "aaa", 1).await;
    let id = put_aside(&world, &session).await;
    let config = TopicConfig::partitions(1);
    world.store().create_topic(&Topic::new("aaa.failed").unwrap(), config).await.unwrap();
    for topic in ["aaa", "aaa.failed"] {
        for _ in 0..MESSAGES / 10_000 {
            let append = |_| Append { partition: partition(topic), message: NewMessage::new("x") };
            let appends = (0..10_000).map(append).collect();
            world.store().commit(Commit { appends, ..Commit::default() }).await.unwrap();
        }
    }
    let journal = Arc::new(Counted::reads_of(world.store()));
    let journals = Journals::from([(JOURNAL.to_owned(), journal.clone() as _)]);
    // It stands where its id says, in a queue that comes later.
    let story = story::trace(&session, &journals, id, None).await.unwrap().unwrap();
    assert_eq!(story.state, State::Waiting);
    let (reads, messages) = journal.take();
    assert!(messages < 20_000, "{reads} reads of {messages} messages");
    let unknown: MessageUuid = "6ba7b810-9dad-11d1-80b4-00c04fd430c9".parse().unwrap();
    assert_eq!(story::trace(&session, &journals, unknown, None).await.unwrap(), None);
    let (reads, messages) = journal.take();
    assert!(messages < 70_000, "{reads} reads of {messages} messages");
}

#[tokio::test]
async fn damage_is_a_gap_and_what_follows_is_told() {
    let world = World::new("story-damaged");
    let session = world.session().await;
    world.create(&session, "mail", 1).await;
    let [(id, position)] = put(&world, &session, &["a"]).await[..] else { panic!("one") };
    let damaged = write_page(&world, "w1", vec![entry(position, 1, Outcome::Retry)]).await;
    write_page(&world, "w1", vec![entry(position, 2, Outcome::Done)]).await;
    set_cursor(&session, &mail().partition(1), position).await;
    let acts = PartitionId::new(pages().topic, 1);
    let note = world.store().commit(Commit::append(acts.clone(), NewMessage::new("?"))).await.unwrap();
    let note = note.appends[0].id().unwrap();
    let journal = Arc::new(Counted::damaged(world.store(), vec![(pages(), damaged), (acts, note)]));
    let journals = Journals::from([(JOURNAL.to_owned(), journal.clone() as _)]);
    let story = story::trace(&session, &journals, id, None).await.unwrap().unwrap();
    let told = attempts(&story);
    assert_eq!((told, story.state, story.is_incomplete), (vec![(2, Outcome::Done)], State::Done, true));
    let browser = admin::browse::Browser::open(&session, &journals, &mail()).await.unwrap();
    let found = browser.with_id(&[mail().partition(1)], id).await.unwrap();
    assert_eq!(found.len(), 1);
    let retries = Retries::read(&*journal, &mail(), &HashSet::from([id]), id.time(), 8).await.unwrap();
    assert!(retries.last.is_empty() && !retries.is_complete, "nobody knows what the note said");
}

/// As if an operator had put a message back while others put many: the journal stored all of it together.
async fn put_back_behind(world: &World, id: MessageUuid, others: usize) -> MessageId {
    let act = Act {
        id,
        partition: mail().partition(1),
        position: None,
        act: ActKind::Retried,
        by: None,
        meta: None,
    };
    let meta = Meta { id: Some(id), retries: 1, ..Origin::library().meta() };
    let copy = NewMessage { meta: meta.encode(), ..NewMessage::new("a") };
    let note = NewMessage::new(serde_json::to_vec(&act).unwrap());
    let mut appends = vec![Append { partition: PartitionId::new(pages().topic, 1), message: note }];
    let others = std::iter::repeat_n(NewMessage::new("other"), others);
    appends.extend(others.chain([copy]).map(|message| Append { partition: partition("mail"), message }));
    let stored = world.store().commit(Commit { appends, ..Commit::default() }).await.unwrap();
    stored.appends.last().unwrap().id().unwrap()
}

#[tokio::test]
async fn a_message_that_was_put_back_together_with_many_others_is_found() {
    let world = World::new("story-crowd");
    let session = world.session().await;
    world.create(&session, "mail", 1).await;
    let [(id, position)] = put(&world, &session, &["a"]).await[..] else { panic!("one") };
    write_page(&world, "w1", vec![entry(position, 1, Outcome::Failed)]).await;
    set_cursor(&session, &mail().partition(1), position).await;
    let copy = put_back_behind(&world, id, 3_000).await;
    let story = trace(&world, &session, id).await.unwrap();
    assert_eq!((story.state, story.position), (State::Waiting, Some(copy.seconds())));
    assert!(!story.is_incomplete);
    // Somebody purges it: nothing says what became of the copy.
    world.store().trim(&partition("mail"), copy).await.unwrap();
    assert!(trace(&world, &session, id).await.unwrap().is_incomplete);
}

#[tokio::test]
async fn an_attempt_that_died_with_its_worker_is_told_by_the_next_one() {
    let world = World::new("traces-orphaned");
    let (session, own) = (world.session().await, world.session().await);
    world.create(&session, "mail", 1).await;
    let (id, _) = put(&world, &session, &["slow"]).await[0];
    let hangs = |_: task::Work| std::future::pending::<Vec<task::Outcome>>();
    let story = async || story::trace(&session, &world.journals(), id, None).await.unwrap().unwrap();
    let running = async |worker: &str, attempt| {
        let what = format!("it runs at {worker}");
        eventually_async(&what, async || match story().await.lines.last() {
            Some(Line::Running { worker: at, attempt: made, .. }) if at == worker => Some(*made),
            _ => None,
        })
        .await
            == Some(attempt)
    };
    let worker = world.start(&own, options("w1", &["mail"]), hangs);
    assert!(running("w1", 1).await);
    worker.kill().await;
    eventually_async("nobody has it", async || (story().await.state == State::Waiting).then_some(())).await;
    let worker = world.start(&session, options("w2", &["mail"]), hangs);
    assert!(running("w2", 2).await);
    let told = eventually_async("it is told", async || {
        let story = story().await;
        (story.lines.len() == 3).then_some(story)
    })
    .await;
    assert!(
        matches!(&told.lines[1], Line::Attempt { worker, attempt: 0, outcome: Outcome::Orphaned, .. } if worker == "w2"),
        "{told:?}"
    );
    assert_eq!((told.state, told.is_incomplete), (State::Running, false), "{told:?}");
    worker.kill().await;
}

#[tokio::test]
async fn a_journal_that_is_full_takes_no_notes_but_does_what_makes_room() {
    let world = World::new("story-full");
    let session = world.session().await;
    world.create(&session, "mail", 1).await;
    let mut putter = world.putter(&session, "mail").await;
    let due = Some(Ticks::now().plus(Duration::from_secs(3_600)));
    let later = NewMessage { due, ..NewMessage::new("later") };
    putter.put(vec![(Destination::Partition(1), later); 2]).await.unwrap();
    world.put_to(&session, "mail-1", &["bad"]).await;
    let log = Log::default();
    let worker = world.start(
        &session,
        options("w1", &["mail"]),
        log.task_with("w1", |_| task::Outcome::failed("no such customer")),
    );
    world.drained(&session, "mail", 1).await;
    worker.finish().await;

    let journals = Troubled::journals(&world, Trouble::Full);
    let failed = FailedMessages::open(&session, &journals, &mail()).await.unwrap();
    let given_up = failed.after(MessageId::ZERO, 1).await.unwrap().pop().unwrap();
    assert!(failed.retry(&given_up).await.is_err(), "that takes room");
    assert!(failed.forget(&given_up).await.unwrap());
    let delayed = DelayedMessages::open(&session, &journals, &mail(), None).await.unwrap();
    let first = delayed.next(1).await.unwrap().pop().unwrap();
    assert!(delayed.cancel(first.name()).await.unwrap());
    assert_eq!(delayed.cancel_all(|_| ()).await.unwrap(), 1);
    assert!(delayed.next(1).await.unwrap().is_empty());
    assert!(world.messages("mail.failed", 1).await.is_empty());
}
