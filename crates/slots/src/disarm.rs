//! Watchdogs out of service: a host that has taken itself apart must not do it again until somebody has repaired it.

use menagerie_kernel::{CallError, Session, Term, retry};
use menagerie_znodes::slots::{self, Disarmed};
use menagerie_znodes::{Kind, MaybeDamaged, Name, Payload, Znode};
use serde::Serialize;
use tracing::warn;

use crate::error::SlotsError;

/// A watchdog out of service.
#[expect(missing_docs, reason = "fields name themselves")]
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DisarmedView {
    pub holder: String,
    /// By the server's clock.
    pub since_ms: i64,
    pub reason: String,
}

/// Takes a watchdog out of service, durably. Idempotent.
pub async fn disarm(session: &Session, pool: &Name, holder: &Name, reason: &str) -> Result<(), SlotsError> {
    let data = &Disarmed { reason: reason.to_owned() }.encode();
    let disarm = |term: Term| async move {
        match retry::create_named(&term, slots::disarmed(pool, holder).path(), data).await {
            Err(CallError::NoZnode { .. }) => {
                // Recreate a missing folder: whatever was forgotten with it, this host must not act again.
                make_folder(&term, pool).await?;
                retry::create_named(&term, slots::disarmed(pool, holder).path(), data).await
            }
            created => created,
        }
    };
    match session.across_terms(disarm).await {
        Err(CallError::NoZnode { .. }) => Err(SlotsError::NoPool { pool: pool.to_string() }),
        disarmed => Ok(disarmed?),
    }
}

async fn make_folder(term: &Term, pool: &Name) -> Result<(), CallError> {
    let folder = slots::disarmed_dir(pool);
    warn!(path = folder.path(), %pool, "the list of watchdogs that are out of service was missing, and is begun anew");
    retry::create_named(term, folder.path(), b"").await
}

/// Without the folder nobody knows which watchdogs are out of service, and one that goes on may take a host apart
/// twice.
async fn require_folder(term: &Term, pool: &Name) -> Result<(), SlotsError> {
    let folder = slots::disarmed_dir(pool);
    let pool_znode = slots::pool(pool);
    let (stat, above) = tokio::try_join!(term.stat(folder.path()), term.stat(pool_znode.path()))?;
    match (stat, above) {
        (Some(_), _) => Ok(()),
        (None, Some(_)) => {
            Err(SlotsError::Missing { pool: pool.to_string(), path: folder.path().to_owned() })
        }
        (None, None) => Err(SlotsError::NoPool { pool: pool.to_string() }),
    }
}

/// Puts a watchdog back in service; returns whether it was out. Recreates a missing folder: from then on, watchdogs
/// without a znode count as in service.
pub async fn rearm(session: &Session, pool: &Name, holder: &Name) -> Result<bool, SlotsError> {
    let term = session.term();
    match require_folder(&term, pool).await {
        Err(SlotsError::Missing { .. }) => make_folder(&term, pool).await?,
        there => there?,
    }
    Ok(retry::remove(&term, slots::disarmed(pool, holder).path()).await?)
}

pub(crate) async fn is_disarmed(session: &Session, pool: &Name, holder: &Name) -> Result<bool, SlotsError> {
    let read = |term: Term| async move {
        let term = term.patient();
        term.sync("/").await?;
        let found = term.stat(slots::disarmed(pool, holder).path()).await?;
        if found.is_none() {
            require_folder(&term, pool).await?;
        }
        Ok(found.is_some())
    };
    session.across_terms(read).await
}

/// Waits until the watchdog is in service.
pub async fn wait_until_armed(
    session: &Session,
    pool: &Name,
    holder: &Name,
    mut tell: impl FnMut(&str),
) -> Result<(), SlotsError> {
    let mut terms = session.term_by_term();
    loop {
        let armed = armed_in(&terms.term().patient(), pool, holder, &mut tell).await;
        if let Some(armed) = terms.finished(armed).await {
            return armed;
        }
    }
}

async fn armed_in(
    term: &Term,
    pool: &Name,
    holder: &Name,
    tell: &mut impl FnMut(&str),
) -> Result<(), SlotsError> {
    let znode = slots::disarmed(pool, holder).maybe_damaged();
    // Another session may have written a moment ago.
    term.sync("/").await?;
    while let Some((disarmed, changed)) = term.read_watched(&znode).await? {
        tell(&reason(disarmed.value));
        changed.changed().await;
    }
    require_folder(term, pool).await
}

/// Even an unreadable znode means out of service.
fn reason(disarmed: MaybeDamaged<Disarmed>) -> String {
    disarmed.sound().map(|disarmed| disarmed.reason).unwrap_or_default()
}

/// All watchdogs out of service.
pub async fn list(session: &Session, pool: &Name) -> Result<Vec<DisarmedView>, SlotsError> {
    let term = session.term();
    let dir = slots::disarmed_dir(pool);
    let mut names = match term.children(dir.path()).await {
        Err(CallError::NoZnode { .. }) => return Ok(Vec::new()),
        names => names?,
    };
    names.sort();
    let znodes: Vec<Znode<MaybeDamaged<Disarmed>>> =
        names.iter().map(|name| dir.child(name, Kind::Persistent)).collect();
    let found = term.read_many(&znodes).await?;
    Ok(names
        .iter()
        .zip(found)
        .filter_map(|(name, found)| {
            let found = found?;
            Some(DisarmedView {
                holder: menagerie_znodes::quote::unquote(name)?,
                since_ms: found.stat.ctime_ms,
                reason: reason(found.value),
            })
        })
        .collect())
}
