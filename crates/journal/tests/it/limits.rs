//! Quota, clocks, retention, groups: what is refused and what is dropped.

use std::time::Duration;

use menagerie_journal::commit::{COMMIT_EDITS_MAX, COMMIT_PARTS_MAX};
use menagerie_journal::{
    Append, CONSUMER_BYTES_MAX, CONSUMERS_MAX, Commit, Config, Consumer, Edit, Fence, Group, Journal,
    JournalError, MessageId, Move, NewMessage, PartitionId, Read, StateWrite, Store, Ticks, TopicConfig,
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
    let partition_id = partition("mail", 1);
    let config = TopicConfig { compression: menagerie_journal::Compression::None, ..TopicConfig::default() };
    store.create_topic(&topic("mail"), config).await.unwrap();
    let mut last = MessageId::ZERO;
    let refused = loop {
        match store.commit(Commit::append(partition_id.clone(), body(4000))).await {
            Ok(committed) => last = committed.appends[0].id().unwrap(),
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, JournalError::Quota { .. }), "{refused:?}");
    assert!(
        !store.read(Read::after(partition_id.clone(), MessageId::ZERO)).await.unwrap().messages.is_empty()
    );
    store.trim(&partition_id, last).await.unwrap();
    eventually("room after a trim", || {
        store.checkpoint().unwrap();
        let append = store.commit(Commit::append(partition_id.clone(), body(10)));
        tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(append))
            .is_ok()
            .then_some(())
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quota_smaller_than_a_segment_of_the_log_gives_room_back_again_and_again() {
    let mut rig = Rig::small();
    let usual = Config::new(rig.config.data.clone());
    rig.config = Config { quota_bytes: Some(300 << 10), clock: rig.clock.clock(), reserve_bytes: 0, ..usual };
    let partition_id = partition("mail", 1);
    let config = TopicConfig { compression: menagerie_journal::Compression::None, ..TopicConfig::default() };
    let mut store = rig.open();
    store.create_topic(&topic("mail"), config).await.unwrap();
    for round in 0..4 {
        let appended = eventually("room", || {
            let append = store.commit(Commit::append(partition_id.clone(), body(4000)));
            tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(append)).ok()
        });
        let mut last = appended.appends[0].id().unwrap();
        while let Ok(committed) = store.commit(Commit::append(partition_id.clone(), body(4000))).await {
            last = committed.appends[0].id().unwrap();
        }
        store.trim(&partition_id, last).await.unwrap();
        if round == 2 {
            store.close().unwrap();
            drop(store);
            store = rig.open();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ids_rise_whatever_the_clock_does() {
    let rig = Rig::small();
    let store = rig.open();
    let partition_id = partition("mail", 1);
    store.create_topic(&topic("mail"), TopicConfig::default()).await.unwrap();
    let append = async || {
        store.commit(Commit::append(partition_id.clone(), body(1))).await.unwrap().appends[0].id().unwrap()
    };
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
    let partition_id = partition("mail", 1);
    let config = TopicConfig { retention: Some(Duration::from_secs(60)), ..TopicConfig::default() };
    store.create_topic(&topic("mail"), config).await.unwrap();
    let mut old = MessageId::ZERO;
    for _ in 0..20 {
        old = store.commit(Commit::append(partition_id.clone(), body(2000))).await.unwrap().appends[0]
            .id()
            .unwrap();
    }
    store.checkpoint().unwrap();
    rig.clock.ahead(Duration::from_secs(120));
    let new =
        store.commit(Commit::append(partition_id.clone(), body(1))).await.unwrap().appends[0].id().unwrap();
    let batch = eventually("old messages to go", || {
        let read = store.read(Read::after(partition_id.clone(), MessageId::ZERO));
        let batch = tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(read)).unwrap();
        (batch.messages.len() == 1).then_some(batch)
    });
    assert_eq!((batch.messages[0].id, batch.gap), (new, Some(old)));
    let caught_up = store.read(Read::after(partition_id, old)).await.unwrap();
    assert_eq!(caught_up.gap, None);
    let segments = rig.config.data.join("segments");
    eventually("the files to go", || {
        store.checkpoint().unwrap();
        (std::fs::read_dir(&segments).unwrap().count() <= 1).then_some(())
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn retention_by_size_keeps_the_newest() {
    let rig = Rig::small();
    let store = rig.open();
    let partition_id = partition("mail", 1);
    let config = TopicConfig {
        retention_bytes: Some(32 << 10),
        compression: menagerie_journal::Compression::None,
        ..TopicConfig::default()
    };
    store.create_topic(&topic("mail"), config).await.unwrap();
    let mut ids = Vec::new();
    for _ in 0..60 {
        let committed = store.commit(Commit::append(partition_id.clone(), body(2000))).await.unwrap();
        ids.push(committed.appends[0].id().unwrap());
    }
    store.checkpoint().unwrap();
    let batch = eventually("the oldest to go", || {
        let read = store.read(Read::after(partition_id.clone(), MessageId::ZERO));
        let batch = tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(read)).unwrap();
        (batch.messages.len() < ids.len()).then_some(batch)
    });
    let kept: Vec<MessageId> = batch.messages.iter().map(|message| message.id).collect();
    let bytes = kept.len() as u64 * 2024;
    assert!(bytes > 28 << 10, "{bytes} bytes are left: less than were to be kept");
    assert!(bytes < 56 << 10, "{bytes} bytes are left: more than another segment");
    let (dropped, newest) = ids.split_at(ids.len() - kept.len());
    assert_eq!((kept.as_slice(), batch.gap), (newest, dropped.last().copied()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_that_keeps_little_has_short_segments() {
    let mut rig = Rig::small();
    (rig.config.segment_bytes, rig.config.flush_bytes) = (64 << 20, 1 << 20);
    let store = rig.open();
    let mail = topic("mail");
    let config = TopicConfig {
        retention_bytes: Some(4 << 20),
        compression: menagerie_journal::Compression::None,
        ..TopicConfig::default()
    };
    store.create_topic(&mail, config).await.unwrap();
    for _ in 0..100 {
        store.commit(Commit::append(partition("mail", 1), body(100_000))).await.unwrap();
    }
    store.checkpoint().unwrap();
    let bytes = eventually("the oldest to go", || {
        let stats = store.stats(&mail);
        let stats =
            tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(stats)).unwrap();
        Some(stats[0].bytes).filter(|bytes| *bytes < 6 << 20)
    });
    assert!(bytes > (4 << 20) - (64 << 10), "{bytes} bytes are left: less than were to be kept");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_gives_a_life_to_messages_that_have_none_of_their_own() {
    let rig = Rig::small();
    let store = rig.open();
    let partition_id = partition("mail", 1);
    let config = TopicConfig { ttl: Some(Duration::from_secs(60)), ..TopicConfig::default() };
    store.create_topic(&topic("mail"), config).await.unwrap();
    let own = NewMessage { ttl: Some(Duration::from_secs(600)), ..body(2) };
    for message in [body(1), own] {
        store.commit(Commit::append(partition_id.clone(), message)).await.unwrap();
    }
    let read = async || store.read(Read::after(partition_id.clone(), MessageId::ZERO)).await.unwrap();
    let lives: Vec<_> =
        read().await.messages.iter().map(|m| m.expires.map(|expires| expires.since(m.id.0))).collect();
    assert_eq!(lives, [60, 600].map(|seconds| Some(Duration::from_secs(seconds))));
    rig.clock.ahead(Duration::from_secs(59));
    assert_eq!(read().await.messages.len(), 2);
    rig.clock.ahead(Duration::from_secs(2));
    let batch = read().await;
    assert_eq!((batch.messages.len(), batch.gap), (1, None), "nobody is told: it was to be so");
    assert_eq!(batch.messages[0].body.len(), 2);
    let all = store.read(Read::after(partition_id, MessageId::ZERO).with_expired()).await.unwrap();
    assert_eq!(all.messages.len(), 2, "whoever asks for it sees it");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_put_in_the_place_of_an_expired_message_stays() {
    let rig = Rig::small();
    let store = rig.open();
    let (mail, partition_id) = (topic("mail"), partition("mail", 1));
    store.create_topic(&mail, TopicConfig::partitions(2)).await.unwrap();
    let short = || NewMessage { ttl: Some(Duration::from_secs(60)), ..body(10) };
    let append = async |partition_id: &PartitionId| {
        store.commit(Commit::append(partition_id.clone(), short())).await.unwrap().appends[0].id().unwrap()
    };
    let ids = [append(&partition_id).await, append(&partition_id).await, append(&partition_id).await];
    append(&partition("mail", 2)).await;
    store.checkpoint().unwrap();
    let message = NewMessage::new("to stay");
    let edit = Edit::Replace { partition: partition_id.clone(), id: ids[1], message };
    store.commit(Commit { edits: vec![edit], ..Commit::default() }).await.unwrap();
    rig.clock.ahead(Duration::from_secs(2 * 3600));
    eventually("the other partition to be empty", || {
        let stats = store.stats(&mail);
        let stats =
            tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(stats)).unwrap();
        (stats[1].messages == 0).then_some(())
    });
    let batch = store.read(Read::after(partition_id, MessageId::ZERO)).await.unwrap();
    let found: Vec<_> = batch.messages.iter().map(|message| (message.id, message.body.as_ref())).collect();
    assert_eq!(found, [(ids[1], b"to stay".as_slice())]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_can_be_altered_but_not_shrunk_or_moved() {
    let rig = Rig::small();
    let mail = topic("mail");
    let altered = TopicConfig { ttl: Some(Duration::from_secs(60)), ..TopicConfig::partitions(3) };
    {
        let store = rig.open();
        store.create_topic(&mail, TopicConfig::partitions(2)).await.unwrap();
        let append = async |number| store.commit(Commit::append(partition("mail", number), body(1))).await;
        append(1).await.unwrap();
        assert!(matches!(append(3).await, Err(JournalError::NoPartition { .. })));
        store.alter_topic(&mail, altered.clone()).await.unwrap();
        append(1).await.unwrap();
        append(3).await.unwrap();
        let fewer = TopicConfig { partitions: 2, ..altered.clone() };
        let elsewhere = TopicConfig { group: Group::new("other").unwrap(), ..altered.clone() };
        for refused in [fewer, elsewhere] {
            let refused = store.alter_topic(&mail, refused).await;
            assert!(matches!(refused, Err(JournalError::Invalid(_))), "{refused:?}");
        }
        let missing = store.alter_topic(&topic("none"), altered.clone()).await;
        assert_eq!(missing, Err(JournalError::NoTopic { topic: topic("none") }));
    }
    let store = rig.open();
    assert_eq!(store.topics().await.unwrap()[0].config, altered, "also after a restart");
    let batch = store.read(Read::after(partition("mail", 1), MessageId::ZERO)).await.unwrap();
    let mortal: Vec<bool> = batch.messages.iter().map(|message| message.expires.is_some()).collect();
    assert_eq!(mortal, [false, true], "what is there keeps its life");
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
    let partition_id = partition("mail", 1);
    {
        let store = rig.open();
        store.create_topic(&topic("mail"), TopicConfig::default()).await.unwrap();
        let due = Some(Ticks(rig.clock.now().0 + 50_000_000));
        let message = NewMessage { due, ..body(7) };
        store.commit(Commit::append(partition_id.clone(), message)).await.unwrap();
        assert_eq!(store.stats(&topic("mail")).await.unwrap()[0].delayed, 1);
    }
    let store = rig.open();
    let read = Read::after(partition_id, MessageId::ZERO);
    assert!(store.read(read.clone()).await.unwrap().messages.is_empty());
    rig.clock.ahead(Duration::from_secs(5));
    let batch = store.read(read.wait(Duration::from_secs(60))).await.unwrap();
    assert_eq!(batch.messages[0].id.0, rig.clock.now());
}

/// A consumer that may move positions and write state.
async fn opened(store: &Store, partition_id: &PartitionId) -> (Consumer, Fence) {
    let (worker, fence) = (Consumer::new("worker").unwrap(), Fence::new(1, 1));
    store.open(partition_id, &worker, fence).await.unwrap();
    (worker, fence)
}

#[tokio::test(flavor = "multi_thread")]
async fn no_position_moves_beyond_what_can_be_there() {
    let rig = Rig::small();
    let store = rig.open();
    let partition_id = partition("mail", 1);
    store.create_topic(&topic("mail"), TopicConfig::default()).await.unwrap();
    let (consumer, fence) = opened(&store, &partition_id).await;
    let last =
        store.commit(Commit::append(partition_id.clone(), body(1))).await.unwrap().appends[0].id().unwrap();
    let move_to = async |position| {
        let (partition, consumer) = (partition_id.clone(), consumer.clone());
        let moves = vec![Move { partition, consumer, fence, from: None, position }];
        store.commit(Commit { moves, ..Commit::default() }).await
    };
    for far in [MessageId(rig.clock.now()).next(), MessageId(Ticks(u64::MAX))] {
        assert_eq!(move_to(far).await, Err(JournalError::Ahead { id: far }));
    }
    rig.clock.back(Duration::from_secs(60));
    move_to(last).await.unwrap();
    rig.clock.ahead(Duration::from_secs(120));
    move_to(MessageId(rig.clock.now())).await.unwrap();
    assert_eq!(store.stats(&topic("mail")).await.unwrap()[0].consumers[0].lag, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn ids_cannot_be_led_away_from_the_clock() {
    let rig = Rig::small();
    let store = rig.open();
    let partition_id = partition("mail", 1);
    store.create_topic(&topic("mail"), TopicConfig::default()).await.unwrap();
    let put = async |id: MessageId| {
        let edits = vec![Edit::Replace { partition: partition_id.clone(), id, message: body(1) }];
        store.commit(Commit { edits, ..Commit::default() }).await.map(drop)
    };
    let most = MessageId(rig.clock.now().plus(Duration::from_secs(1)));
    put(most).await.unwrap();
    assert_eq!(put(most.next()).await, Err(JournalError::Ahead { id: most.next() }));
    // Existing messages may be replaced, wherever they are.
    rig.clock.back(Duration::from_secs(3600));
    put(most).await.unwrap();
    assert_eq!(put(most.next()).await, Err(JournalError::Ahead { id: most.next() }));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_has_so_many_parts_and_no_more() {
    let rig = Rig::small();
    let store = rig.open();
    let partition_id = partition("mail", 1);
    store.create_topic(&topic("mail"), TopicConfig::default()).await.unwrap();
    let (consumer, fence) = opened(&store, &partition_id).await;
    let (partition, position) = (partition_id.clone(), MessageId(Ticks(1)));
    let moved =
        Move { partition: partition.clone(), consumer: consumer.clone(), fence, from: None, position };
    let (key, value) = ("key".into(), Some("value".into()));
    let state = StateWrite { partition: partition.clone(), consumer, fence, key, value };
    let half = COMMIT_PARTS_MAX / 2;
    let many = Commit { moves: vec![moved; half], states: vec![state; half], ..Commit::default() };
    let mut more = many.clone();
    more.appends.push(Append { partition: partition.clone(), message: body(1) });
    let remove = |n: usize| Edit::Remove { partition: partition.clone(), id: MessageId(Ticks(n as u64 + 1)) };
    let edits = |count: usize| Commit { edits: (0..count).map(remove).collect(), ..Commit::default() };
    for refused in [more, edits(COMMIT_EDITS_MAX + 1)] {
        let refused = store.commit(refused).await;
        assert!(matches!(refused, Err(JournalError::TooLarge { .. })), "{refused:?}");
    }
    // Decisions are made one at a time, so none of them takes long.
    for allowed in [many, edits(COMMIT_EDITS_MAX)] {
        let decided = tokio::time::timeout(Duration::from_secs(60), store.commit(allowed)).await;
        decided.expect("it is decided in a moment").unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_has_only_so_much_state_and_a_partition_only_so_many_consumers() {
    let rig = Rig::small();
    let (partition_id, worker, fence) =
        (partition("mail", 1), Consumer::new("worker").unwrap(), Fence::new(1, 1));
    let write = |key: u32, bytes: Option<usize>| StateWrite {
        partition: partition_id.clone(),
        consumer: worker.clone(),
        fence,
        key: key.to_be_bytes().to_vec().into(),
        value: bytes.map(|bytes| vec![0; bytes].into()),
    };
    let full = (CONSUMER_BYTES_MAX / (1 << 16)) as u32;
    let most = (1 << 16) - 4;
    {
        let store = rig.open();
        store.create_topic(&topic("mail"), TopicConfig::default()).await.unwrap();
        store.open(&partition_id, &worker, fence).await.unwrap();
        let commit = |states: Vec<StateWrite>| store.commit(Commit { states, ..Commit::default() });
        let too_much =
            |refused: &Result<_, JournalError>| matches!(refused, Err(JournalError::TooLarge { .. }));
        for key in 2..full {
            commit(vec![write(key, Some(most))]).await.unwrap();
        }
        // At once: decisions in flight count.
        let (one, two, three) = tokio::join!(
            commit(vec![write(0, Some(most))]),
            commit(vec![write(1, Some(most))]),
            commit(vec![write(full, Some(most))]),
        );
        assert!(one.is_ok() && two.is_ok() && too_much(&three), "{one:?} {two:?} {three:?}");
        assert!(too_much(&commit(vec![write(full, Some(0))]).await), "its key counts, too");
        commit(vec![write(0, Some(most))]).await.expect("the same again is no more");
        commit(vec![write(0, None), write(full, Some(most))]).await.expect("one goes, another comes");
        store.close().unwrap();
    }
    let store = rig.open();
    let commit = |states: Vec<StateWrite>| store.commit(Commit { states, ..Commit::default() });
    let refused = commit(vec![write(0, Some(0))]).await;
    assert!(matches!(refused, Err(JournalError::TooLarge { .. })), "also after a restart: {refused:?}");
    commit(vec![write(1, None)]).await.unwrap();
    commit(vec![write(0, Some(most))]).await.unwrap();
    let named = |number: usize| Consumer::new(format!("worker-{number}")).unwrap();
    for number in 1..CONSUMERS_MAX {
        store.open(&partition_id, &named(number), fence).await.unwrap();
    }
    let refused = store.open(&partition_id, &named(CONSUMERS_MAX), fence).await;
    assert!(matches!(refused, Err(JournalError::TooLarge { .. })), "{refused:?}");
    store.open(&partition_id, &worker, fence).await.expect("who is there may come again");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_for_a_deleted_topic_goes_with_it_also_after_a_restart() {
    let rig = Rig::small();
    let later =
        |bytes| NewMessage { due: Some(rig.clock.now().plus(Duration::from_secs(3600))), ..body(bytes) };
    let delayed = |store: &Store| {
        let usage = store.usage();
        tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(usage)).unwrap().delayed
    };
    {
        let store = rig.open();
        for name in ["mail", "other"] {
            store.create_topic(&topic(name), TopicConfig::default()).await.unwrap();
        }
        let append = |name| Append { partition: partition(name, 1), message: later(20) };
        let appends = (0..2500).map(|n| append(if n == 1200 { "other" } else { "mail" })).collect();
        store.commit(Commit { appends, ..Commit::default() }).await.unwrap();
        store.checkpoint().unwrap();
        assert!(store.delete_topic(&topic("mail")).await.unwrap());
    }
    {
        let store = rig.open();
        eventually("the delayed ones to go", || (delayed(&store) == 1).then_some(()));
        store.create_topic(&topic("mail"), TopicConfig::default()).await.unwrap();
        store.commit(Commit::append(partition("mail", 1), later(20))).await.unwrap();
        assert_eq!(delayed(&store), 2);
        for name in ["mail", "other"] {
            assert!(store.delete_topic(&topic(name)).await.unwrap());
        }
        eventually("all to go", || (delayed(&store) == 0).then_some(()));
    }
    let store = rig.open();
    assert_eq!(delayed(&store), 0);
    store.checkpoint().unwrap();
    let segments = std::fs::read_dir(rig.config.data.join("segments")).unwrap().count();
    assert_eq!(segments, 0, "nothing is left of them");
}
