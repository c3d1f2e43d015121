//! Blobs, queues and caches while the leader dies: acknowledged data is there, in order and complete.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use menagerie_kernel::recipes::blob::{Blob, Expect};
use menagerie_kernel::recipes::sequence_queue::{Content, EntryId, LIMIT, SequenceQueue};
use menagerie_kernel::recipes::tree_cache::TreeCache;
use menagerie_testkit::{Ensemble, eventually_async};
use menagerie_znodes::{Dir, Kind, Znode};

use crate::world::World;

/// Writes numbers until it is stopped; returns the last that was acknowledged.
async fn write(blob: Blob, stop: Arc<AtomicBool>) -> u64 {
    let mut acked = 0;
    for number in 1_u64.. {
        if blob.write(&number.to_be_bytes().repeat(100_000), Expect::Anything).await.is_ok() {
            acked = number;
        }
        if stop.load(Ordering::Relaxed) {
            break;
        }
    }
    acked
}

/// The same for a queue; returns all that were acknowledged.
async fn put(queue: SequenceQueue, stop: Arc<AtomicBool>) -> Vec<(EntryId, u64)> {
    let mut acked = Vec::new();
    for number in 1_u64.. {
        if let Ok(id) = queue.put(&number.to_be_bytes()).await {
            acked.push((id, number));
        }
        if stop.load(Ordering::Relaxed) {
            break;
        }
    }
    acked
}

fn number(data: &[u8]) -> u64 {
    u64::from_be_bytes(*data.first_chunk().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost_when_the_leader_dies() {
    let mut servers = Ensemble::from_env().start_own();
    let session = World::on(&servers, "failover").session().await;
    let blob = Blob::new(&session, Znode::foreign("/blob", Kind::Persistent));
    let queue = SequenceQueue::new(&session, Znode::foreign("/events", Kind::Persistent), LIMIT);
    let cache = TreeCache::start(&session, &Znode::<Dir>::foreign("/events/queue", Kind::Persistent));
    let stop = Arc::new(AtomicBool::new(false));
    let writer = tokio::spawn(write(blob.clone(), stop.clone()));
    let putter = tokio::spawn(put(queue.clone(), stop.clone()));
    let before = eventually_async("puts are acknowledged", async || cache_len(&cache, 5)).await;
    let servers = tokio::task::spawn_blocking(move || {
        servers.kill_leader();
        servers
    })
    .await
    .unwrap();
    eventually_async("it goes on", async || cache_len(&cache, before + 5)).await;
    stop.store(true, Ordering::Relaxed);
    let (written, put) = (writer.await.unwrap(), putter.await.unwrap());
    session.term().sync("/").await.unwrap();
    let (value, _) = blob.read().await.unwrap().unwrap();
    assert!(number(&value) >= written, "{} is older than {written}", number(&value));
    let entries = queue.entries(None, usize::MAX).await.unwrap();
    let entries: Vec<(EntryId, u64)> = entries
        .into_iter()
        .map(|entry| match entry.content {
            Content::Whole(data) => (entry.id, number(&data)),
            Content::Damaged(why) => panic!("{why}"),
        })
        .collect();
    assert!(entries.is_sorted_by_key(|(_, number)| *number), "{entries:?}");
    let found: HashSet<&(EntryId, u64)> = entries.iter().collect();
    assert!(put.iter().all(|entry| found.contains(entry)));
    eventually_async("the cache has all", async || cache_len(&cache, entries.len() + 1)).await;
    drop(servers);
}

fn cache_len(cache: &TreeCache, least: usize) -> Option<usize> {
    (cache.len() >= least).then(|| cache.len())
}
