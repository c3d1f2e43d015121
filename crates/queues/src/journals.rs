//! The journal of a queue, named by the queue's settings.

use menagerie_znodes::queues::Settings;

pub use menagerie_journal_directory::{Access, JournalRef, Journals, TokenFiles};

/// The journal of a queue with these settings.
pub fn journal_ref(settings: &Settings) -> JournalRef {
    JournalRef { journal: settings.journal.clone(), folder: settings.folder.clone() }
}
