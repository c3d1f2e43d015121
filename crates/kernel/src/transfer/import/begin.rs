//! Reserving a namespace for an import, and opening it to everybody at the end.

use menagerie_znodes::kernel::{self, Importing};
use menagerie_znodes::{Kind, Znode};

use super::{ImportError, Target, UNKNOWN_MAX};
use crate::error::CallError;
use crate::retry;
use crate::session::{next_generation, now_ms};
use crate::subtree::{self, SeenZnode};
use crate::transaction::{Transaction, TransactionError};
use crate::transfer::{Progress, format, full, place};

/// Attempts after which we no longer blame a concurrent writer.
const ATTEMPTS_MAX: u32 = 5;

/// The namespace before the import.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Before {
    exists: bool,
    /// Its children, without the import's own note.
    children: Vec<String>,
    note: Option<Importing>,
    generation: Option<u64>,
}

/// How the import begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Beginning {
    Fresh,
    Resume { clear: bool },
    Replace,
    NotEmpty,
    Other,
}

fn decide(before: &Before, export: &str, replace: bool) -> Beginning {
    match &before.note {
        Some(note) if note.export == export => Beginning::Resume { clear: note.clearing },
        Some(_) if !replace => Beginning::Other,
        None if before.children.is_empty() => Beginning::Fresh,
        None if !replace => Beginning::NotEmpty,
        Some(_) | None => Beginning::Replace,
    }
}

