//! Commits happen exactly once, or report a newer owner.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use menagerie_journal::{
    Append, Commit, Config, Consumer, Fence, Journal as _, JournalError, MessageId, Metrics, NewMessage,
    PartitionId, Read, Store, Topic, TopicConfig,
};
use menagerie_journal_directory::FencedConsumer;
use menagerie_journal_directory::consumer::{Opening, Outcome, Step};
use prometheus_client::registry::Registry;

use crate::lossy::{Fault, Lossy};

const FENCE: Fence = Fence::new(1, 7);

struct World {
    store: Store,
    _folder: tempfile::TempDir,
}

impl World {
    /// A store with three messages in `in-1` and none in `out-1`.
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let metrics = Metrics::new(&mut Registry::default());
        let store = Store::open(Config::new(folder.path().join("journal")), metrics).unwrap();
        for topic in ["in", "out"] {
            store.create_topic(&Topic::new(topic).unwrap(), TopicConfig::partitions(1)).await.unwrap();
        }
        for body in ["a", "b", "c"] {
            store.commit(Commit::append(partition("in"), NewMessage::new(body))).await.unwrap();
        }
        Self { store, _folder: folder }
    }

    async fn open(&self, fence: Fence, faults: &[Fault]) -> Opening {
        let journal = Arc::new(Lossy::before(&self.store, faults));
        let consumer = Consumer::new("task").unwrap();
        FencedConsumer::open(journal, partition("in"), consumer, fence).await.unwrap()
    }

    async fn ours(&self, faults: &[Fault]) -> FencedConsumer {
        match self.open(FENCE, faults).await {
            Opening::Ours { consumer, .. } => consumer,
            Opening::Stale { current } => panic!("{current} is newer"),
        }
    }

    /// Bodies of the messages in `out-1`.
    async fn out(&self) -> Vec<String> {
        let all = self.store.read(Read::after(partition("out"), MessageId::ZERO)).await.unwrap();
        let text = |body: &Bytes| String::from_utf8(body.to_vec()).unwrap();
        all.messages.iter().map(|message| text(&message.body)).collect()
    }
}

fn partition(topic: &str) -> PartitionId {
    PartitionId::new(Topic::new(topic).unwrap(), 1)
}

fn append(body: &str) -> Append {
    Append { partition: partition("out"), message: NewMessage::new(body.to_owned()) }
}

/// A step that ends at `through` and appends one message.
fn step(through: MessageId, out: &str) -> Step {
    let state = vec![(Bytes::from("count"), Some(Bytes::from(out.to_owned())))];
    Step { through, appends: vec![append(out)], state }
}

/// Reads one message and commits it.
async fn consume(consumer: &mut FencedConsumer) -> Outcome {
    let batch = consumer.read(1, Duration::ZERO).await.unwrap();
    let message = &batch.messages[0];
    let body = String::from_utf8(message.body.to_vec()).unwrap();
    consumer.commit(step(message.id, &body.to_uppercase())).await.unwrap()
}

#[tokio::test]
async fn the_next_owner_continues_where_the_last_one_stopped() {
    let world = World::new().await;
    let mut first = world.ours(&[]).await;
    assert!(matches!(consume(&mut first).await, Outcome::Committed { appended: Some(_) }));
    let newer = Fence::new(1, 8);
    let Opening::Ours { consumer: mut second, state } = world.open(newer, &[]).await else { panic!("stale") };
    assert_eq!(second.position(), first.position());
    assert_eq!(state, [(Bytes::from("count"), Bytes::from("A"))]);
    // The previous owner can change nothing any more, and learns that.
    assert_eq!(consume(&mut first).await, Outcome::Stale { current: newer });
    assert!(matches!(world.open(FENCE, &[]).await, Opening::Stale { current } if current == newer));
    assert_eq!(world.out().await, ["A"]);
    consume(&mut second).await;
    consume(&mut second).await;
    assert_eq!(world.out().await, ["A", "B", "C"]);
    assert!(second.read(1, Duration::ZERO).await.unwrap().messages.is_empty());
}

#[tokio::test]
async fn whichever_reply_is_lost_a_commit_happens_once() {
    use Fault::*;
    for faults in [
        &[ReplyLost][..],
        &[RequestLost],
        &[Late],
        &[RequestLost, ReplyLost],
        &[Late, RequestLost],
        &[ReplyLost, Away, Away],
        &[RequestLost, Away],
    ] {
        let world = World::new().await;
        let mut consumer = world.ours(faults).await;
        let outcome = consume(&mut consumer).await;
        assert!(matches!(outcome, Outcome::Committed { .. }), "{faults:?}: {outcome:?}");
        consume(&mut consumer).await;
        assert_eq!(world.out().await, ["A", "B"], "{faults:?}");
        assert_eq!(world.ours(&[]).await.position(), consumer.position(), "{faults:?}");
    }
}

/// A lost reply to it could not be resolved.
#[tokio::test]
async fn a_commit_that_does_not_move_is_refused_and_the_next_one_succeeds() {
    let world = World::new().await;
    let mut consumer = world.ours(&[]).await;
    let refused = consumer.commit(step(MessageId::ZERO, "tick")).await;
    assert!(matches!(refused, Err(JournalError::Invalid(_))));
    consume(&mut consumer).await;
    let refused = consumer.commit(step(consumer.position(), "tick")).await;
    assert!(matches!(refused, Err(JournalError::Invalid(_))));
    assert_eq!(world.out().await, ["A"]);
}

#[tokio::test]
async fn a_stale_owner_does_not_take_a_lost_reply_for_success() {
    let world = World::new().await;
    let mut consumer = world.ours(&[Fault::RequestLost]).await;
    let newer = Fence::new(2, 1);
    assert!(matches!(world.open(newer, &[]).await, Opening::Ours { .. }));
    assert_eq!(consume(&mut consumer).await, Outcome::Stale { current: newer });
    assert!(world.out().await.is_empty());
}

#[tokio::test]
async fn after_a_dropped_commit_the_partition_must_be_opened_again() {
    let world = World::new().await;
    let mut consumer = world.ours(&[Fault::Silent]).await;
    let first = consumer.read(1, Duration::ZERO).await.unwrap().messages[0].id;
    let silent = consumer.commit(step(first, "x"));
    assert!(tokio::time::timeout(Duration::from_millis(50), silent).await.is_err());
    for _ in 0..2 {
        let refused = consumer.commit(step(first, "y")).await;
        assert!(matches!(refused, Err(JournalError::Unknown(_))));
    }
    consume(&mut world.ours(&[]).await).await;
    assert_eq!(world.out().await, ["A"]);
}

#[tokio::test]
async fn a_refused_commit_changes_nothing_and_the_next_one_succeeds() {
    let world = World::new().await;
    let mut consumer = world.ours(&[]).await;
    let first = consumer.read(1, Duration::ZERO).await.unwrap().messages[0].id;
    let nowhere = PartitionId::new(Topic::new("nowhere").unwrap(), 1);
    let lost = Step {
        appends: vec![Append { partition: nowhere, message: NewMessage::new("z") }],
        ..step(first, "z")
    };
    assert!(matches!(consumer.commit(lost).await, Err(JournalError::NoTopic { .. })));
    consume(&mut consumer).await;
    assert_eq!(world.out().await, ["A"]);
}
