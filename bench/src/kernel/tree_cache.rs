//! The tree cache: how long a load takes, and how long after its acknowledgement an update is visible. It has no peer
//! that keeps a tree in memory, so it is measured against the targets alone.

use std::fmt;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use menagerie_kernel::recipes::tree_cache::TreeCache;
use menagerie_kernel::session::IfLate;
use menagerie_kernel::{Config, Session, retry};
use menagerie_znodes::{Dir, Kind, Znode};

use crate::stats::{Spread, percentile};

/// Znodes per folder: enough that lists are long, few enough that they fit a frame.
const PER_FOLDER: usize = 1_000;
/// Creates in flight.
const IN_FLIGHT: usize = 256;
/// Loads, each from nothing.
const LOADS: usize = 5;
/// Updates, one after the other.
const UPDATES: usize = 2_000;

pub struct Cache {
    znodes: usize,
    load_s: Spread,
    seen_p50_us: u32,
    seen_p99_us: u32,
}

pub async fn measure(address: SocketAddr, znodes: usize) -> Result<Cache> {
    let config = Config::new(address.to_string(), "/bench-cache");
    let (writer, reader) = (Session::connect(config.clone()).await?, Session::connect(config).await?);
    fill(&writer, znodes).await?;
    let root: Znode<Dir> = Znode::foreign("/tree", Kind::Persistent);
    let mut loads = Vec::new();
    let mut cache = None;
    for _ in 0..LOADS {
        // Drop the last one before the next begins.
        drop(cache.take());
        let started = Instant::now();
        let loaded = TreeCache::start(&reader, &root);
        loaded.ready().await?;
        loads.push(started.elapsed().as_secs_f64());
        ensure!(loaded.len() >= znodes, "only {} of {znodes} znodes are there", loaded.len());
        cache = Some(loaded);
    }
    let cache = cache.expect("there was a load");
    let mut seen = Vec::with_capacity(UPDATES);
    for number in 0..UPDATES {
        seen.push(u32::try_from(update(&writer, &cache, number % znodes).await?.as_micros())?);
    }
    seen.sort_unstable();
    Ok(Cache {
        znodes,
        load_s: Spread::of(loads).expect("there was a load"),
        seen_p50_us: percentile(&seen, 0.5),
        seen_p99_us: percentile(&seen, 0.99),
    })
}

fn path(number: usize) -> String {
    format!("/tree/{}/{}", number / PER_FOLDER, number % PER_FOLDER)
}

async fn fill(session: &Session, znodes: usize) -> Result<()> {
    let term = session.term();
    for folder in 0..znodes.div_ceil(PER_FOLDER) {
        retry::ensure(&term, &format!("/tree/{folder}"), b"").await?;
    }
    let create = |number| {
        let term = term.clone();
        async move { term.create(&path(number), &[42; 128], Kind::Persistent, IfLate::Report).await.map(drop) }
    };
    stream::iter((0..znodes).map(create)).buffer_unordered(IN_FLIGHT).try_collect::<Vec<()>>().await?;
    Ok(())
}

/// Time from the acknowledgement of an update until the cache shows it; zero if it does already.
async fn update(writer: &Session, cache: &TreeCache, number: usize) -> Result<Duration> {
    let path = path(number);
    let mut revision = cache.subscribe();
    let written = writer.term().set(&path, &[43; 128], None).await?;
    let acknowledged = Instant::now();
    loop {
        revision.borrow_and_update();
        if cache.get(&path).is_some_and(|(_, stat)| stat.mzxid >= written.mzxid) {
            return Ok(acknowledged.elapsed());
        }
        revision.changed().await?;
    }
}

impl fmt::Display for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "tree cache: {} znodes loaded in {:.2} s ({:.2}–{:.2})",
            self.znodes, self.load_s.median, self.load_s.min, self.load_s.max
        )?;
        write!(
            f,
            "an update is seen after its acknowledgement within {} µs (p50), {} µs (p99)",
            self.seen_p50_us, self.seen_p99_us
        )
    }
}
