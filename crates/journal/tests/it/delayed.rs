//! Delayed messages on a real store: read, cancelled, and never both cancelled and delivered.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use menagerie_journal::store::backup::restore;
use menagerie_journal::store::verify::verify;
use menagerie_journal::{
    Append, Appended, Commit, DelayedId, Edit, Edited, Journal, MessageId, NewMessage, Read, Store,
    TopicConfig,
};
use menagerie_testkit::eventually_async;

use crate::rig::{Rig, partition, topic};

/// Appends this many, one due after the other.
async fn delay(rig: &Rig, store: &Store, count: u32, apart: Duration, bytes: usize) -> Vec<DelayedId> {
    store.create_topic(&topic("mail"), TopicConfig::default()).await.unwrap();
    let start = rig.clock.now();
    let append = |number: u32| {
        let mut body = vec![b' '; bytes];
        body[..4].copy_from_slice(&number.to_be_bytes());
        let due = Some(start.plus(apart * (number + 1)));
        Append { partition: partition("mail", 1), message: NewMessage { due, ..NewMessage::new(body) } }
    };
    let commit = Commit { appends: (0..count).map(append).collect(), ..Commit::default() };
    let appended = store.commit(commit).await.unwrap().appends;
    let ids = appended.into_iter().map(|appended| match appended {
        Appended::Delayed(id) => id,
        other => panic!("it is delayed: {other:?}"),
    });
    ids.collect()
}

async fn cancel(store: &Store, id: DelayedId) -> bool {
    let edits = vec![Edit::Cancel { partition: partition("mail", 1), id }];
    let edited = store.commit(Commit { edits, ..Commit::default() }).await.unwrap().edits;
    assert_ne!(edited, [Edited::Inserted]);
    edited == [Edited::Changed]
}

/// Numbers of delayed messages, in the order in which they are due.
async fn waiting(store: &Store) -> Vec<u32> {
    let batch = store.read(Read::delayed(partition("mail", 1), DelayedId::ZERO)).await.unwrap();
    batch.messages.iter().map(|message| number(&message.body)).collect()
}

/// Numbers of visible messages, once none is delayed any more.
async fn visible(store: &Store) -> Vec<u32> {
    eventually_async("nothing waits any more", async || {
        let stats = store.stats(&topic("mail")).await.unwrap();
        (stats[0].delayed == 0).then_some(())
    })
    .await;
    let read = Read::after(partition("mail", 1), MessageId::ZERO);
    store.read(read).await.unwrap().messages.iter().map(|message| number(&message.body)).collect()
}

fn number(body: &Bytes) -> u32 {
    u32::from_be_bytes(body[..4].try_into().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn each_is_cancelled_or_becomes_visible_and_never_both() {
    let rig = Rig::small();
    let store = rig.open();
    let step = Duration::from_millis(10);
    let ids = delay(&rig, &store, 300, step, 4).await;
    // They become due while they are being cancelled, one by one.
    let clock = rig.clock.clone();
    let time = async {
        for _ in &ids {
            clock.ahead(step);
            // The log loop reads the clock whenever it has done something.
            store.trim(&partition("mail", 1), MessageId::ZERO).await.unwrap();
        }
    };
    let cancelling = async {
        let mut cancelled = BTreeSet::new();
        for (id, number) in ids.iter().zip(0..) {
            if cancel(&store, *id).await {
                cancelled.insert(number);
            }
        }
        cancelled
    };
    let ((), cancelled) = tokio::join!(time, cancelling);
    let seen = visible(&store).await;
    let all: BTreeSet<u32> = seen.iter().copied().chain(cancelled.iter().copied()).collect();
    assert_eq!(seen.len() + cancelled.len(), ids.len(), "{cancelled:?} and {seen:?}");
    assert_eq!(all.len(), ids.len());
    drop(store);
    assert_eq!(visible(&rig.open()).await, seen, "also after a crash");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_cancelled_stays_so_after_crashes_and_in_backups() {
    let rig = Rig::small();
    let store = rig.open();
    let ids = delay(&rig, &store, 40, Duration::from_secs(60), 500).await;
    // Half of them from segments, and some of the others once they are there.
    store.checkpoint().unwrap();
    for id in ids.iter().step_by(2) {
        assert!(cancel(&store, *id).await);
        assert!(!cancel(&store, *id).await, "once is enough");
    }
    drop(store);
    let store = rig.open();
    let odd: Vec<u32> = (0..40).filter(|number| number % 2 == 1).collect();
    assert_eq!(waiting(&store).await, odd);
    store.checkpoint().unwrap();
    assert!(cancel(&store, ids[1]).await && !cancel(&store, ids[0]).await);
    let backup = rig.folder.path().join("backup");
    store.backup().unwrap().write(&mut std::fs::File::create(&backup).unwrap()).unwrap();
    assert!(cancel(&store, ids[3]).await);
    store.close().unwrap();
    drop(store);
    assert!(verify(&rig.config.data).unwrap().damaged.is_empty());
    assert_eq!(waiting(&rig.open()).await, odd[2..]);
    let mut elsewhere = rig;
    elsewhere.config.data = elsewhere.folder.path().join("restored");
    restore(&backup, &elsewhere.config.data).unwrap();
    let store = elsewhere.open();
    assert_eq!(waiting(&store).await, odd[1..]);
    elsewhere.clock.ahead(Duration::from_secs(3600));
    assert_eq!(visible(&store).await, odd[1..]);
    assert!(!cancel(&store, ids[3]).await, "it is too late");
}

#[tokio::test(flavor = "multi_thread")]
async fn many_large_ones_come_few_at_a_time() {
    let rig = Rig::small();
    let store = rig.open();
    let ids = delay(&rig, &store, 300, Duration::from_secs(1), 1000).await;
    store.checkpoint().unwrap();
    let (mut seen, mut after, mut reads) = (Vec::new(), DelayedId::ZERO, 0);
    loop {
        let read = Read { bytes_max: 64 << 10, ..Read::delayed(partition("mail", 1), after) };
        let batch = store.read(read).await.unwrap();
        let Some(last) = batch.delayed.last() else { break };
        after = *last;
        reads += 1;
        seen.extend(batch.delayed);
    }
    assert_eq!(seen, ids);
    assert!((5..10).contains(&reads), "{reads}");
    let limited = store.read(Read::delayed(partition("mail", 1), ids[9]).limit(3)).await.unwrap();
    assert_eq!(limited.delayed, ids[10..13]);
    let nothing = store.read(Read::delayed(partition("mail", 1), DelayedId::ZERO).limit(0)).await.unwrap();
    assert_eq!((nothing.messages.len(), nothing.last), (0, MessageId(ids[299].put)));
}
