//! Quota, clocks, retention, groups: what is refused and what is dropped.

use std::time::Duration;

use menagerie_journal::{
    Append, Commit, Group, Journal, JournalError, MessageId, NewMessage, Read, Ticks, TopicConfig,
};
use menagerie_testkit::eventually;

use crate::rig::{Rig, partition, topic};

fn body(size: usize) -> NewMessage {
    NewMessage::new(vec![b'x'; size])
}

#[tokio::test(flavor = "multi_thread")]
async fn beyond_the_quota_appends_are_refused_and_go_on_when_there_is_room() {
    let mut rig = Rig::small();
    rig.config.quota_bytes = Some(200 << 10);
    let store = rig.open();
    let spot = partition("mail", 1);
    let config = TopicConfig { compression: menagerie_journal::Compression::None, ..TopicConfig::default() };
    store.create_topic(&topic("mail"), config).await.unwrap();
    let mut last = MessageId::ZERO;
    let refused = loop {
        match store.commit(Commit::append(spot.clone(), body(4000))).await {
            Ok(committed) => last = committed.appends[0].id().unwrap(),
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, JournalError::Quota { .. }), "{refused:?}");
    assert!(!store.read(Read::after(spot.clone(), MessageId::ZERO)).await.unwrap().messages.is_empty());
    store.trim(&spot, last).await.unwrap();
    eventually("room after a trim", || {
        store.checkpoint().unwrap();
        let append = store.commit(Commit::append(spot.clone(), body(10)));
        tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(append))
            .is_ok()
            .then_some(())
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn ids_rise_whatever_the_clock_does() {
    let rig = Rig::small();
    let store = rig.open();
    let spot = partition("mail", 1);
    store.create_topic(&topic("mail"), TopicConfig::default()).await.unwrap();
    let append =
        async || store.commit(Commit::append(spot.clone(), body(1))).await.unwrap().appends[0].id().unwrap();
    let first = append().await;
    rig.clock.back(Duration::from_secs(3600));
    let second = append().await;
    assert_eq!(second, first.next());
    rig.clock.ahead(Duration::from_secs(3600 * 24 * 365));
    let third = append().await;
    assert_eq!(third.0, rig.clock.now());
    rig.clock.back(Duration::from_secs(3600 * 24 * 365));
    assert_eq!(append().await, third.next());
    assert!(store.usage().await.unwrap().clock_ahead_ms > 3600 * 24 * 364 * 1000, "it is reported");
}

#[tokio::test(flavor = "multi_thread")]
async fn retention_drops_old_segments_and_tells_of_the_gap() {
    let rig = Rig::small();
    let store = rig.open();
    let spot = partition("mail", 1);
    let config = TopicConfig { retention: Some(Duration::from_secs(60)), ..TopicConfig::default() };
    store.create_topic(&topic("mail"), config).await.unwrap();
    let mut old = MessageId::ZERO;
    for _ in 0..20 {
        old = store.commit(Commit::append(spot.clone(), body(2000))).await.unwrap().appends[0].id().unwrap();
    }
    store.checkpoint().unwrap();
    rig.clock.ahead(Duration::from_secs(120));
    let new = store.commit(Commit::append(spot.clone(), body(1))).await.unwrap().appends[0].id().unwrap();
    let batch = eventually("old messages to go", || {
        let read = store.read(Read::after(spot.clone(), MessageId::ZERO));
        let batch = tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(read)).unwrap();
        (batch.messages.len() == 1).then_some(batch)
    });
    assert_eq!((batch.messages[0].id, batch.gap), (new, Some(old)));
    let caught_up = store.read(Read::after(spot, old)).await.unwrap();
    assert_eq!(caught_up.gap, None);
    let segments = rig.config.data.join("segments");
    eventually("the files to go", || {
        store.checkpoint().unwrap();
        (std::fs::read_dir(&segments).unwrap().count() <= 1).then_some(())
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_stays_within_one_group() {
    let rig = Rig::small();
    let store = rig.open();
    store.create_topic(&topic("a"), TopicConfig::default()).await.unwrap();
    let other = TopicConfig { group: Group::new("other").unwrap(), ..TopicConfig::default() };
    store.create_topic(&topic("b"), other).await.unwrap();
    let append = |name: &str| Append { partition: partition(name, 1), message: body(1) };
    let refused = store.commit(Commit { appends: vec![append("a"), append("b")], ..Commit::default() }).await;
    assert!(matches!(refused, Err(JournalError::Groups { .. })));
    assert_eq!(store.usage().await.unwrap().messages, 0, "nothing of it has happened");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_delayed_survives_a_restart_and_becomes_visible_by_itself() {
    let rig = Rig::small();
    let spot = partition("mail", 1);
    {
        let store = rig.open();
        store.create_topic(&topic("mail"), TopicConfig::default()).await.unwrap();
        let due = Some(Ticks(rig.clock.now().0 + 50_000_000));
        let message = NewMessage { due, ..body(7) };
        store.commit(Commit::append(spot.clone(), message)).await.unwrap();
        assert_eq!(store.stats(&topic("mail")).await.unwrap()[0].delayed, 1);
    }
    let store = rig.open();
    let read = Read::after(spot, MessageId::ZERO);
    assert!(store.read(read.clone()).await.unwrap().messages.is_empty());
    rig.clock.ahead(Duration::from_secs(5));
    let batch = store.read(read.wait(Duration::from_secs(60))).await.unwrap();
    assert_eq!(batch.messages[0].id.0, rig.clock.now());
}
