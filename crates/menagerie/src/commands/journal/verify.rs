//! `menagerie journal verify`: every checksum of a journal that does not run.

use clap::Args;
use menagerie_journal::store::verify;

use crate::commands::data::DataArgs;
use crate::exit::CliError;

/// Read everything that a journal has on disk, and name every damaged place. Offline: the journal must not run.
#[derive(Debug, Args)]
pub struct Verify {
    #[command(flatten)]
    data: DataArgs,
}

impl Verify {
    /// Reads all of it.
    pub fn run(self) -> Result<(), CliError> {
        let folder = self.data.journal()?;
        let report = verify::verify(&folder).map_err(|source| CliError::JournalStore {
            doing: format!("verify {}", folder.display()),
            help: source.help(),
            source: Box::new(source),
        })?;
        let verify::Report { segments, blocks, bytes, records, mut damaged } = report;
        println!(
            "{}: {segments} segments, {blocks} blocks, {records} log records, {bytes} bytes",
            folder.display()
        );
        for place in &damaged {
            println!("damaged: {place}");
        }
        match damaged.pop() {
            None => Ok(()),
            Some(source) => Err(CliError::JournalStore {
                doing: format!("vouch for {} places", damaged.len() + 1),
                help: source.help(),
                source: Box::new(source),
            }),
        }
    }
}
