//! A journal that must not serve, as an error of the command.

use menagerie_journal_directory::register::Refusal;

use crate::exit::CliError;

impl From<Refusal> for CliError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused { what: refusal.to_string(), help: refusal.help() }
    }
}
