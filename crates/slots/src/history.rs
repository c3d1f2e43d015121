//! The history of a pool: its newest events.

use menagerie_kernel::{CallError, Term, Transaction, TransactionError, retry};
use menagerie_znodes::slots;
use menagerie_znodes::{Kind, Name, Znode};

/// Events kept and shown.
pub const EVENTS_MAX: usize = 1_000;

/// One in this many writers trims, so the history exceeds its limit by fewer than this.
const EVERY: u64 = 100;

/// Events deleted by one transaction: one write to the disk instead of many.
const AT_ONCE: usize = 200;

/// Trims in the background, if the sequence number of an event just written says that it is due.
pub(crate) fn trim_if_due(term: &Term, name: &Name, outcome: &Result<Vec<String>, TransactionError>) {
    let Ok(created) = outcome else { return };
    let prefix = slots::event(name);
    let number = created.iter().find_map(|path| path.strip_prefix(prefix.path())?.parse::<u64>().ok());
    if !number.is_some_and(|number| number >= EVENTS_MAX as u64 && number.is_multiple_of(EVERY)) {
        return;
    }
    let (term, name) = (term.clone(), name.clone());
    term.clone().in_background(async move {
        // A later writer tries again.
        let _ = trim(&term, &name).await;
    });
}

/// Deletes all but the newest events.
pub async fn trim(term: &Term, name: &Name) -> Result<(), CallError> {
    let paths = paths(term, name).await?;
    let (old, _) = paths.split_at(paths.len().saturating_sub(EVENTS_MAX));
    for old in old.chunks(AT_ONCE) {
        let together = old.iter().fold(Transaction::new(term), |transaction, path| {
            transaction.delete(&Znode::<()>::foreign(path, Kind::PersistentSequence), None)
        });
        if together.commit().await.is_err() {
            // Another client trims, too, or the reply was lost: delete one by one.
            for path in old {
                retry::delete(term, path).await?;
            }
        }
    }
    Ok(())
}

/// Paths of all events, oldest first.
pub(crate) async fn paths(term: &Term, name: &Name) -> Result<Vec<String>, CallError> {
    let dir = slots::history(name);
    let mut names = term.children(dir.path()).await?;
    names.sort();
    Ok(names.iter().map(|name| format!("{}/{name}", dir.path())).collect())
}
