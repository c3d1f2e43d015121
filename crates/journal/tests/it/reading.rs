//! Reads across expired, removed and replaced messages.

use std::time::Duration;

use menagerie_journal::{
    Commit, Edit, Journal, MessageId, NewMessage, PartitionId, Read, Store, Ticks, TopicConfig,
};

use crate::rig::{Rig, partition, topic};

/// More than a read plans at once.
const MANY: u64 = 1100;

/// Stores messages under ids from `from` on, in a few commits.
async fn put(store: &Store, partition_id: &PartitionId, from: Ticks, count: u64, message: &NewMessage) {
    let edit = |n| Edit::Replace {
        partition: partition_id.clone(),
        id: MessageId(Ticks(from.0 + n)),
        message: message.clone(),
    };
    for begin in (0..count).step_by(500) {
        let edits = (begin..count.min(begin + 500)).map(edit).collect();
        store.commit(Commit { edits, ..Commit::default() }).await.unwrap();
    }
}

async fn bodies(store: &Store, read: Read) -> Vec<String> {
    let batch = store.read(read).await.unwrap();
    batch.messages.iter().map(|message| String::from_utf8_lossy(&message.body).into_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_lives_is_found_behind_any_number_of_expired_replaced_messages() {
    let rig = Rig::small();
    let store = rig.open();
    let (partition_id, now) = (partition("mail", 1), rig.clock.now());
    store.create_topic(&topic("mail"), TopicConfig::default()).await.unwrap();
    store.commit(Commit::append(partition_id.clone(), NewMessage::new("appended"))).await.unwrap();
    let old = now.minus(Duration::from_secs(3600));
    let expired = NewMessage { ttl: Some(Duration::from_secs(1)), ..NewMessage::new("expired") };
    let live = |n: u64| NewMessage::new(format!("live {n}"));
    put(&store, &partition_id, old, 1, &live(1)).await;
    put(&store, &partition_id, Ticks(old.0 + 1), MANY, &expired).await;
    put(&store, &partition_id, Ticks(old.0 + 1 + MANY), 1, &live(2)).await;
    put(&store, &partition_id, Ticks(old.0 + 2 + MANY), MANY, &expired).await;
    put(&store, &partition_id, Ticks(old.0 + 2 + 2 * MANY), 1, &live(3)).await;
    let all = ["live 1", "live 2", "live 3", "appended"];
    for place in ["in memory", "on disk"] {
        let read = Read::after(partition_id.clone(), MessageId::ZERO);
        assert_eq!(bodies(&store, read.clone()).await, all, "{place}");
        let mut backwards = all;
        backwards.reverse();
        for limit in 1..=4 {
            assert_eq!(bodies(&store, read.clone().limit(limit)).await, all[..limit as usize], "{place}");
            let found = bodies(&store, read.clone().limit(limit).descending()).await;
            assert_eq!(found, backwards[..limit as usize], "{place}");
        }
        let (mut seen, mut after) = (Vec::new(), MessageId::ZERO);
        while let [message] =
            &store.read(Read::after(partition_id.clone(), after).limit(1)).await.unwrap().messages[..]
        {
            seen.push(String::from_utf8_lossy(&message.body).into_owned());
            after = message.id;
        }
        assert_eq!(seen, all, "{place}");
        let behind = store.at_time(&partition_id, Ticks(old.0 + 2 + MANY)).await.unwrap();
        assert_eq!(behind, Some(MessageId(Ticks(old.0 + 2 + 2 * MANY))), "{place}");
        store.checkpoint().unwrap();
    }
}
