//! A pool as people and programs look at it: one type for tables, JSON and checks.

use menagerie_kernel::{Session, Term, Versioned};
use menagerie_znodes::slots::{self, Event, Frozen, Holder, Waiter, What};
use menagerie_znodes::{Kind, MaybeDamaged, Name, Znode};
use serde::Serialize;

use crate::admin;
use crate::error::SlotsError;
use crate::history;
use crate::snapshot::Snapshot;

/// A pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PoolView {
    /// Its name.
    pub pool: String,
    /// How many may be in.
    pub max: u32,
    /// How many are in.
    pub used: usize,
    /// The emergency stop, if it was pulled.
    pub frozen: Option<Frozen>,
    /// Who is in, by slot.
    pub holders: Vec<HolderView>,
    /// Who waits, first to be admitted first.
    pub waiters: Vec<WaiterView>,
    /// Parts of the pool that are missing, below the namespace: what they held is not shown.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
}

/// Who has a slot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HolderView {
    /// The slot.
    pub slot: u32,
    /// When it was taken, by the server's clock, in ms.
    pub since_ms: i64,
    /// For how long, in seconds.
    pub age_s: u64,
    /// The process that holds it shows signs of life; `None` when no process does: a script, or a FleetLock client.
    pub alive: Option<bool>,
    /// Who.
    #[serde(flatten)]
    pub holder: Holder,
}

/// Who waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WaiterView {
    /// The place, from 1.
    pub position: usize,
    /// Who is more important waits less.
    pub priority: u16,
    /// For how long, in seconds.
    pub age_s: u64,
    /// Who.
    #[serde(flatten)]
    pub waiter: Waiter,
}

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EventView {
    /// When, by the server's clock, in ms.
    pub at_ms: i64,
    /// The transaction that did it: the order of everything.
    pub zxid: i64,
    /// What.
    #[serde(flatten)]
    pub event: Event,
}

/// How full a pool is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Usage {
    /// How many may be in.
    pub max: u32,
    /// How many are in.
    pub used: usize,
    /// How many wait.
    pub waiting: usize,
    /// For how long the oldest of its slots is held, in seconds.
    pub oldest_s: u64,
    /// Whether the emergency stop was pulled.
    pub frozen: bool,
}

/// Looks how full a pool is, without a look at each of those who wait.
pub async fn usage(session: &Session, name: &Name, now_ms: u64) -> Result<Usage, SlotsError> {
    let snapshot = Snapshot::read(&session.term(), name).await?;
    let oldest = snapshot.stats.values().map(|stat| age_s(stat.ctime_ms, now_ms)).max();
    Ok(Usage {
        max: snapshot.pool.max,
        used: snapshot.slots.len(),
        waiting: snapshot.queue.len(),
        oldest_s: oldest.unwrap_or(0),
        frozen: snapshot.pool.frozen.is_some(),
    })
}

/// Looks at a pool. Ages are the difference between the server's clock, then, and ours, now.
pub async fn show(session: &Session, name: &Name, now_ms: u64) -> Result<PoolView, SlotsError> {
    let term = session.term();
    let snapshot = Snapshot::read(&term, name).await?;
    let holders = snapshot
        .slots
        .iter()
        .filter_map(|(slot, holder)| {
            let since_ms = snapshot.stats.get(slot)?.ctime_ms;
            let alive = holder.process.map(|_| snapshot.is_alive(holder));
            Some(HolderView {
                slot: *slot,
                since_ms,
                age_s: age_s(since_ms, now_ms),
                alive,
                // Its own clock's word would stand beside the server's under the same name.
                holder: Holder { since_ms: None, ..holder.clone() },
            })
        })
        .collect();
    Ok(PoolView {
        pool: name.to_string(),
        max: snapshot.pool.max,
        used: snapshot.slots.len(),
        frozen: snapshot.pool.frozen.clone(),
        holders,
        waiters: waiters(&term, name, &snapshot, now_ms).await?,
        missing: snapshot.missing,
    })
}

/// All pools, by name, with how each of them is or why that is not known.
pub async fn all(
    session: &Session,
    now_ms: u64,
) -> Result<Vec<(Name, Result<PoolView, SlotsError>)>, SlotsError> {
    let mut pools = Vec::new();
    for name in admin::list(session).await? {
        match show(session, &name, now_ms).await {
            // Deleted a moment ago.
            Err(SlotsError::NoPool { .. }) => {}
            view => pools.push((name, view)),
        }
    }
    Ok(pools)
}

async fn waiters(
    term: &Term,
    name: &Name,
    snapshot: &Snapshot,
    now_ms: u64,
) -> Result<Vec<WaiterView>, SlotsError> {
    let places = snapshot.queue.iter().map(|place| slots::waiter(name, place.name()).maybe_damaged());
    let found = term.read_many(&Vec::from_iter(places)).await?;
    let waiting = snapshot.queue.iter().zip(found).filter_map(|(place, found)| {
        let found = found?;
        Some((place.priority(), found.stat.ctime_ms, found.value.sound()?))
    });
    Ok(waiting
        .enumerate()
        .map(|(before, (priority, since_ms, waiter))| WaiterView {
            position: before + 1,
            priority,
            age_s: age_s(since_ms, now_ms),
            waiter,
        })
        .collect())
}

/// What is remembered of a pool, oldest first.
pub async fn history(session: &Session, name: &Name) -> Result<Vec<EventView>, SlotsError> {
    let term = session.term();
    let paths = match history::paths(&term, name).await {
        Err(menagerie_kernel::CallError::NoZnode { path }) => {
            let pool = name.to_string();
            return Err(match term.stat(slots::pool(name).path()).await? {
                Some(_) => SlotsError::Missing { pool, path },
                None => SlotsError::NoPool { pool },
            });
        }
        found => found?,
    };
    // There are a few more until somebody tidies up.
    let newest = paths.into_iter().rev().take(history::KEPT).rev();
    let events = newest.map(|path| Znode::<MaybeDamaged<Event>>::foreign(path, Kind::PersistentSequence));
    let found = term.read_many(&Vec::from_iter(events)).await?;
    let shown = found.into_iter().flatten().filter_map(|Versioned { value, stat }| {
        Some(EventView { at_ms: stat.ctime_ms, zxid: stat.czxid, event: value.sound()? })
    });
    Ok(shown.collect())
}

/// What a kind of event is called.
pub fn what(what: What) -> &'static str {
    match what {
        What::Created => "created",
        What::Acquired => "acquired",
        What::Resumed => "resumed",
        What::Released => "released",
        What::Forced => "forced",
        What::SetMax => "set-max",
        What::Frozen => "frozen",
        What::Thawed => "thawed",
    }
}

fn age_s(since_ms: i64, now_ms: u64) -> u64 {
    let since_ms = u64::try_from(since_ms).unwrap_or(0);
    now_ms.saturating_sub(since_ms) / 1000
}
