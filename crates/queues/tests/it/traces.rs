//! What the story of a message says when something went wrong: crashes, damage, journals that are gone, and messages that
//! nobody handled.

use std::sync::Arc;
use std::time::Duration;

use menagerie_journal::{
    Append, Commit, Edit, Journal as _, MessageId, NewMessage, PartitionId, Read, Ticks, Topic, TopicConfig,
};
use menagerie_kernel::Session;
use menagerie_queues::admin::{self, Destination};
use menagerie_queues::core::ledger::Ack;
use menagerie_queues::story::{self, Entry, Filter, Line, Outcome, Page, State, Story};
use menagerie_queues::{Journals, MessageUuid, Meta, Origin, QueueError, Via, task};
use menagerie_testkit::eventually_async;
use menagerie_znodes::queues::{Handling, Keep, Order, PartitionName, QueueName, Retry, Settings};

use crate::counted::Counted;
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
