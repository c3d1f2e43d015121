//! Outcomes that workers write, and how they are found.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use menagerie_journal::{
    Append, Commit, Journal as _, Message, MessageId, NewMessage, PartitionId, Read, Ticks, Topic,
};
use menagerie_kernel::Session;
use menagerie_queues::admin::Destination;
use menagerie_queues::admin::delayed::{DelayedMessages, DelayedName};
use menagerie_queues::story::{self, Entry, Filter, Line, Outcome, Page, State};
use menagerie_queues::{Journals, MessageUuid, task};
use menagerie_testkit::eventually_async;

use crate::counted::Counted;
use crate::troubled::{Trouble, Troubled};
use crate::world::{JOURNAL, Log, World, options, set_cursor};

/// The outcomes of a message of `mail-1`: attempt, outcome, error.
async fn outcomes(world: &World, message: &Message) -> Vec<(u32, Outcome, Option<String>)> {
    let pages = PartitionId::new(story::topic(&"mail".parse().unwrap()).unwrap(), 2);
    let found = story::outcomes(world.store(), &pages, message.id).await.unwrap();
    found.into_iter().map(|(_, entry)| (entry.attempt, entry.outcome, entry.error)).collect()
}

#[tokio::test]
async fn every_attempt_is_written_with_its_end() {
    let world = World::new("stories");
    let session = world.session().await;
    world.create(&session, "mail", 1).await;
    world.put_to(&session, "mail-1", &["good", "slow to learn", "bad"]).await;
    let tries = AtomicU32::new(0);
    let log = Log::default();
    let mut options = options("w1", &["mail"]);
    options.failure.attempts = NonZeroU32::new(3);
    let task = log.task_with("w1", move |body| match body {
        "slow to learn" if tries.fetch_add(1, Ordering::Relaxed) < 2 => task::Outcome::retry("not yet"),
        "bad" => task::Outcome::failed("never"),
        _ => task::Outcome::Done,
    });
    let worker = world.start(&session, options, task);
    world.drained(&session, "mail", 1).await;
    worker.finish().await;
    let [good, slow, bad] = world.messages("mail", 1).await.try_into().unwrap();
    assert_eq!(outcomes(&world, &good).await, [(1, Outcome::Done, None)]);
    let not_yet = || Some("not yet".to_owned());
    let expected = [(1, Outcome::Retry, not_yet()), (2, Outcome::Retry, not_yet()), (3, Outcome::Done, None)];
    assert_eq!(outcomes(&world, &slow).await, expected);
    assert_eq!(outcomes(&world, &bad).await, [(1, Outcome::Failed, Some("never".to_owned()))]);
}

/// A journal takes no message above its limit, and no commit.
#[tokio::test]
async fn outcomes_that_are_too_large_together_are_written_apart() {
    let world = World::new("stories-large");
    let session = world.session().await;
    world.create(&session, "mail", 3).await;
    world.put(&session, "mail", 0..60).await;
    let log = Log::default();
    let journals = Troubled::journals(&world, Trouble::SmallCommits);
    let worker = world.start_with(&session, options("w1", &["mail"]), log.task("w1"), journals);
    world.drained(&session, "mail", 3).await;
    worker.finish().await;
    let filter = Filter { key: None, contains: None, state: None, from: MessageId::ZERO, limit: 100 };
    let found = story::find(&session, &world.journals(), &"mail".parse().unwrap(), filter).await.unwrap();
    assert_eq!(found.messages.len(), 60);
    for message in found.messages {
        let id = message.id.parse().unwrap();
        let story = story::trace(&session, &world.journals(), id, None).await.unwrap().unwrap();
        assert!(story.state == State::Done && !story.is_incomplete, "{story:?}");
    }
}

#[tokio::test]
async fn one_of_many_is_found_whoever_wrote_it() {
    const MESSAGES: u32 = 3_000;
    const SAMPLED: usize = 37;
    let world = World::new("stories-many");
    let session = world.session().await;
    world.create(&session, "mail", 1).await;
    let (own, log) = (world.session().await, Log::default());
    world.put(&session, "mail", 0..MESSAGES).await;
    let worker = world.start(&own, options("w1", &["mail"]), log.task("w1"));
    eventually_async("some are handled", async || (log.handled().len() > 500).then_some(())).await;
    worker.kill().await;
    let worker = world.start(&session, options("w2", &["mail"]), log.task("w2"));
    world.drained(&session, "mail", 1).await;
    worker.finish().await;
    // The last moment of the one that was killed is lost; all others are told.
    let mut untold = 0;
    for message in world.messages("mail", 1).await.into_iter().step_by(SAMPLED) {
        let id = MessageUuid::of(&"mail-1".parse().unwrap(), &message);
        let story = story::trace(&session, &world.journals(), id, None).await.unwrap().unwrap();
        assert_eq!(story.state, State::Done);
        match &outcomes(&world, &message).await[..] {
            [] => {
                untold += 1;
                assert!(story.is_incomplete, "its story does not say that something is missing: {story:?}");
            }
            [.., (_, Outcome::Done, None)] => {}
            other => panic!("{other:?}"),
        }
    }
    let sampled = MESSAGES as usize / SAMPLED;
    assert!(untold < sampled / 2, "{untold} of {sampled} have no story");
}

/// 200,000 messages that were done one after the other, 500 on a page, and a moment later each page was written.
const PAGES: u64 = 400;
const ENTRIES: u64 = 500;

