//! Where a queue's messages are: its settings name the journal.

use menagerie_znodes::queues::Settings;

pub use menagerie_journal_directory::{Access, Home, Journals, TokenFiles};

/// Where the messages of a queue with these settings are.
pub fn home(settings: &Settings) -> Home {
    Home { journal: settings.journal.clone(), folder: settings.folder.clone() }
}
