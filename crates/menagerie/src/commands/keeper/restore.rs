//! `menagerie keeper restore FILE`: a new data folder from a backup.

use std::path::PathBuf;
use std::time::SystemTime;

use clap::Args;
use menagerie_keeper::store;

use crate::commands::data::DataArgs;
use crate::exit::CliError;

/// Make a new data folder from a backup. Offline: the folder must hold no keeper data. Sessions of the backup are
/// ended, and zxids start a new epoch.
#[derive(Debug, Args)]
pub struct Restore {
    /// The backup.
    file: PathBuf,
    #[command(flatten)]
    data: DataArgs,
}

impl Restore {
    /// Reads the backup and writes the folder.
    pub fn run(self) -> Result<(), CliError> {
        let folder = self.data.keeper()?;
        let restored = store::restore(&self.file, &folder, SystemTime::now()).map_err(|source| CliError::Store {
            doing: format!("restore {}", self.file.display()),
            source: Box::new(source),
            help: "name a whole file that `menagerie keeper backup` wrote, and a --data folder without keeper data",
        })?;
        println!("{}: {} znodes, zxid {:#x}", folder.display(), restored.znodes, restored.zxid);
        Ok(())
    }
}