/// Puts all messages of `mail-1` and writes their outcomes: page by page, or all messages first. Returns some of them.
async fn write_pages(world: &World, session: &Session, is_behind: bool) -> Vec<Message> {
    let (mail, pages) = (
        PartitionId::new(Topic::new("mail").unwrap(), 1),
        PartitionId::new(story::topic(&"mail".parse().unwrap()).unwrap(), 2),
    );
    let put = async || {
        let message = || NewMessage { meta: r#"{"via":"library"}"#.into(), ..NewMessage::new("x") };
        let appends = (0..ENTRIES).map(|_| Append { partition: mail.clone(), message: message() }).collect();
        world.store().commit(Commit { appends, ..Commit::default() }).await.unwrap();
    };
    for _ in 0..if is_behind { PAGES } else { 0 } {
        put().await;
    }
    let (mut after, mut some) = (MessageId::ZERO, Vec::new());
    for _ in 0..PAGES {
        if !is_behind {
            put().await;
        }
        let read = Read::after(mail.clone(), after).limit(u32::try_from(ENTRIES).unwrap());
        let messages = world.store().read(read).await.unwrap().messages;
        let entry = |message: &Message| Entry {
            position: message.id,
            at: message.id.0,
            attempt: 1,
            took_ms: Some(1),
            outcome: Outcome::Done,
            error: None,
            next_ms: None,
            meta: None,
        };
        after = messages.last().unwrap().id;
        let page =
            Page { worker: "w1".to_owned(), top: after, entries: messages.iter().map(entry).collect() };
        let message = NewMessage::new(serde_json::to_vec(&page).unwrap());
        let appends = vec![Append { partition: pages.clone(), message }];
        world.store().commit(Commit { appends, ..Commit::default() }).await.unwrap();
        some.push(messages[messages.len() / 2].clone());
    }
    set_cursor(session, &"mail-1".parse().unwrap(), after).await;
    some
}

#[tokio::test]
async fn few_reads_find_one_that_was_delayed_or_cancelled() {
    let world = World::new("stories-delayed");
    let session = world.session().await;
    world.create(&session, "mail", 1).await;
    let mut putter = world.putter(&session, "mail").await;
    let mut delay = async |delay| {
        let message = NewMessage { due: Some(Ticks::now().plus(delay)), ..NewMessage::new("later") };
        putter.put(vec![(Destination::Any, message)]).await.unwrap()[0].id.unwrap()
    };
    let (soon, later) = (delay(Duration::from_millis(300)).await, delay(Duration::from_secs(3_600)).await);
    let cancelled = delay(Duration::from_secs(7_200)).await;
    world.put(&session, "mail", 0..10_000).await;
    eventually_async("it is due", async || (world.messages("mail", 1).await.len() == 10_001).then_some(()))
        .await;
    world.put(&session, "mail", 0..10_000).await;
    let delayed = DelayedMessages::open(&session, &world.journals(), &"mail".parse().unwrap(), None).await;
    assert!(delayed.unwrap().acting_as("ann").cancel(DelayedName::Id(cancelled)).await.unwrap());
    let journal = Arc::new(Counted::reads_of(world.store()));
    let journals = Journals::from([(JOURNAL.to_owned(), journal.clone() as _)]);
    for (id, state) in [(soon, State::Waiting), (later, State::Delayed), (cancelled, State::Forgotten)] {
        let story = story::trace(&session, &journals, id, None).await.unwrap().unwrap();
        assert_eq!((story.state, story.is_incomplete), (state, false));
        assert!(
            matches!(story.lines[..], [Line::Put { .. }, Line::Due { .. } | Line::Act { .. }]),
            "{story:?}"
        );
        let (reads, messages) = journal.take();
        // A batch behind the time at which it was due.
        assert!(reads < 40 && messages < 12_000, "{reads} reads of {messages} messages for one {state}");
    }
}

#[tokio::test]
async fn few_reads_find_one_of_200_000() {
    for (name, is_behind) in [("stories-quick", false), ("stories-behind", true)] {
        let world = World::new(name);
        let session = world.session().await;
        world.create(&session, "mail", 1).await;
        let some = write_pages(&world, &session, is_behind).await;
        let journal = Arc::new(Counted::reads_of(world.store()));
        let journals = Journals::from([(JOURNAL.to_owned(), journal.clone() as _)]);
        for at in [0, 1, PAGES / 2, PAGES - 1] {
            let message = &some[usize::try_from(at).unwrap()];
            let id = MessageUuid::of(&"mail-1".parse().unwrap(), message);
            let story = story::trace(&session, &journals, id, None).await.unwrap().unwrap();
            assert_eq!((story.state, story.lines.len()), (story::State::Done, 2), "page {at} of {name}");
            let (reads, messages) = journal.take();
            assert!(
                reads < 40 && messages < 100,
                "{reads} reads of {messages} messages for page {at} of {name}"
            );
        }
        // The newest few need no more than the end of the partition and of its outcomes.
        let filter = Filter { key: None, contains: None, state: None, from: MessageId::ZERO, limit: 10 };
        let found = story::find(&session, &journals, &"mail".parse().unwrap(), filter).await.unwrap();
        assert!(found.has_more && found.messages.iter().all(|found| found.state == story::State::Done));
        let (reads, messages) = journal.take();
        let bound = if is_behind { 2 * PAGES } else { 40 };
        assert!(reads < 40 && messages < 1000 + bound, "{reads} reads of {messages} messages");
    }
}
