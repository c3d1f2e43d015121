//! What is remembered of a pool: the newest things that happened.

use menagerie_kernel::{CallError, Term, Transaction, TransactionError, retry};
use menagerie_znodes::slots;
use menagerie_znodes::{Kind, Name, Znode};

/// How many entries are kept, and shown.
pub const KEPT: usize = 1_000;

/// One in so many writers tidies up: fewer than that are ever too many.
const EVERY: u64 = 100;

/// So many are deleted by one transaction: one write to the disk instead of many.
const AT_ONCE: usize = 200;

/// Deletes what is too old, in the background, if a transaction has just written an entry whose number says so.
pub(crate) fn trim_if_due(term: &Term, name: &Name, outcome: &Result<Vec<String>, TransactionError>) {
    let Ok(created) = outcome else { return };
    let prefix = slots::event(name);
    let number = created.iter().find_map(|path| path.strip_prefix(prefix.path())?.parse::<u64>().ok());
    if !number.is_some_and(|number| number >= KEPT as u64 && number.is_multiple_of(EVERY)) {
        return;
    }
    let (term, name) = (term.clone(), name.clone());
    term.clone().in_background(async move {
        // Whoever writes a hundred entries later tries again.
        let _ = trim(&term, &name).await;
    });
}

/// Deletes all but the newest entries.
pub async fn trim(term: &Term, name: &Name) -> Result<(), CallError> {
    let paths = paths(term, name).await?;
    let (old, _) = paths.split_at(paths.len().saturating_sub(KEPT));
    for old in old.chunks(AT_ONCE) {
        let together = old.iter().fold(Transaction::new(term), |transaction, path| {
            transaction.delete(&Znode::<()>::foreign(path, Kind::PersistentSequence), None)
        });
        if together.commit().await.is_err() {
            // Somebody else tidies up, too; or nobody knows.
            for path in old {
                retry::delete(term, path).await?;
            }
        }
    }
    Ok(())
}

/// Where the entries are, oldest first.
pub(crate) async fn paths(term: &Term, name: &Name) -> Result<Vec<String>, CallError> {
    let dir = slots::history(name);
    let mut names = term.children(dir.path()).await?;
    names.sort();
    Ok(names.iter().map(|name| format!("{}/{name}", dir.path())).collect())
}
