//! The journal of a queue, named by the queue's settings.

use menagerie_znodes::queues::Settings;

pub use menagerie_journal_directory::{Access, Home, Journals, TokenFiles};

/// The journal of a queue with these settings.
pub fn home(settings: &Settings) -> Home {
    Home { journal: settings.journal.clone(), folder: settings.folder.clone() }
}
