//! `menagerie journal backup FILE`: a consistent copy while the journal runs.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

use clap::Args;
use menagerie_journal::server::admin;

use crate::commands::data::DataArgs;
use crate::exit::CliError;

/// Write a consistent backup of the running journal to FILE.
#[derive(Debug, Args)]
pub struct Backup {
    /// Where to; an existing file is replaced only when the backup is complete.
    file: PathBuf,
    #[command(flatten)]
    data: DataArgs,
}

impl Backup {
    /// Asks the running journal, writes, and only then gives the file its name. A backup has a checksum at its end, which
    /// `restore` looks at.
    pub fn run(self) -> Result<(), CliError> {
        let folder = self.data.journal()?;
        let mut source = admin::request_backup(&folder)
            .map_err(|source| CliError::NoJournal { path: folder.display().to_string(), source })?;
        let mut partial = self.file.clone().into_os_string();
        partial.push(".partial");
        let partial = PathBuf::from(partial);
        let mut copy = || -> io::Result<u64> {
            let _ = fs::remove_file(&partial);
            // For its owner alone, like the data that it is a copy of.
            let mut out = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&partial)?;
            let bytes = io::copy(&mut source, &mut out)?;
            out.sync_all()?;
            fs::rename(&partial, &self.file)?;
            Ok(bytes)
        };
        let bytes = copy().inspect_err(|_| {
            // Nothing is there to remove when it could not even be made.
            let _ = fs::remove_file(&partial);
        });
        let bytes = bytes.map_err(CliError::io(format!("write {}", self.file.display())))?;
        println!("{}: {bytes} bytes", self.file.display());
        Ok(())
    }
}
