//! `menagerie journal restore FILE`: a new data folder from a backup.

use std::path::PathBuf;

use clap::Args;
use menagerie_journal::store::backup;

use crate::commands::data::DataArgs;
use crate::exit::CliError;

/// Restore a backup into a folder that holds no journal data, while no journal runs there.
#[derive(Debug, Args)]
pub struct Restore {
    /// Backup file to read.
    file: PathBuf,
    #[command(flatten)]
    data: DataArgs,
}

impl Restore {
    /// Restores the folder and verifies it.
    pub fn run(self) -> Result<(), CliError> {
        let folder = self.data.journal()?;
        let segments = backup::restore(&self.file, &folder).map_err(CliError::data(
            format!("restore {}", self.file.display()),
            "name a whole file that `menagerie journal backup` wrote, and a --data folder without journal data",
        ))?;
        println!("{}: {segments} segments", folder.display());
        Ok(())
    }
}
