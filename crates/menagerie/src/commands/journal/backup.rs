//! `menagerie journal backup FILE`: a consistent copy while the journal runs.

use std::io;
use std::path::PathBuf;

use clap::Args;
use menagerie_journal::server::admin;
use menagerie_types::exit_code;

use crate::commands::backup_file;
use crate::commands::data::DataArgs;
use crate::exit::CliError;

/// Write a consistent backup of the running journal to FILE.
#[derive(Debug, Args)]
pub struct Backup {
    /// File to write; an existing one is replaced only when the backup is complete.
    file: PathBuf,
    #[command(flatten)]
    data: DataArgs,
}

impl Backup {
    /// Asks the running journal for a backup, writes it, and renames it only when it has arrived in full. `restore`
    /// verifies the checksum at its end.
    pub fn run(self) -> Result<(), CliError> {
        let folder = self.data.journal()?;
        let broken = |source: io::Error| CliError::Diagnosed {
            what: format!("the journal on {} did not send a complete backup", folder.display()),
            because: Some(Box::new(source)),
            help: "try again; its log says more".to_owned(),
            code: exit_code::DATA,
        };
        let (source, announced) = admin::request_backup(&folder).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                CliError::not_running("journal", &folder, source)
            }
            _ => broken(source),
        })?;
        let (bytes, ()) = backup_file::write(source, &self.file, |_, bytes| {
            if bytes == announced {
                return Ok(());
            }
            let source = io::Error::other(format!("it broke off after {bytes} of {announced} bytes"));
            Err(broken(source))
        })?;
        println!("{}: {bytes} bytes", self.file.display());
        Ok(())
    }
}
