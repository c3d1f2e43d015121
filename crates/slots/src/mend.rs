//! Pools that somebody has damaged: what is missing is made again, and what cannot be mended is told.

use std::time::Duration;

use menagerie_kernel::session::{Read, ReadResult};
use menagerie_kernel::{CallError, Term, retry};
use menagerie_znodes::slots;
use menagerie_znodes::{Name, Znode};
use tracing::warn;

use crate::core::Attempts;
use crate::error::SlotsError;

/// A change of a pool that is tried again when it was refused, but not for ever.
pub(crate) struct Retries<'a> {
    term: &'a Term,
    name: &'a Name,
    attempts: Attempts,
}

impl<'a> Retries<'a> {
    pub fn new(term: &'a Term, name: &'a Name) -> Self {
        Self { term, name, attempts: Attempts::default() }
    }

    /// An attempt was refused for this reason. Returns when it may be made again, by what is there then; what was missing is
    /// made before.
    pub async fn refused(&mut self, why: CallError) -> Result<(), SlotsError> {
        refused(self.term, self.name, &mut self.attempts, why).await
    }

    /// Something has succeeded: what is refused from now on is refused for the first time.
    pub fn reset(&mut self) {
        self.attempts = Attempts::default();
    }
}

/// The same for whoever goes on through several sessions.
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

/// The folders that every change of a pool needs. Not that of watchdogs which are out of service: whether one was, nobody knows
/// once it is gone, and an empty one would say that none was.
fn folders(name: &Name) -> impl Iterator<Item = Znode<()>> {
    let disarmed = slots::disarmed_dir(name);
    slots::folders(name).into_iter().filter(move |folder| folder.path() != disarmed.path())
}

/// Makes the folders of a pool again that are missing.
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