impl Target<'_> {
    async fn before(&self) -> Result<Before, CallError> {
        let term = self.term;
        // After a lost reply we may be connected to a lagging server, which would not show our own changes.
        term.sync("/").await?;
        let children = match term.children(self.namespace).await {
            Err(CallError::NoZnode { .. }) => return Ok(Before::default()),
            children => children?,
        };
        let note = term.read(&place(self.namespace, &kernel::importing()).maybe_damaged()).await?;
        let note = note.map(|note| note.value.sound().unwrap_or_else(Importing::unreadable));
        let generation = term.read(&place(self.namespace, &kernel::generation()).maybe_damaged()).await?;
        let generation = generation.and_then(|generation| generation.value.sound());
        let ours = kernel::importing();
        let children = children.into_iter().filter(|name| name != ours.path().trim_start_matches('/'));
        Ok(Before { exists: true, children: children.collect(), note, generation })
    }

    /// Reserves the namespace for this import. Returns whether an earlier attempt had begun.
    pub async fn begin(
        &self,
        replace: bool,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<bool, ImportError> {
        let namespace = self.namespace.to_owned();
        let mut begun = false;
        let mut replaced = None;
        let mut attempts = 0;
        loop {
            attempts += 1;
            let before = self.before().await?;
            let written = match decide(&before, &self.header.export, replace) {
                Beginning::Resume { clear: false } => return Ok(!begun),
                Beginning::Resume { clear: true } => {
                    if let Some(before) = replaced.take() {
                        self.withdraw_if_in_use(&before).await?;
                    }
                    self.clear(progress).await?;
                    let place = place(&namespace, &kernel::importing());
                    Transaction::new(self.term).set(&place, &self.note(false), None).commit().await
                }
                Beginning::Other => return Err(ImportError::Other { namespace }),
                Beginning::NotEmpty => return Err(ImportError::NotEmpty { namespace }),
                Beginning::Fresh => {
                    begun = true;
                    if format::parent(&namespace) != "/" {
                        retry::ensure(self.term, format::parent(&namespace), b"").await?;
                    }
                    self.first_note(&before, false).commit().await
                }
                Beginning::Replace => {
                    begun = true;
                    let written = self.first_note(&before, true).commit().await;
                    // A refused note is not ours to remove.
                    let refused = matches!(written, Err(TransactionError::Part { .. }));
                    replaced = (!refused).then_some(before);
                    written
                }
            };
            match written {
                Ok(_) => {}
                Err(error) if error.is_unknown() && attempts < UNKNOWN_MAX => {}
                // Somebody was faster: read again. That does not happen many times in a row.
                Err(TransactionError::Part { .. }) if attempts < ATTEMPTS_MAX => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn note(&self, clearing: bool) -> Importing {
        Importing { export: self.header.export.clone(), since_ms: now_ms(), clearing }
    }

    /// The note, together with a generation, so that an owner either sees both or creates the namespace itself.
    fn first_note(&self, before: &Before, clearing: bool) -> Transaction {
        let [root, note, generation] = [
            full(self.namespace, "/"),
            place(self.namespace, &kernel::importing()).path().to_owned(),
            place(self.namespace, &kernel::generation()).path().to_owned(),
        ];
        let mut transaction = Transaction::new(self.term);
        if !before.exists {
            transaction = transaction.create(&foreign(root), &());
        }
        transaction = match before.note {
            None => transaction.create(&foreign(note), &self.note(clearing)),
            Some(_) => transaction.set(&foreign(note), &self.note(clearing), None),
        };
        match before.generation {
            Some(_) => transaction,
            None => {
                transaction.create(&foreign(generation), &next_generation(self.header.generation, now_ms()))
            }
        }
    }

    /// Owners that connect now find the note; one that connected before may be at work. Checking before the note is
    /// written would miss one that begins in between.
    async fn withdraw_if_in_use(&self, before: &Before) -> Result<(), ImportError> {
        let levels = subtree::levels(self.term, self.namespace, usize::MAX).await?;
        let used = self.refuse_ephemerals(&levels);
        if used.is_err() {
            self.take_back(before).await?;
        }
        used
    }

    fn refuse_ephemerals(&self, levels: &[Vec<SeenZnode>]) -> Result<(), ImportError> {
        match levels.iter().flatten().filter(|seen| seen.stat.ephemeral_owner != 0).count() {
            0 => Ok(()),
            ephemerals => Err(ImportError::InUse { namespace: self.namespace.to_owned(), ephemerals }),
        }
    }

    /// Undoes [`Self::first_note`] in a namespace that existed before.
    async fn take_back(&self, before: &Before) -> Result<(), ImportError> {
        let note = place(self.namespace, &kernel::importing());
        let mut transaction = match &before.note {
            None => Transaction::new(self.term).delete(&note, None),
            Some(other) => Transaction::new(self.term).set(&note, other, None),
        };
        if before.generation.is_none() {
            transaction = transaction.delete(&place(self.namespace, &kernel::generation()), None);
        }
        match transaction.commit().await {
            // If it has not happened, the note stays, and the import can be resumed.
            Err(error) if !error.is_unknown() => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Deletes the old content; the note and the generation stay. Deletes only znodes that were read before, and
    /// nothing if an ephemeral is among them: an owner that connected before the note may still acquire something.
    async fn clear(&self, progress: &mut dyn FnMut(Progress)) -> Result<(), ImportError> {
        let keep = [
            full(self.namespace, "/"),
            place(self.namespace, &kernel::importing()).path().to_owned(),
            place(self.namespace, &kernel::generation()).path().to_owned(),
        ];
        let mut attempts = 0;
        loop {
            attempts += 1;
            let mut levels = subtree::levels(self.term, self.namespace, usize::MAX).await?;
            self.refuse_ephemerals(&levels)?;
            levels.iter_mut().for_each(|level| level.retain(|seen| !keep.contains(&seen.path)));
            let total = Some(levels.iter().flatten().count() as u64);
            let told = |done| progress(Progress { step: "deleted", done, total });
            match subtree::remove(self.term, levels, told).await {
                // Something was created meanwhile: check again for ephemerals.
                Err(CallError::NotEmpty { .. }) if attempts < ATTEMPTS_MAX => {}
                removed => return Ok(removed?),
            }
        }
    }

    /// Opens the namespace to everybody, with a higher generation than any before.
    pub async fn finish(&self) -> Result<u64, ImportError> {
        let note = place(self.namespace, &kernel::importing());
        let generation = place(self.namespace, &kernel::generation());
        let mut attempts = 0;
        loop {
            attempts += 1;
            let before = self.before().await?;
            let old = before.generation.unwrap_or(0).max(self.header.generation);
            if before.note.is_none() {
                // Our last transaction has happened, and its reply was lost.
                return Ok(before.generation.unwrap_or(old));
            }
            let new = next_generation(old, now_ms());
            let transaction = Transaction::new(self.term).set(&generation, &new, None).delete(&note, None);
            match transaction.commit().await {
                Ok(_) => return Ok(new),
                Err(error) if error.is_unknown() && attempts < UNKNOWN_MAX => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

fn foreign<T>(path: String) -> Znode<T> {
    Znode::foreign(path, Kind::Persistent)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(export: &str, clearing: bool) -> Importing {
        Importing { export: export.to_owned(), since_ms: 0, clearing }
    }

    #[test]
    fn every_beginning_is_one_of_five() {
        let children = vec!["generation".to_owned()];
        let full = Before { exists: true, children, ..Before::default() };
        let with = |note| Before { note: Some(note), ..full.clone() };
        for (before, replace, expected) in [
            (Before::default(), false, Beginning::Fresh),
            (Before { exists: true, ..Before::default() }, true, Beginning::Fresh),
            (full.clone(), false, Beginning::NotEmpty),
            (full.clone(), true, Beginning::Replace),
            (with(note("mine", false)), false, Beginning::Resume { clear: false }),
            (with(note("mine", true)), true, Beginning::Resume { clear: true }),
            (with(note("theirs", false)), false, Beginning::Other),
            (with(note("theirs", false)), true, Beginning::Replace),
        ] {
            assert_eq!(decide(&before, "mine", replace), expected, "{before:?}");
        }
    }
}
