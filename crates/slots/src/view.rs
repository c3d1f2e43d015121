//! A pool for people and programs: one type for tables, JSON and checks.

use menagerie_kernel::{Session, Term, Versioned};
use menagerie_znodes::slots::{self, Event, Frozen, Holder, Waiter, What};
use menagerie_znodes::{Kind, MaybeDamaged, Name, Znode};
use schemars::JsonSchema;
use serde::Serialize;

use crate::admin;
use crate::error::SlotsError;
use crate::history;
use crate::snapshot::Snapshot;

/// A pool with its holders and waiters.
#[expect(missing_docs, reason = "fields name themselves")]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PoolView {
    pub pool: String,
    pub max: u32,
    pub used: usize,
    /// Set while the pool is frozen.
    pub frozen: Option<Frozen>,
    /// By slot.
    pub holders: Vec<HolderView>,
    /// Next to be admitted first.
    pub waiters: Vec<WaiterView>,
    /// Missing parts of the pool, below the namespace; their content is not shown.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub missing: Vec<String>,
}

/// The holder of a slot.
#[expect(missing_docs, reason = "fields name themselves")]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HolderView {
    pub slot: u32,
    /// Acquired at, by the server's clock.
    pub since_ms: i64,
    pub age_s: u64,
    /// Whether the holder's process shows signs of life; `None` if it has none: a script, or a FleetLock client.
    pub alive: Option<bool>,
    #[serde(flatten)]
    pub holder: Holder,
}

/// A waiter in the queue.
#[expect(missing_docs, reason = "fields name themselves")]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct WaiterView {
    /// From 1.
    pub position: usize,
    /// Higher priorities are admitted first.
    pub priority: u16,
    /// Waiting since, by the server's clock.
    pub since_ms: i64,
    pub age_s: u64,
    #[serde(flatten)]
    pub waiter: Waiter,
}

/// An event in the history.
#[expect(missing_docs, reason = "fields name themselves")]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct EventView {
    /// By the server's clock.
    pub at_ms: i64,
    /// The transaction that recorded it; gives the order of all events.
    pub zxid: i64,
    #[serde(flatten)]
    pub event: Event,
}

/// How full a pool is.
#[expect(missing_docs, reason = "fields name themselves")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Usage {
    pub max: u32,
    pub used: usize,
    pub waiting: usize,
    /// Age of the slot held longest.
    pub oldest_s: u64,
    pub frozen: bool,
}

/// Reads how full a pool is, without reading each waiter.
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

/// Reads a pool. Ages are our clock's time now minus the server's time then.
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
                // The holder's own clock would appear beside the server's under the same name.
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

/// All pools by name, each with its view or the reason why it cannot be read.
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
            since_ms,
            age_s: age_s(since_ms, now_ms),
            waiter,
        })
        .collect())
}

/// The history of a pool, oldest first.
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
    // There are a few more until the next trim.
    let newest = paths.into_iter().rev().take(history::EVENTS_MAX).rev();
    let events = newest.map(|path| Znode::<MaybeDamaged<Event>>::foreign(path, Kind::PersistentSequence));
    let found = term.read_many(&Vec::from_iter(events)).await?;
    let shown = found.into_iter().flatten().filter_map(|Versioned { value, stat }| {
        Some(EventView { at_ms: stat.ctime_ms, zxid: stat.czxid, event: value.sound()? })
    });
    Ok(shown.collect())
}

/// The name of a kind of event.
pub fn event_name(what: What) -> &'static str {
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

#[cfg(test)]
mod tests {
    use menagerie_testkit::assert_described;
    use menagerie_znodes::slots::Process;

    use super::*;

    fn full() -> Holder {
        let text = || Some("text".to_owned());
        Holder {
            holder: "web-1".to_owned(),
            host: text(),
            machine_id: text(),
            boot_id: text(),
            pid_namespace: Some(1),
            process: Some(Process { pid: 2, started: 3 }),
            guard: Some(Process { pid: 4, started: 5 }),
            who: text(),
            reason: text(),
            command: vec!["reboot".to_owned()],
            since_ms: Some(6),
            ticket: text(),
            ephemeral: true,
        }
    }

    #[test]
    fn views_are_as_their_schemas_say() {
        let plain = Holder { holder: "web-2".to_owned(), ..Holder::default() };
        let holder = |holder, alive| HolderView { slot: 1, since_ms: -1, age_s: 7, alive, holder };
        let waiter = Waiter {
            holder: "web-3".to_owned(),
            host: "web-3".to_owned(),
            pid: 7,
            who: Some("ann".to_owned()),
            reason: None,
            polling: false,
        };
        let pool = PoolView {
            pool: "reboot".to_owned(),
            max: 2,
            used: 2,
            frozen: Some(Frozen { by: "ann".to_owned(), reason: None, tell: true }),
            holders: vec![holder(full(), Some(true)), holder(plain, None)],
            waiters: vec![WaiterView { position: 1, priority: 500, since_ms: 7, age_s: 3, waiter }],
            missing: vec!["/slots/reboot/queue".to_owned()],
        };
        assert_described(&pool);
        assert_described(&PoolView { frozen: None, missing: Vec::new(), ..pool });
        let event =
            Event { what: What::SetMax, slot: None, holder: None, by: "ann".to_owned(), detail: None };
        let full = Event { slot: Some(1), holder: Some("web-1".to_owned()), ..event.clone() };
        for event in [event, full] {
            assert_described(&EventView { at_ms: 1, zxid: 2, event });
        }
    }
}
