//! `menagerie keeper backup FILE`: a consistent copy while the keeper runs.

use std::io;
use std::path::PathBuf;

use clap::Args;
use menagerie_keeper::shell::admin;
use menagerie_keeper::store::snapshot;

use crate::commands::backup_file;
use crate::commands::data::DataArgs;
use crate::exit::CliError;

/// Write a consistent backup of the running keeper to FILE.
#[derive(Debug, Args)]
pub struct Backup {
    /// File to write; an existing one is replaced only when the backup is complete.
    file: PathBuf,
    #[command(flatten)]
    data: DataArgs,
}

impl Backup {
    /// Asks the running keeper for a backup, writes and verifies it, and only then gives the file its name.
    pub fn run(self) -> Result<(), CliError> {
        let folder = self.data.keeper()?;
        let source = admin::request_backup(&folder).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                CliError::not_running("keeper", &folder, source)
            }
            _ => {
                CliError::Io { doing: format!("ask the keeper on {} for a backup", folder.display()), source }
            }
        })?;
        let (bytes, zxid) = backup_file::write(source, &self.file, |partial, _| {
            let checked = snapshot::verify(partial).map_err(CliError::data(
                "verify the backup",
                "try again; when the keeper was busy or stopping, its log says so",
            ))?;
            Ok(checked.zxid)
        })?;
        println!("{}: {bytes} bytes, up to zxid {zxid:#x}", self.file.display());
        Ok(())
    }
}
