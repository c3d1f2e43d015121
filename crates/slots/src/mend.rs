//! Damaged pools: recreates what is missing, and reports what it cannot mend.

use std::time::Duration;

use menagerie_kernel::session::{Read, ReadResult};
use menagerie_kernel::{CallError, Term, retry};
use menagerie_znodes::slots;
use menagerie_znodes::{Name, Znode};
use tracing::warn;

use crate::core::Attempts;
use crate::error::SlotsError;

/// A change of a pool with a bounded number of attempts.
pub(crate) struct Retries<'a> {
    term: &'a Term,
    name: &'a Name,
    attempts: Attempts,
}

impl<'a> Retries<'a> {
    pub fn new(term: &'a Term, name: &'a Name) -> Self {
        Self { term, name, attempts: Attempts::default() }
    }

    /// Call after a refused attempt. Recreates what is missing, waits, and returns when the caller should read and
    /// try again; an error once there is no point.
    pub async fn refused(&mut self, why: CallError) -> Result<(), SlotsError> {
        refused(self.term, self.name, &mut self.attempts, why).await
    }

    /// An attempt has succeeded: start counting anew.
    pub fn reset(&mut self) {
        self.attempts = Attempts::default();
    }
}

/// The same for callers that retry across sessions.
pub(crate) async fn refused(
    term: &Term,
    name: &Name,
    attempts: &mut Attempts,
    why: CallError,
) -> Result<(), SlotsError> {
    if why.is_no_znode() {
        mend(term, name).await?;
    }
    match attempts.refused() {
        Some(Duration::ZERO) => {}
        Some(pause) => tokio::time::sleep(pause).await,
        None => return Err(SlotsError::Stuck { pool: name.to_string(), source: why }),
    }
    Ok(())
}

/// Folders that every change of a pool needs. Not that of watchdogs out of service: once it is gone nobody knows its
/// content, and an empty one would say that all are in service.
fn folders(name: &Name) -> impl Iterator<Item = Znode<()>> {
    let disarmed = slots::disarmed_dir(name);
    slots::folders(name).into_iter().filter(move |folder| folder.path() != disarmed.path())
}

/// Recreates missing folders of a pool.
pub(crate) async fn mend(term: &Term, name: &Name) -> Result<(), SlotsError> {
    let folders: Vec<Znode<()>> = folders(name).collect();
    let pool = Read::Data(slots::pool(name).path().to_owned());
    let reads = folders.iter().map(|folder| Read::Data(folder.path().to_owned()));
    let reads: Vec<Read> = std::iter::once(pool).chain(reads).collect();
    let mut found = term.read_together(&reads).await?.into_iter();
    let no_pool = || SlotsError::NoPool { pool: name.to_string() };
    if found.next().is_none_or(|pool| pool == ReadResult::Nothing) {
        return Err(no_pool());
    }
    for (folder, found) in folders.iter().zip(found) {
        if found == ReadResult::Nothing {
            warn!(path = folder.path(), pool = %name, "a part of the pool was missing, and is made again");
            match retry::create_named(term, folder.path(), b"").await {
                Err(CallError::NoZnode { .. }) => return Err(no_pool()),
                made => made?,
            }
        }
    }
    Ok(())
}
