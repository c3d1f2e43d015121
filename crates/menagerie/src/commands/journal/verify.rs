//! `menagerie journal verify`: verifies every checksum of a stopped journal.

use clap::Args;
use menagerie_journal::store::verify;

use crate::commands::data::DataArgs;
use crate::exit::{CliError, cannot};

/// Read everything a journal has on disk and report every damaged place. The journal must not be running.
#[derive(Debug, Args)]
pub struct Verify {
    #[command(flatten)]
    data: DataArgs,
}

impl Verify {
    pub fn run(self) -> Result<(), CliError> {
        let folder = self.data.journal()?;
        let report = verify::verify(&folder).map_err(cannot(format!("verify {}", folder.display())))?;
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
            Some(source) => Err(cannot(format!("vouch for {} places", damaged.len() + 1))(source)),
        }
    }
}
